"""`shardql compare`: pages from files and servers, its output, its exit codes and its errors."""

import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from graphql_api.server.observability.metrics import Metric, Metrics
from tests.cli.simulated_servers import Traffic, simulate, text_of, without_times
from tests.server.observed_server import USERS, ObservedServer, observed_server
from tests.support.cli_runner import run

FIND = '{{ userByPhone(eq: "{}") {{ items {{ userId }} }} }}'
KNOWN_PHONES = [user.phone for user in USERS if user.phone is not None]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(path: str, metrics: Metrics, change: Callable[[str], str] = lambda text: text) -> str:
    """Save the page of a server, and return the name of the file."""
    Path(path).write_text(change(text_of(metrics)), encoding="utf-8")
    return path


def finds_nothing(output: str) -> bool:
    """Return whether the first three lines show that the searches by phone number find nothing any more."""
    name = 'shardql_empty_reads_total{entity="user", index="phone", kind="first_page"}'
    return any(name in line and line.endswith("  0 % → 100 % of reads") for line in output.splitlines()[:3])


def period_lines(output: str) -> list[str]:
    """Return the lines that describe the periods."""
    return [line for line in output.splitlines() if line.startswith(("before  ", "after   "))]


def send_searches(server: ObservedServer, phones: list[str], count: int = 30) -> None:
    """Search each of these phone numbers in turn."""
    for number in range(count):
        assert "errors" not in server.post(FIND.format(phones[number % len(phones)])).json()


# --- output ----------------------------------------------------------------------------------------------------


def test_changes_are_printed_first() -> None:
    """The output begins with a line for each change, the worst first. Then it describes both periods."""
    random = Random(3)
    save("old.txt", simulate(random, 400))
    save("new.txt", simulate(random, 300, Traffic(missing_share=0.9, error_share=0.4)), without_times)
    result = run("compare", "old.txt", "new.txt")
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    changes = lines[: lines.index("")]
    errors, share = [line for line in changes if "code=" in line], [line for line in changes if "empty_reads" in line]
    verdicts = [line.split()[0] for line in changes]
    assert verdicts == sorted(verdicts, key=["worse", "changed", "better"].index)
    assert len(share) == len(errors) == 1
    name = 'shardql_empty_reads_total{entity="thing", index="id", kind="key"}'
    assert re.fullmatch(rf"worse +{re.escape(name)} +\d\d\.\d % → \d\d.?\d? % of reads", share[0])
    assert re.fullmatch(
        r'worse +shardql_errors_total\{code="STORE_UNAVAILABLE"\} +0\.0\d+ → 0\.\d+ per operation', errors[0]
    )
    summary, before, after = lines[lines.index("") + 1 :]
    assert summary.startswith(f"{len(changes)} of ")
    assert "values changed by more than 50 %." in summary
    assert before.startswith("before  old.txt: 400 operations in 0 s, ")
    assert before.endswith(", since the start of the server")
    assert after == "after   new.txt: 300 operations, since the start of the server"


def test_nothing_has_changed() -> None:
    """Without a change the exit code is 0, and the number of compared values is printed."""
    random = Random(4)
    save("old.txt", simulate(random, 400))
    save("new.txt", simulate(random, 300))
    result = run("compare", "old.txt", "new.txt")
    assert result.exit_code == 0
    assert result.stdout.startswith("0 of ")
    assert result.stdout.splitlines()[1:] == period_lines(result.stdout)


def test_json_output() -> None:
    """The JSON has all compared values with their intervals, the worst first, and both periods."""
    random = Random(3)
    save("old.txt", simulate(random, 400))
    save("new.txt", simulate(random, 300, Traffic(missing_share=0.9)))
    result = run("compare", "old.txt", "new.txt", "--json", "--threshold", "20")
    assert result.exit_code == 1
    output = json.loads(result.stdout)
    first = output["values"][0]
    assert (first["verdict"], first["metric"]) == ("worse", "shardql_empty_reads_total")
    assert (first["labels"], first["unit"]) == ({"entity": "thing", "index": "id", "kind": "key"}, "of reads")
    for side, share in (("before", 0.2), ("after", 0.9)):
        assert first[side]["low"] < share < first[side]["high"]
        assert first[side]["samples"] > 100
    assert output["changed"] == sum(one["verdict"] in {"worse", "changed", "better"} for one in output["values"])
    assert (output["thresholdPercent"], output["confidencePercent"]) == (20, 99)
    assert (output["before"]["source"], output["before"]["operations"]) == ("old.txt", 400)
    assert output["after"]["since"] == "the start of the server"
    assert (output["onlyBefore"], output["onlyAfter"]) == ([], [])


@pytest.mark.parametrize(("threshold", "exit_code"), [("20", 1), ("50", 0)])
def test_threshold(threshold: str, exit_code: int) -> None:
    """`--threshold` sets the smallest change that is reported."""
    for name, errors in (("old.txt", 10_000), ("new.txt", 13_000)):
        metrics = Metrics()
        metrics.record(Metric.OPERATIONS, "ok", amount=100_000)
        metrics.record(Metric.ERRORS, "THROTTLED", amount=errors)
        save(name, metrics)
    assert run("compare", "old.txt", "new.txt", "--threshold", threshold).exit_code == exit_code


def test_values_of_one_period_are_counted() -> None:
    """Values whose events only one period has are counted in the last line."""
    for name, index in (("old.txt", "a"), ("new.txt", "b")):
        metrics = Metrics()
        metrics.record(Metric.OPERATIONS, "ok", amount=20)
        metrics.record(Metric.SEARCHES, "thing", index, "first_page", amount=20)
        metrics.record(Metric.SHARDS_ASKED, "thing", index, amount=20)
        save(name, metrics)
    last = run("compare", "old.txt", "new.txt").stdout.splitlines()[-1]
    assert last.endswith("only one period has such events: 1 of before, 1 of after (--json lists them).")


# --- servers ---------------------------------------------------------------------------------------------------


def test_a_file_and_a_server(folder: Path) -> None:
    """A saved page is compared with what the same server counts since then. A URL without a path means /metrics."""
    with observed_server(folder) as server:
        send_searches(server, KNOWN_PHONES)
        Path("before.txt").write_text(server.client.get("/metrics").text, encoding="utf-8")
        send_searches(server, ["1"], 40)
        address = str(server.client.base_url)
        result = run("compare", "before.txt", address)
        explicit = run("compare", "before.txt", f"{address}/metrics")
    assert result.exit_code == explicit.exit_code == 1
    assert finds_nothing(result.stdout)
    (after,) = period_lines(result.stdout)[1:]
    assert after.startswith(f"after   {address}: 40 operations in ")
    assert after.endswith(", since the first page")


def test_two_servers(folder: Path) -> None:
    """Two servers are compared from their start."""
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    with observed_server(folder / "a") as old, observed_server(folder / "b") as new:
        send_searches(old, KNOWN_PHONES, 40)
        send_searches(new, ["1"], 30)
        result = run("compare", str(old.client.base_url), str(new.client.base_url))
    assert finds_nothing(result.stdout)
    assert [line.partition(": ")[2].split(" ")[0] for line in period_lines(result.stdout)] == ["40", "30"]


def test_a_window_of_one_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--window` reads one server twice, and compares the time in between with the time before."""
    pauses: list[float] = []
    with observed_server(folder) as server:

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            send_searches(server, ["1"])

        monkeypatch.setattr(import_module("graphql_api.cli.commands.compare"), "time", SimpleNamespace(sleep=pause))
        send_searches(server, KNOWN_PHONES)
        result = run("compare", str(server.client.base_url), "--window", "2.5")
    assert pauses == [2.5]
    assert result.exit_code == 1
    assert finds_nothing(result.stdout)
    assert period_lines(result.stdout)[1].endswith(", since the first page")


# --- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["old.txt"], "Name a second page"),
        (["odl.txt", "old.txt"], "There is no file odl.txt. Did you mean 'old.txt'?"),
        (["127.0.0.1:8000", "old.txt"], "URLs begin with http://"),
        (["old.txt", "old.txt"], "old.txt has no operation since the first page"),
        (["cut.txt", "old.txt"], "cut.txt is cut off"),
        (["two.txt", "old.txt"], "is in it twice"),
        (["old.txt", "page.html"], "page.html is no page of metrics"),
        (["old.txt", "."], "Is a directory"),
        (["old.txt", "image"], "image is not UTF-8 text"),
        (["idle.txt", "old.txt"], "idle.txt has no operation since the start of the server"),
        (["old.txt", "http://127.0.0.1:1/metrics"], "http://127.0.0.1:1/metrics cannot be read: "),
        (["old.txt", "http://[::1"], "http://[::1 cannot be read: Invalid IPv6 URL."),
        (["old.txt", "--window", "5"], "--window needs the URL of a server"),
        (["http://127.0.0.1:1", "old.txt", "--window", "5"], "leave out the second page"),
        (["http://127.0.0.1:1", "--window", "0"], "--window is 0"),
        (["http://127.0.0.1:1", "--window", "nan"], "--window is nan"),
        (["old.txt", "new.txt", "--threshold", "-5"], "--threshold is -5"),
        (["old.txt", "new.txt", "--threshold", "inf"], "--threshold is inf"),
    ],
)
def test_mistakes(words: list[str], message: str) -> None:
    """A mistake ends the command with exit code 2, and a message that names the page and the remedy."""
    text = text_of(simulate(Random(1), 20))
    Path("old.txt").write_text(text, encoding="utf-8")
    Path("cut.txt").write_text(text[:3000], encoding="utf-8")
    Path("two.txt").write_text(text * 2, encoding="utf-8")
    Path("page.html").write_text("<html></html>\n", encoding="utf-8")
    Path("image").write_bytes(b"\x89PNG\xff")
    save("idle.txt", Metrics())
    result = run("compare", *words)
    assert result.exit_code == 2
    assert result.stderr.startswith("shardql: ")
    assert message in result.stderr


@pytest.mark.parametrize(("path", "status"), [("/nothing", 404), ("/graphql", 406)])
def test_other_paths_of_a_server(folder: Path, path: str, status: int) -> None:
    """A URL that is not that of the metrics is refused with the status of its response."""
    save("old.txt", simulate(Random(1), 20))
    with observed_server(folder) as server:
        result = run("compare", "old.txt", f"{server.client.base_url}{path}")
    assert result.exit_code == 2
    assert f"responds with status {status}. Use the URL of /metrics" in result.stderr
