"""`shardql verify`: output, exit codes, reports, comparisons, and the daemon with its metrics."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from graphql_api import open_catalog
from graphql_api.cli.process.verify_watch import PassSummary, WatchMetrics, served_metrics, watch
from graphql_api.errors import InvalidSettings, StoreUnavailable
from graphql_api.examples.issues import catalog, sample
from graphql_api.storage import Delete, Item, Key, Put
from graphql_api.storage.engines import opened_store
from graphql_api.verification import VerificationResult
from graphql_api.writes import item_key
from tests.support.cli_runner import plain_output, run
from tests.support.loopback import TIMEOUT
from tests.support.store_doubles import all_items

ISSUES = "graphql_api.examples.issues:catalog"


async def load(url: str) -> None:
    """Writes the sample data of the issue tracker."""
    async with open_catalog(catalog, url) as db:
        records = [*sample(12)]
        for kind in dict.fromkeys(map(type, records)):
            assert not any(await db.put_many([record for record in records if type(record) is kind]))


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A table with the sample data of the issue tracker."""
    store = f"sqlite:///{tmp_path / 'issues.db'}"
    asyncio.run(load(store))
    return store


def change(url: str, head: str, alter: Callable[[Item], Put | Delete]) -> None:
    """Changes the first item under a head of hash keys."""

    async def apply() -> None:
        async with opened_store(url) as store:
            item = next(one for one in await all_items(store) if one["hashKey"].startswith(f"{head}!"))
            assert await store.write([alter(item)]) == [None]

    asyncio.run(apply())


def without_index_key(item: Item) -> Put:
    """Removes a key of an index."""
    return Put({name: value for name, value in item.items() if name != "issueNumRangeKey"})


def with_unknown_state(item: Item) -> Put:
    """Stores a value that its enum does not have."""
    return Put({**item, "state": "lost"})


def deleted(item: Item) -> Delete:
    """Deletes the item."""
    return Delete(item_key(item))


def verify(url: str, *words: str) -> Any:
    """Runs the command on a table of the issue tracker."""
    return run("verify", ISSUES, "--store", url, *words)


# --- once ------------------------------------------------------------------------------------------------------


def test_a_healthy_table(url: str) -> None:
    """A healthy table exits with 0, and prints the items and the digest of each shard."""
    result = verify(url)
    assert result.exit_code == 0, result.output
    assert re.search(r"issue~unique +– +\d+ +[0-9a-f]{16}", result.stdout)
    assert "no findings." in result.stdout


def test_findings_are_printed_and_reported(url: str, tmp_path: Path) -> None:
    """Findings exit with 1, are printed with remedies, and are written to the report as JSON lines."""
    change(url, "issue", without_index_key)
    change(url, "project", deleted)
    report = tmp_path / "findings.jsonl"
    result = verify(url, "--report", str(report))
    assert result.exit_code == 1
    output = plain_output(result)
    assert "index-key 1" in output
    assert "issueNumRangeKey is missing" in output
    assert "missing-parent cannot be derived from other data. Create the referenced record" in output
    assert "Restore what can be derived with the option --repair." in output
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    (index_key,) = [line for line in lines if line["damage"] == "index-key"]
    assert index_key["elements"] == ["index issue.issueNum"]
    assert (index_key["isDerivable"], index_key["isRepaired"]) == (True, False)
    assert index_key["record"][0].startswith("issue!")
    assert all("remedy" in line for line in lines if line["damage"] == "missing-parent")


def test_a_repair_that_restores_everything(url: str) -> None:
    """A repair that restores all damage exits with 0, and the next verification finds nothing."""
    change(url, "issue", without_index_key)
    change(url, "issue~unique", deleted)
    result = verify(url, "--repair", "--json")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert (printed["remaining"], printed["repaired"]) == ({}, {"index-key": 1, "unique-item": 1})
    assert {one["isRepaired"] for one in printed["findings"]} == {True}
    assert verify(url).exit_code == 0


def test_a_repair_that_leaves_something(url: str) -> None:
    """A repair exits with 1 if something cannot be derived, and says what."""
    change(url, "issue", with_unknown_state)
    result = verify(url, "--repair")
    assert result.exit_code == 1
    assert "invalid-record cannot be derived from other data." in plain_output(result)


def test_json_has_counts_and_digests(url: str) -> None:
    """The JSON lists the items and the digest of each shard, and what was not verified."""
    printed = json.loads(verify(url, "--json").stdout)
    assert printed["items"] == sum(one["items"] for one in printed["shards"]) + 2
    assert all(re.fullmatch("[0-9a-f]{16}", one["digest"]) for one in printed["shards"])
    assert (printed["findings"], printed["unsettled"], printed["notVerified"]) == ([], [], [])


def test_ignored_kinds(url: str) -> None:
    """A kind of damage that is ignored is not reported."""
    change(url, "issue", with_unknown_state)
    assert verify(url, "--ignore", "invalid-record").exit_code == 0


def test_items_that_kept_changing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items that writers changed at every look are named, and the exit code is 1: they may be damaged."""

    async def unsettled(*_: object) -> VerificationResult:
        return VerificationResult(items=5, unsettled=[Key("issue!00", "issueId#x")])

    monkeypatch.setattr("graphql_api.cli.commands.verify.verify_table", unsettled)
    result = verify(url)
    assert result.exit_code == 1
    assert "unsettled items: 1" in plain_output(result)
    assert "issue!00 / issueId#x: writers changed it at every look, so it was not verified." in plain_output(result)


def test_a_sample(url: str) -> None:
    """A sample reads a part of the records, and says what it does not find."""
    result = verify(url, "--sample", "20")
    assert result.exit_code == 0
    assert "A sample does not find items that no record needs" in plain_output(result)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--metrics", "127.0.0.1:0"), "--metrics needs --watch"),
        (("--resume", "file"), "--resume needs --against"),
        (("--settle", "0"), "--settle needs --against"),
        (("--tenant", "acme"), "--tenant needs --sample"),
        (("--against", "sqlite:///x.db", "--repair"), "Choose --against or --repair"),
        (("--against", "sqlite:///x.db", "--sample", "5"), "Choose --against or --sample"),
        (("--against", "sqlite:///x.db", "--resume", "file", "--watch", "1"), "Choose --watch or --resume"),
        (("--ignore", "expird"), "'expird' is no kind of damage. Did you mean 'expired'?"),
        (("--watch", "1", "--metrics", "nowhere"), "Cannot serve metrics at nowhere"),
    ],
)
def test_usage_errors(url: str, words: tuple[str, ...], message: str) -> None:
    """Options that contradict each other, or have no effect, are usage errors."""
    result = verify(url, *words)
    assert result.exit_code == 2
    assert message in plain_output(result)


def test_no_table(tmp_path: Path) -> None:
    """A store without a table is an error that names the remedy, and no file is created."""
    file = tmp_path / "none.db"
    result = verify(f"sqlite:///{file}")
    assert result.exit_code == 3
    assert "There is no table. Create what is missing with: shardql table create" in plain_output(result)
    assert not file.exists()


def test_a_table_of_another_catalog(url: str) -> None:
    """A table that knows no entity of the catalog is refused: nothing of it would be verified."""
    result = run("verify", "graphql_api.examples.orders:catalog", "--store", url)
    assert result.exit_code == 3
    assert "The table belongs to other catalogs" in plain_output(result)


# --- two stores ------------------------------------------------------------------------------------------------


@pytest.fixture
def copy(url: str, tmp_path: Path) -> str:
    """A copy of the table."""
    copied = f"sqlite:///{tmp_path / 'copy.db'}"

    async def apply() -> None:
        async with opened_store(url) as store:
            items = await all_items(store)
            definition = await store.describe()
        async with opened_store(copied) as store:
            assert definition is not None
            await store.ensure_table(definition)
            assert not any(await store.write([Put(item) for item in items]))

    asyncio.run(apply())
    return copied


def test_equal_stores(url: str, copy: str) -> None:
    """Equal stores exit with 0, and each shard is shown as equal."""
    result = verify(url, "--against", copy)
    assert result.exit_code == 0, result.output
    assert "different" not in result.stdout


def test_different_stores(url: str, copy: str, tmp_path: Path) -> None:
    """Differences exit with 1, are printed, and are written to the report."""
    change(copy, "issue", with_unknown_state)
    change(copy, "tenant", deleted)
    report, progress = tmp_path / "differences.jsonl", tmp_path / "progress"
    words = ("--against", copy, "--settle", "0", "--report", str(report), "--resume", str(progress))
    result = verify(url, *words)
    assert result.exit_code == 1
    assert "missing 1" in plain_output(result)
    assert "different state" in plain_output(result)
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert {(line["difference"], line["record"][0].partition("!")[0]) for line in lines} == {
        ("missing", "tenant"),
        ("differs", "issue"),
    }
    assert not progress.exists()
    printed = json.loads(verify(url, "--against", copy, "--settle", "0", "--json").stdout)
    assert printed["remaining"] == {"missing": 1, "differs": 1}
    assert len(printed["differences"]) == 2


# --- again and again -------------------------------------------------------------------------------------------


@contextmanager
def daemon(url: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs the command as a daemon. Provides the process and the URL of its metrics."""
    command = [sys.executable, "-m", "graphql_api.cli", "verify", ISSUES, "--store", url, "--watch", "0.1"]
    with subprocess.Popen(  # noqa: S603 - constant
        [*command, "--metrics", "127.0.0.1:0", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+/metrics", line)
            assert found is not None, (line, process.stderr and process.stderr.read())
            yield process, found[0]
        finally:
            process.kill()


def metrics_at(address: str) -> dict[str, float]:
    """Returns the samples of a metrics page."""
    with urlopen(address, timeout=TIMEOUT) as response:  # noqa: S310 - loopback
        text = response.read().decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if line.startswith("shardql_"))
    return {name: float(value) for name, _, value in lines}


def wait_for(address: str, condition: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    """Reads metrics until a condition holds."""
    deadline = time.monotonic() + TIMEOUT
    while not condition(found := metrics_at(address)):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def test_the_daemon_counts_and_stops(url: str, tmp_path: Path) -> None:
    """The daemon verifies again and again, shows findings in metrics and report, and stops with 0 by SIGTERM."""
    report = tmp_path / "findings.jsonl"
    with daemon(url, "--report", str(report)) as (process, address):
        wait_for(address, lambda found: found['shardql_verify_passes_total{outcome="clean"}'] >= 2)
        change(url, "issue", without_index_key)
        found = wait_for(address, lambda found: found['shardql_verify_findings{kind="index-key"}'] == 1)
        assert found["shardql_verify_items_total"] > 0
        assert found["shardql_verify_last_pass_timestamp_seconds"] > 0
        assert found["shardql_verify_unsettled"] == 0
        assert json.loads(report.read_text())["damage"] == "index-key"
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 0


def test_the_daemon_repairs(url: str) -> None:
    """With --repair, each pass restores what was damaged since the last one, and counts it."""
    with daemon(url, "--repair", "--rate", "100000") as (_, address):
        change(url, "issue", without_index_key)
        found = wait_for(address, lambda found: found['shardql_verify_repaired_total{kind="index-key"}'] == 1)
        assert found['shardql_verify_findings{kind="index-key"}'] == 0
    assert verify(url).exit_code == 0


async def test_a_pass_that_fails_is_counted_and_repeated() -> None:
    """A pass that the store does not let complete is counted, and the next one runs. A signal cancels a pass."""
    metrics = WatchMetrics(("damage",))
    passes = 0

    async def run_pass() -> PassSummary:
        nonlocal passes
        passes += 1
        if passes == 1:
            raise StoreUnavailable("try again")
        if passes == 2:
            return PassSummary({"damage": 3}, {"damage": 2}, 1)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()
        raise AssertionError

    await watch(run_pass, metrics, 0.0)
    assert passes == 3
    with served_metrics(metrics, "127.0.0.1:0") as address:
        found = await asyncio.to_thread(metrics_at, address)
    assert found['shardql_verify_passes_total{outcome="failed"}'] == 1
    assert found['shardql_verify_passes_total{outcome="findings"}'] == 1
    assert found['shardql_verify_passes_total{outcome="clean"}'] == 0
    assert found['shardql_verify_findings{kind="damage"}'] == 3
    assert found['shardql_verify_repaired_total{kind="damage"}'] == 2


async def test_an_unexpected_error_ends_the_daemon() -> None:
    """An error that is no error of the store is raised: it would occur again."""

    async def run_pass() -> PassSummary:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await watch(run_pass, WatchMetrics(()), 0.0)


def test_a_port_in_use() -> None:
    """Metrics at a port that is in use are refused with the reason."""
    with served_metrics(WatchMetrics(()), "127.0.0.1:0") as address:
        second = served_metrics(WatchMetrics(()), address.removeprefix("http://").removesuffix("/metrics"))
        with pytest.raises(InvalidSettings, match="address already in use"):
            second.__enter__()
