"""The harness of `scripts/bench`: tiny runs, verdicts, reports and pictures."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.benchmarks import report
from tests.benchmarks.bench_run import LONG_WORKLOADS, WORKLOADS, chosen_workloads
from tests.benchmarks.bench_sizes import TINY
from tests.benchmarks.charts import line_chart
from tests.benchmarks.contestants import Contestants
from tests.benchmarks.dynamodb_workloads import FLOOR, canned_engine, canned_pages
from tests.benchmarks.fast_path import FAST, STOCK, fast_path_share
from tests.benchmarks.measurement import RELEASE, THIS_CODE, Row, Sample, Target, Turn, take_turns
from tests.benchmarks.page_workloads import SQLITE_FLOOR, sqlite_servers, walk_turns
from tests.benchmarks.release_source import release_commit
from tests.docs.pages import ROOT
from tests.support.dynamodb_servers import ENGINE, ServerUnavailable, engine_or_skip


@pytest.fixture
def contestants(tmp_path: Path) -> Iterator[Contestants]:
    """Those that need no further packages."""
    found = Contestants(tmp_path)
    with found.stack:
        yield found


def test_help_names_the_options() -> None:
    """`scripts/bench --help` installs nothing and lists the options."""
    script = ROOT / "scripts" / "bench"
    completed = subprocess.run([script, "--help"], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    for option in ("--full", "--hostile", "--json FILE", "--pictures", *WORKLOADS):
        assert option in completed.stdout


def test_servers_take_turns_on_sqlite(contestants: Contestants) -> None:
    """A tiny run walks the same pages on each server, compares their rows and counts their CPU time."""
    costs = walk_turns(sqlite_servers(contestants, TINY, 4), TINY, limit=20)
    assert {*costs} == {THIS_CODE, SQLITE_FLOOR}
    for each in costs.values():
        assert each.operations == TINY.rounds * TINY.pages
        assert each.seconds > 0


def test_the_canned_engine_replays(contestants: Contestants, request: pytest.FixtureRequest) -> None:
    """In a tiny run on the canned engine, every measured request of DynamoDB has a recorded reply."""
    with canned_engine(contestants) as engine:
        problem = ServerUnavailable(" ".join(contestants.skipped))
        row = canned_pages(contestants, engine_or_skip(engine or problem, ENGINE, request), TINY, 1)
    assert {*row.costs} == {THIS_CODE, FLOOR}
    assert row.notes[0].endswith("and passed on 0")
    assert "replayed 0" not in row.notes[0]


def test_different_rows_are_an_error() -> None:
    """A contestant that finds other rows, or another order, ends the run."""
    clock = iter(range(100))

    def turn(rows: list[int]) -> Turn:
        return Turn(lambda: float(next(clock)), lambda _: Sample(1, rows))

    turns = {"a": turn([1, 2]), "b": turn([2, 1])}
    with pytest.raises(AssertionError, match=r"(a and b|b and a) differ"):
        take_turns(1, turns)
    apart = {name: replace(each, group=name) for name, each in turns.items()}
    assert [each.mean for each in take_turns(2, apart).values()] == [1.0, 1.0]


def test_verdicts() -> None:
    """A row says of each target whether it is met, short, or not measured. Reports have the figures."""
    targets = [Target("slow", 2.0), Target("fast", 1.0), Target("absent", 1.0)]
    row = Row("a row", "µs", {THIS_CODE: 2e-6, "slow": 6e-6, "fast": 1e-6}, targets, notes=["a note"])
    assert [row.verdict(target) for target in targets] == ["met", "short", "n/a"]
    lines = report.format_row(row).splitlines()
    assert lines[0] == "a row (µs)"
    assert lines[2].split() == ["slow", "6.0", "3.000", ">=", "2", "met"]
    assert lines[-1].strip() == "a note"
    assert report.summary([row]) == "3 targets: 1 met, 1 short, 1 n/a"
    listed = json.loads(report.to_json({"seed": 1}, [row], ["node"]))
    assert listed["rows"][0]["missing"] == ["absent"]
    assert listed["rows"][0]["contestants"][1]["verdict"] == "met"
    assert listed["skipped"] == ["node"]


def test_words_choose_rows() -> None:
    """Words choose groups of rows. Long groups run if they are named, or with `--full`."""
    assert {*chosen_workloads((), full=False)} == {*WORKLOADS}
    assert {*chosen_workloads((), full=True)} == {*WORKLOADS, *LONG_WORKLOADS}
    assert [*chosen_workloads(("concur",), full=False)] == [*LONG_WORKLOADS]


def test_the_share_of_fast_operations() -> None:
    """The share comes from the metrics of the server. Without a fast path it is not available."""
    assert fast_path_share("shardql_operations_total 200.0\n") is None
    assert fast_path_share(f"{STOCK} 2.0\n") == 0.0
    assert fast_path_share(f"{STOCK} 1.0\n{FAST} 199.0\n") == 0.995


def test_pictures_show_every_series() -> None:
    """A chart is well-formed XML with a line and a name for each series."""
    series = {THIS_CODE: [(1, 2.0), (150, 4.0)], "a < b": [(1, 0.1), (150, 0.1)]}
    chart = ET.fromstring(line_chart("Cost", "shards", "ms", series))  # noqa: S314 - made here
    texts = [each.text for each in chart.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Cost", "shards", "ms", *series} <= {*texts}


def test_the_release_has_a_commit() -> None:
    """The release that is measured is a full commit id in `scripts/releases.txt`."""
    assert len(bytes.fromhex(release_commit(RELEASE.partition(" ")[2]))) == 20
