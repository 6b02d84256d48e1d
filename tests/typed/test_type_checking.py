"""A sample application, the project of `shardql new`, and planted mistakes under mypy --strict and pyright.

Each line of `application/mistakes.py` with a comment is a mistake. The comment is the begin of mypy's message. `plain`:
mypy finds the mistake without stubs. `mypy`: pyright does not find it.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.cli_runner import run
from tests.typed.type_checkers import Errors, run_mypy, run_pyright

APPLICATION = Path(__file__).parent / "application"
MISTAKES = "mistakes.py"
COMMENT = re.compile(r"  # ((?:plain|mypy)(?:, mypy)?: )?(.+)$")

pytestmark = pytest.mark.xdist_group("type checkers")  # they share a cache


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample application, its stubs, and the project of `shardql new`."""
    folder = tmp_path_factory.mktemp("typed") / "application"
    shutil.copytree(APPLICATION, folder)
    run("new", str(folder / "bookshop"))
    for module, place in (("people", folder), ("catalog", folder / "bookshop")):
        words = [sys.executable, "-m", "graphql_api.cli", "stubs", f"{module}:catalog"]
        done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=True)  # noqa: S603 - a fixed command
        assert done.stdout == f"{place / module}.pyi is written.\n"
    return folder


def planted(kind: str = "") -> Mapping[int, str]:
    """Return the message of each planted mistake by line. `kind`: only those whose comment contains the word."""
    found = {}
    for number, line in enumerate((APPLICATION / MISTAKES).read_text("utf-8").splitlines(), 1):
        comment = COMMENT.search(line)
        if comment is not None and kind in (comment[1] or ""):
            found[number] = comment[2]
    return found


def check_mistakes(errors: Errors, expected: Mapping[int, str]) -> None:
    """Check that the mistakes are all errors, on their lines and with their messages."""
    assert errors.keys() == {MISTAKES}, errors
    assert errors[MISTAKES].keys() == expected.keys()
    for line, message in expected.items():
        assert any(text.startswith(message) for text in errors[MISTAKES][line]), (line, errors[MISTAKES][line])


def test_more_than_ten_mistakes_of_each_kind_are_planted() -> None:
    """More than ten mistakes need stubs, and more than ten do not."""
    assert len(planted("plain")) > 10
    assert len(planted()) - len(planted("plain")) > 10


def test_mypy_with_stubs(application: Path) -> None:
    """The application and the new project have no errors, and every planted mistake has its message."""
    check_mistakes(run_mypy(application, "."), planted())


def test_mypy_without_stubs(application: Path) -> None:
    """The modules that stubs stand for have no errors either. Plain types find the mistakes that need no stubs."""
    files = ["people.py", "service.py", MISTAKES, "bookshop/catalog.py", "bookshop/test_catalog.py"]
    check_mistakes(run_mypy(application, *files), planted("plain"))


def test_pyright(application: Path) -> None:
    """Pyright, which editors run, finds the same mistakes in the same lines. The rest has no errors in strict mode."""
    strict = ["people.py", "people.pyi", "service.py", "bookshop"]
    (application / "pyrightconfig.json").write_text(json.dumps({"strict": strict}), "utf-8")
    errors = run_pyright(application)
    assert errors.keys() == {MISTAKES}, errors
    assert errors[MISTAKES].keys() == planted().keys() - planted("mypy").keys()


def test_the_sample_application_runs(application: Path) -> None:
    """What type checkers accept in the sample application also runs."""
    command = [sys.executable, "-W", "error", "service.py"]
    done = subprocess.run(command, cwd=application, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed command
    assert (done.stdout, done.stderr) == ("Ann Lee\n", "")
