"""Resolve the exports of a package on first use, so that importing the package is fast."""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def lazy_exports(package: str, file: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, which imports what the `if TYPE_CHECKING` block of its file lists."""

    @cache
    def modules() -> dict[str, str]:
        import ast  # noqa: PLC0415 - slow import
        from pathlib import Path  # noqa: PLC0415 - slow import

        (block,) = (node for node in ast.parse(Path(file).read_text("utf-8")).body if isinstance(node, ast.If))
        imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
        return {alias.name: node.module or "" for node in imports for alias in node.names}

    def resolve(name: str) -> Any:
        if name.startswith("__") or name not in modules():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules()[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return resolve
