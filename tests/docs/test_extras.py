"""What the package needs without its extras, and what it says if one is missing."""

import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.docs.pages import ROOT
from tests.docs.test_packaging import PROJECT
from tests.server.server_processes import environment, server_process

AWS_PACKAGES = {"aioboto3", "aiobotocore", "boto3", "botocore", "s3transfer", "jmespath"}
USERS = "graphql_api.examples.users:catalog"
HIDE_OTHER_PACKAGES = """
import sys

sys.path[:] = [path for path in sys.path if not path.endswith("site-packages")]
"""


def needed_distributions(requirements: list[str]) -> dict[str, Distribution]:
    """Return the installed packages that these requirements need, directly or not, by name."""
    found: dict[str, Distribution] = {}
    pending = [(Requirement(text), "") for text in requirements]
    while pending:
        requirement, extra = pending.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        installed = distribution(requirement.name)
        if requirement.name not in found or requirement.extras:
            found[requirement.name] = installed
            needed = [*map(Requirement, installed.requires or ())]
            pending += [(part, name) for name in ("", *requirement.extras) for part in needed]
    return found


def link_distributions(requirements: list[str], folder: Path) -> None:
    """Make the installed packages that these requirements need importable from a folder."""
    for installed in needed_distributions(requirements).values():
        for name in {file.parts[0] for file in installed.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (folder / name).exists():
                (folder / name).symlink_to(str(installed.locate_file(name)))


@pytest.fixture(scope="module")
def clean_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment whose Python has this package, and what `pip install .` installs: nothing else."""
    folder = tmp_path_factory.mktemp("site-packages")
    link_distributions(PROJECT["dependencies"], folder)
    (folder / "graphql_api").symlink_to(ROOT / "graphql_api")
    (folder / "sitecustomize.py").write_text(HIDE_OTHER_PACKAGES)
    return {"PYTHONPATH": str(folder)}


def run(clean: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the package in the clean environment."""
    line = [sys.executable, "-m", "graphql_api.cli", *words]
    return subprocess.run(line, env=environment(**clean), cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603


def test_no_aws_package_is_needed() -> None:
    """The dependencies without extras, and theirs, contain no AWS package."""
    assert not AWS_PACKAGES & needed_distributions(PROJECT["dependencies"]).keys()
    assert needed_distributions(PROJECT["optional-dependencies"]["dynamodb"]).keys() >= {"aioboto3", "botocore"}


def test_sqlite_is_served_without_extras(clean_environment: dict[str, str], tmp_path: Path) -> None:
    """Loading, checking, templates and serving work where no AWS package is installed."""
    for words in (
        ("load", USERS, "--sample", "3", "--store", "sqlite:///u.db"),
        ("doctor", USERS, "--store", "sqlite:///u.db"),
        ("table", "template", USERS),
    ):
        result = run(clean_environment, tmp_path, *words)
        assert result.returncode in (0, 1), (words, result.stderr)
        assert "Traceback" not in result.stderr
    with server_process(tmp_path, USERS, "--store", "sqlite:///u.db", **clean_environment) as server:
        assert len(server.execute("{ users { items { userId } } }")["data"]["users"]["items"]) == 3


def test_a_missing_extra_is_one_sentence(clean_environment: dict[str, str], tmp_path: Path) -> None:
    """Each command with a DynamoDB store names the package and how to install it."""
    for words in (("load",), ("serve",)):
        more = ("--sample", "3") if words == ("load",) else ()
        result = run(clean_environment, tmp_path, *words, USERS, "--store", "dynamodb://t?region=x", *more)
        assert result.returncode == 2, result.stderr
        problem = "dynamodb:// needs the package aioboto3: install it with pip install 'shardql[dynamodb]'."
        assert problem in " ".join(result.stderr.split())
        assert "Traceback" not in result.stderr
