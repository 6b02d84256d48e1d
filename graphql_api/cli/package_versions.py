"""Versions of installed packages."""

from importlib.metadata import PackageNotFoundError, version


def version_of(package: str) -> str:
    """Return the installed version of a package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "from source"
