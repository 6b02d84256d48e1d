"""Module paths and names in the documents about the architecture agree with the source."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, page_name

PACKAGE = ROOT / "graphql_api"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
QUERY = PACKAGE / "query" / "README.md"
PAGES = [
    *(ROOT / name for name in ("CONTRIBUTING.md", "docs/architecture.md", "docs/glossary.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
    QUERY,
]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`((?!/)[\w./-]*/[\w./-]*|[\w-]+\.(?:py|toml|lock|graphql))(?: [^`]*)?`")
"""A text in backticks with a slash, such as `query/planner.py`, or a file name. Words after a space are arguments."""
GENERATED = {"tests/browser/screenshots"}
"""Paths that a fresh clone does not contain."""
NAME = r"`([A-Za-z_][\w.]*)`"
NAMES = rf"{NAME}(?:(?:, | and ){NAME})*"
AFTER_PATH = re.compile(rf"`([\w/]+\.py)`: ({NAMES})")
BEFORE_PATH = re.compile(rf"({NAMES}) in `([\w/]+\.py)`")
STEP = re.compile(r"^\| *\d* *\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
MODULE = re.compile(r"^\| [^|]+ \| ((?:`[\w/]+`(?:, )?)+) \| [^|]+ \|$", re.MULTILINE)


def missing_paths(page: Path) -> list[str]:
    """Return the paths on a page that do not exist below the package, the repository, or the folder of the page.

    A file name may omit its folder after another path of the line: `storage/port.py` or `values.py`.
    """
    missing = []
    for line in FENCED.sub("", page.read_text(encoding="utf-8")).splitlines():
        folders = set[Path]()
        for path in PATH.findall(line):
            candidates = [PACKAGE / path, ROOT / path, page.parent / path, page.parent / f"{path}.py"]
            if "/" not in path:
                candidates += [folder / path for folder in folders]
            found = [candidate for candidate in candidates if candidate.exists()]
            folders |= {candidate if candidate.is_dir() else candidate.parent for candidate in found}
            if not found and path not in GENERATED:
                missing.append(path)
    return missing


def definitions(module: Path) -> set[str]:
    """Return the names that a module or a folder of modules defines: `Class`, `function`, `Class.member`, `member`."""
    if module.is_dir():
        return {name for file in module.rglob("*.py") for name in definitions(file)}
    tree = ast.parse(module.read_text(encoding="utf-8"))
    names = {*_defined(tree)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            members = {*_defined(node)}
            names |= members | {f"{node.name}.{member}" for member in members}
    return names


def _defined(scope: ast.Module | ast.ClassDef) -> Iterator[str]:
    for node in scope.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name


def named_definitions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path of a module and a name next to it.

    A step table has paths in one cell and names in the next, in pairs if there are several paths.
    Elsewhere a name follows its path, or precedes it with `in`.
    """
    for files, functions in STEP.findall(text):
        paths, names = PATH.findall(files), re.findall(NAME, functions)
        if len(paths) == 1:
            paths *= len(names)
        yield from zip(paths, names, strict=True)
    for match in AFTER_PATH.finditer(text):
        yield from ((match[1], name) for name in re.findall(NAME, match[2]))
    for match in BEFORE_PATH.finditer(text):
        yield from ((match[match.re.groups], name) for name in re.findall(NAME, match[1]))


def undefined_names(text: str) -> list[str]:
    """Return the names that their module does not define."""
    return [
        f"{name} in {path}"
        for path, name in named_definitions(text)
        if not (PACKAGE / path).exists() or name not in definitions(PACKAGE / path)
    ]


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_paths_exist(page: Path) -> None:
    """Every path in backticks exists, relative to the package, the repository or the page."""
    assert missing_paths(page) == []


def test_names_are_defined_in_their_modules() -> None:
    """Every name next to a module path on the architecture page is defined in that module."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    assert len([*named_definitions(text)]) > 60
    assert undefined_names(text) == []


def test_steps_of_a_search_name_modules() -> None:
    """Every module in the step table of `query/README.md` is a module of `query`, or a package."""
    modules = [
        name for cell in MODULE.findall(QUERY.read_text(encoding="utf-8")) for name in re.findall(r"`(.+?)`", cell)
    ]
    assert len(modules) > 15
    assert [
        name
        for name in modules
        if not (QUERY.parent / f"{name}.py").is_file() and not (PACKAGE / name / "__init__.py").is_file()
    ] == []


def test_wrong_paths_are_detected(tmp_path: Path) -> None:
    """Missing files and folders are detected, with arguments and without a folder. Texts and URL paths are ignored."""
    page = tmp_path / "page.md"
    page.write_text(
        "`query/planner.py`, `page_token.py`, `tests/laws`, `scripts/test --deep`, `/healthz`, `a, b`\n"
        "`query/plans.py`, `page_token.py`, `tests/rules`, `scripts/tests --deep`\n"
        "```text\n`query/missing.py`\n```\n",
        encoding="utf-8",
    )
    assert missing_paths(page) == ["query/plans.py", "page_token.py", "tests/rules", "scripts/tests"]


@pytest.mark.parametrize(
    ("text", "undefined"),
    [
        ("| 1 | `query/planner.py` | `plan_search` | Plans. |", []),
        ("| | `query/planner.py` | `plan_searches` | Plans. |", ["plan_searches in query/planner.py"]),
        ("| 2 | `query/gone.py` | `plan_search` | Plans. |", ["plan_search in query/gone.py"]),
        (
            "| | `query/token_seal.py`, `query/page_token.py` | `unpack`, `TokenSeal.open` | Opens. |",
            ["unpack in query/token_seal.py", "TokenSeal.open in query/page_token.py"],
        ),
        ("| 3 | `storage/port.py` | `Store.read_ranges`, `Store.read` | Reads. |", ["Store.read in storage/port.py"]),
        ("| a limit | `query/search_request.py`: `parse_paging`, `MAX`; more | |", ["MAX in query/search_request.py"]),
        ("Uses `plan_search` and `Plan` in `query/planner.py`.", ["Plan in query/planner.py"]),
    ],
)
def test_wrong_names_are_detected(text: str, undefined: list[str]) -> None:
    """A name that its module does not define is detected, in a step table, after a path and before a path."""
    assert undefined_names(text) == undefined
