"""Declared, locked and installed packages agree."""

import re
import tomllib
from itertools import chain

import pytest
from packaging.requirements import Requirement

import graphql_api
from tests.docs.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
LOCKED = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK, re.MULTILINE))


def test_lock_serves_every_declared_package() -> None:
    """The lock contains each declared package at a version within the declared range."""
    declared = [*PROJECT["dependencies"], *chain.from_iterable(PROJECT["optional-dependencies"].values())]
    requirements = [Requirement(text) for text in declared]
    assert [str(each) for each in requirements if not each.specifier.contains(LOCKED.get(each.name, "0"))] == []


INTERPRETERS = "tests/interpreters/packages.lock"
LOCKS = ["requirements.lock", "tests/benchmarks/contestants.lock", "demo/requirements.txt", INTERPRETERS]


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_pins_by_hash_and_names_no_source(lock: str) -> None:
    """Each line of a lock is a pinned package with hashes, without an index, host or path."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    requirements = re.sub(r"\s*\\\n\s*", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)).strip().splitlines()
    pinned = re.compile(r"[a-z0-9-]+==\S+( ; [a-z_]+ != \"[a-z0-9]+\")?( --hash=sha256:[0-9a-f]{64})+")
    assert [line for line in requirements if not pinned.fullmatch(line)] == []
    assert len(requirements) == len(re.findall(r"^[a-z0-9-]+==", text, re.MULTILINE)) > 0
    assert not re.search(r"://|--index|--find-links|--trusted-host", text)


def test_other_interpreters_get_the_same_packages() -> None:
    """The packages for other interpreters are those of an application, at the versions of all other tests."""
    text = (ROOT / INTERPRETERS).read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))
    needed = {Requirement(text).name.partition("[")[0] for text in PROJECT["dependencies"]}
    assert pinned.items() <= LOCKED.items()
    assert needed <= pinned.keys()
    assert not pinned.keys() & {"aioboto3", "moto", "mypy"}


def test_each_supported_python_is_tried() -> None:
    """The classifiers, the lowest version and the versions that `scripts/interpreters` tries agree."""
    names = "\n".join(PROJECT["classifiers"])
    versions = re.findall(r"^Programming Language :: Python :: (3\.\d+)$", names, re.MULTILINE)
    script = (ROOT / "scripts" / "interpreters").read_text("utf-8")
    tried = re.search(r"^for version in (.+); do$", script, re.MULTILINE)
    assert tried is not None
    assert tried[1].split() == versions
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_types_are_published() -> None:
    """The package publishes its type annotations."""
    assert (ROOT / "graphql_api" / "py.typed").is_file()
    assert graphql_api.__name__ == PROJECT["scripts"]["shardql"].partition(".")[0]


def test_scripts_stay_small() -> None:
    """No script has more than 15 lines."""
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file()]
    assert scripts
    assert [path.name for path in scripts if len(path.read_text(encoding="utf-8").splitlines()) > 15] == []


def test_commit_hooks_run_the_checks() -> None:
    """Each hook of pre-commit runs a tool that `scripts/check` runs too."""
    config = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    tools = re.findall(r"entry: \.venv/bin/(?:python -m )?([\w.-]+)", config)
    assert len(tools) == config.count("- id:") > 0
    checks = (ROOT / "scripts" / "check").read_text(encoding="utf-8")
    assert [tool for tool in tools if tool not in checks] == []
