"""`shardql project`: applying a file, its findings, dead letters, and the operations of a dry run."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_runner import plain_output, run

GRAPH = "tests.projections.account_projections:GRAPH"
OPENED = {"stream": "a", "seq": 1, "type": "Opened", "data": {"accountId": "a", "owner": "ann", "at": "1"}}


def moved(seq: int, balance: int) -> dict[str, Any]:
    """An event of the account."""
    return {"stream": "a", "seq": seq, "type": "Moved", "data": {"accountId": "a", "balance": balance, "at": f"{seq}"}}


class Bank:
    """A file of events and a store, and the command on both."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "events.jsonl"
        self.store = f"sqlite:///{folder / 'bank.db'}"

    def write(self, *events: dict[str, Any] | str) -> None:
        """Write the lines of the file."""
        lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
        self.file.write_text("\n".join(lines), "utf-8")

    def project(self, *words: str, source: str = "bank", code: int = 0) -> str:
        """Run the command on the file, and return its output."""
        return self.run(str(self.file), *words, source=source, code=code)

    def letters(self, action: str, *words: str, code: int = 0) -> str:
        """Run the command on dead letters."""
        return self.run("--dead-letters", action, *words, code=code)

    def run(self, *words: str, source: str = "bank", code: int = 0) -> str:
        result = run("project", GRAPH, *words, "--source", source, "--store", self.store)
        assert result.exit_code == code, result.output
        return plain_output(result)


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    """A file and a store that do not exist yet."""
    return Bank(tmp_path)


def test_a_file_is_applied_once(bank: Bank) -> None:
    """The command says what each projection has applied, and a second run skips it."""
    bank.write(OPENED, moved(2, 5))
    assert "2 events read. accounts: 2 applied, 0 applied before, 0 dead letters" in bank.project()
    assert "accounts: 0 applied, 2 applied before, 0 dead letters" in bank.project()


def test_missing_events_are_findings(bank: Bank) -> None:
    """The exit code is 1, and the output names the stream and the missing event."""
    bank.write(OPENED, moved(3, 5), moved(4, 6))
    assert "! accounts: the event 2 of a is missing: 2 events after it waited." in bank.project(code=1)
    bank.write(OPENED, moved(2, 1), moved(3, 5), moved(4, 6))
    assert "accounts: 3 applied, 1 applied before" in bank.project()


def test_a_stream_that_stops_is_a_finding(bank: Bank) -> None:
    """The output names the dead letter at which it has stopped."""
    bank.write({**moved(0, 5)}, moved(1, 6))
    output = bank.project(source="careful", code=1)
    assert "! careful_accounts: a has stopped at the dead letter of the event 0." in output


def test_dead_letters_are_listed_retried_and_dropped(bank: Bank) -> None:
    """Each action names the letters and what became of them."""
    bank.write(OPENED, moved(2, 13), moved(3, 5), "no event")
    output = bank.project(code=1)
    assert "4 events read, 1 line that are no events." in output
    assert "--dead-letters list shows why" in output
    listed = bank.letters("list", code=1)
    assert "accounts:2:a" in listed
    assert "unlucky balance" in listed
    assert "unreadable:" in listed
    assert "accounts:2:a: late: Later events of its stream were applied" in bank.letters("retry", code=1)
    output = bank.letters("retry", "--late", "--letter", "accounts:2:a", code=1)
    assert "accounts:2:a: failed: accounts raised an error" in output
    assert "accounts:2:a: dropped" in bank.letters("drop", "--letter", "accounts:2:a", "--yes")
    assert "no dead letter 'accounts:2:a'" in bank.letters("drop", "--letter", "accounts:2:a", "--yes", code=2)
    assert "dropped" in bank.letters("drop", "--yes")
    assert "There are no dead letters." in bank.letters("list")
    assert "accounts: 0 applied, 3 applied before, 0 dead letters" in bank.project()


def test_dropping_asks_first(bank: Bank) -> None:
    """Without --yes and without an answer, nothing is dropped."""
    bank.write("no event")
    bank.project(code=1)
    assert "nothing was changed" in bank.letters("drop", code=1) or "Abort" in bank.letters("drop", code=1)
    assert "unreadable:" in bank.letters("list", code=1)


def test_results_can_be_json(bank: Bank) -> None:
    """With --json, each result is one document."""
    bank.write(OPENED, moved(2, 13), moved(4, 1))
    result = run("project", GRAPH, str(bank.file), "--source", "bank", "--store", bank.store, "--json")
    assert json.loads(result.stdout)["projections"]["accounts"] == {
        "applied": 1,
        "repeated": 0,
        "deadLetters": 1,
        "gaps": [{"stream": "a", "missing": 3, "waiting": 1}],
        "stopped": [],
    }
    listed = run("project", GRAPH, "--dead-letters", "list", "--source", "bank", "--store", bank.store, "--json")
    (letter,) = json.loads(listed.stdout)
    assert letter["id"] == "accounts:2:a"
    assert json.loads(letter["event"])["data"]["balance"] == 13


def test_tenants_have_their_own_streams(bank: Bank) -> None:
    """Events of one tenant do not move the positions of another one."""
    bank.write(OPENED)
    assert "accounts: 1 applied" in bank.project("--tenant", "one")
    assert "accounts: 1 applied" in bank.project("--tenant", "two")
    assert "accounts: 0 applied" in bank.project("--tenant", "one")


def test_a_dry_run_shows_operations_and_changes_nothing(bank: Bank, tmp_path: Path) -> None:
    """Each event is shown with the operations of each projection, without a store."""
    bank.write(OPENED, moved(2, 13), "no event", {"seq": 3, "type": "Other"})
    output = bank.project("--dry-run", code=1)
    assert "a 1 Opened, accounts: Set(Account(account_id='a', owner='ann'" in output
    assert "a 2 Moved, accounts: ! accounts raised an error for Moved" in output
    assert "(log) 3 Other, statements: nothing" in output
    assert "! The event is not JSON" in output
    assert not (tmp_path / "bank.db").exists()
    result = run("project", GRAPH, str(bank.file), "--source", "bank", "--dry-run", "--json")
    first = json.loads(result.stdout.splitlines()[0])
    assert (first["projection"], first["seq"]) == ("accounts", 1)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "Provide FILE or --dead-letters"),
        (["--dead-letters", "list", "--late"], "--late needs --dead-letters retry"),
        (["--dead-letters", "list", "--letter", "x"], "--letter needs --dead-letters retry or drop"),
        (["--dead-letters", "list", "--watch"], "--watch needs FILE"),
        (["FILE", "--watch", "--dry-run"], "Choose --watch or --dry-run"),
        (["FILE", "--yes"], "--yes needs --dead-letters drop"),
    ],
)
def test_options_that_do_not_fit_are_refused(bank: Bank, words: list[str], problem: str) -> None:
    """The message names the options."""
    bank.write(OPENED)
    assert problem in bank.run(*(str(bank.file) if word == "FILE" else word for word in words), code=2)


def test_an_unknown_source_is_refused(bank: Bank) -> None:
    """The message names the closest source."""
    bank.write(OPENED)
    assert "There is no source 'bnak'. Did you mean 'bank'?" in bank.project(source="bnak", code=2)


def test_doctor_shows_sources_and_dead_letters(bank: Bank) -> None:
    """Each source is listed with its projections and who may post; events that were not applied are findings."""
    bank.write(OPENED, moved(2, 13))
    bank.project(code=1)
    output = plain_output(run("doctor", GRAPH, "--store", bank.store))
    assert "Events of bank are applied by accounts, statements, posted by members of Feed." in output
    assert "Events of careful are applied by careful_accounts, no client may post them over HTTP." in output
    assert f"1 event of bank could not be applied. List them: shardql project {GRAPH} --source bank" in output


def test_verify_knows_the_items_of_projections(bank: Bank) -> None:
    """Positions and dead letters are no damage, and the table's description names nothing unknown."""
    bank.write(OPENED, moved(2, 13), "no event")
    bank.project(code=1)
    result = run("verify", GRAPH, "--store", bank.store)
    assert result.exit_code == 0, result.output
    described = run("table", "describe", GRAPH, "--store", bank.store)
    assert described.exit_code == 0, described.output
    assert "unknown" not in described.output
