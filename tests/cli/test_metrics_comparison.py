"""Two periods of metrics: which values are compared, what counts as a change, and in which order changes are listed."""

from collections.abc import Callable
from math import inf
from random import Random

import pytest

from graphql_api.cli.comparison.metrics_comparison import BASES, Comparison, Difference, compare_periods
from graphql_api.cli.comparison.metrics_page import MetricsPage, Period, parse_page, periods
from graphql_api.errors import InvalidValue
from graphql_api.runtime.request_statistics import RequestStatistics
from graphql_api.server.observability.metrics import Metric, Metrics
from tests.cli.simulated_servers import CATALOG, SHARDS, Traffic, page_of, simulate, text_of, without_times

THRESHOLD = 0.5


def compared(before: MetricsPage, after: MetricsPage, threshold: float = THRESHOLD) -> Comparison:
    """Compare two pages."""
    return compare_periods(*periods(before, after), threshold)


def describe(difference: Difference) -> str:
    """Return the verdict, the metric and the label values of a difference: `worse empty_reads a first_page thing`."""
    name = difference.metric.removeprefix("shardql_").removesuffix("_total")
    return " ".join([difference.verdict, name, *sorted(value for _, value in difference.labels)])


# --- what is compared ------------------------------------------------------------------------------------------


def test_each_counter_has_a_basis() -> None:
    """The comparison knows what each counter of ShardQL is divided by."""
    assert BASES.keys() == {metric for metric in Metric if metric.kind == "counter"}
    for metric, bases in BASES.items():
        for basis in bases:
            assert {*basis.by, *basis.summed} <= {*metric.labels}


def test_values_per_event() -> None:
    """Shares are those of the same reads, and means are per read, search, operation or store call."""
    metrics = Metrics()
    metrics.declare_catalog(CATALOG)
    for number in range(20):
        statistics = RequestStatistics(records_read=6)
        index = statistics.of_index("thing", "a")
        index.add_read("first_page", is_empty=number < 5, returned=2)
        index.shards_asked, index.records_read = 16, 3
        by_key = statistics.of_index("thing", "id")
        by_key.add_read("key", is_empty=number < 10, returned=1)
        by_key.add_read("key", is_empty=False, returned=1)
        metrics.record_reads(statistics)
        metrics.record(Metric.OPERATIONS, "ok" if number else "errors")
        metrics.record(Metric.STORE_CALLS, "read_ranges", "ok" if number < 15 else "THROTTLED")
        metrics.record(Metric.STORE_CALLS, "get_many", "ok", amount=3)
        metrics.record(Metric.STORE_RETRIES, amount=2)
        metrics.record(Metric.STORE_HEDGES)
        metrics.record(Metric.HTTP_REQUESTS, "graphql", "200" if number < 18 else "503")
    metrics.record(Metric.HTTP_REQUESTS, "other", "404", amount=20)
    page = page_of(metrics)
    found = {
        (describe(one).partition(" ")[2], one.unit): (one.before.value, one.before.samples)
        for one in compared(page, page_of_other_run(page)).differences
        if one.before.value
    }
    assert found == {
        ("operations errors", "of operations"): (0.05, 20),
        ("http_requests 503 graphql", "of requests"): (0.1, 20),
        ("http_requests 404 other", "of requests"): (1, 20),
        ("searches a first_page thing", "per operation"): (1, 20),
        ("key_reads thing", "per operation"): (2, 20),
        ("empty_reads a first_page thing", "of reads"): (0.25, 20),
        ("empty_reads id key thing", "of reads"): (0.25, 20),
        ("shards_asked a thing", "per search"): (16, 20),
        ("records_read a thing", "per read"): (3, 15),
        ("records_returned a thing", "per read"): (2, 15),
        ("records_returned id thing", "per read"): (1, 20),
        ("store_calls THROTTLED read_ranges", "of calls"): (0.25, 20),
        ("store_calls read_ranges", "per operation"): (1, 20),
        ("store_calls get_many", "per operation"): (3, 20),
        ("store_retries", "per store call"): (0.5, 20),
        ("store_hedges", "per store call"): (0.25, 20),
    }


def page_of_other_run(page: MetricsPage) -> MetricsPage:
    """Return the same page of another run of the server."""
    counts = page.servers[""]
    return MetricsPage("other", {"": type(counts)(counts.samples, (counts.start or 0) + 1, counts.time)})


# --- what counts as a change -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_random_differences_are_no_changes(seed: int) -> None:
    """Of two periods with the same behaviour, nothing is reported, however few operations they have."""
    random = Random(seed)
    for operations in ((5, 500), (30, 30), (200, 400)):
        before, after = (page_of(simulate(random, count)) for count in operations)
        comparison = compared(before, after, 0.2)
        assert [describe(one) for one in comparison.changes] == []


@pytest.mark.deep
def test_random_differences_are_rarely_changes() -> None:
    """Of 300 pairs of periods with the same behaviour, hardly any value is reported as changed."""
    random = Random(1)
    changes = [
        describe(one)
        for _ in range(300)
        for one in compared(page_of(simulate(random, 300)), page_of(simulate(random, 300)), 0.2).changes
    ]
    assert len(changes) <= 3


PLANTED: list[tuple[Traffic, str]] = [
    (Traffic(empty_shares={"a": 0.9, "b": 0.05, "c": 0.3, "d": 0.9}), "worse empty_reads a first_page thing"),
    (Traffic(empty_shares={"a": 0.01, "b": 0.05, "c": 0.95, "d": 0.9}), "worse empty_reads c first_page thing"),
    (Traffic(missing_share=0.9), "worse empty_reads id key thing"),
    (Traffic(slow_shards=[3]), "worse shard_read_seconds thing!03"),
    (Traffic(slow_index="b"), "worse index_read_seconds b thing"),
    (Traffic(records_factor={"a": 1, "b": 20, "c": 1, "d": 1}), "worse records_read b thing"),
    (Traffic(error_share=0.4), "worse errors STORE_UNAVAILABLE"),
    (Traffic(failing_call_share=0.5), "worse store_calls STORE_UNAVAILABLE get_many"),
    (Traffic(retries=0.9), "worse store_retries"),
    (Traffic(calls_per_operation=10), "worse store_calls get_many"),
]


@pytest.mark.parametrize(("traffic", "expected"), PLANTED, ids=[expected for _, expected in PLANTED])
def test_planted_changes_are_found(traffic: Traffic, expected: str) -> None:
    """A change of one behaviour is among the first three reported values, whatever the noise of the others."""
    random = Random(2)
    before, after = simulate(random, 600), simulate(random, 500, traffic)
    found = [describe(one) for one in compared(page_of(before), page_of(after)).changes]
    assert expected in found[:3]
    back = [describe(one) for one in compared(page_of(after), page_of(before)).changes]
    assert expected not in back
    assert any(line.partition(" ")[2] == expected.partition(" ")[2] for line in back)


@pytest.mark.parametrize(
    ("traffic", "cause"),
    [
        (Traffic(slow_shards=[3]), "worse shard_read_seconds thing!03"),
        (Traffic(slow_shards=[3], slowness=200, delay=4), "worse shard_read_seconds thing!03"),
        (Traffic(slow_shards=[3, 7], slowness=100), "worse shard_read_seconds thing!0"),
        (Traffic(slow_index="b", slowness=60), "worse index_read_seconds b thing"),
        (Traffic(slow_shards=range(SHARDS), slowness=60), "worse operation_seconds"),
    ],
)
def test_causes_of_long_durations_rank_first(traffic: Traffic, cause: str) -> None:
    """A part that is slower ranks before the whole. If most shards and indexes are slower, the whole ranks first."""
    random = Random(5)
    comparison = compared(page_of(simulate(random, 500)), page_of(simulate(random, 500, traffic)))
    found = [(describe(one), one.is_consequence) for one in comparison.changes if one.verdict == "worse"]
    assert found[0][0].startswith(cause)
    assert [is_consequence for _, is_consequence in found] == [not line.startswith(cause) for line, _ in found]
    assert len(found) > 2


def share_page(empty: int, reads: int, *, operations: int | None = None) -> MetricsPage:
    """Return the page of a server with this number of searches, some of them empty."""
    metrics = Metrics()
    metrics.record(Metric.SEARCHES, "thing", "a", "first_page", amount=reads)
    metrics.record(Metric.EMPTY_READS, "thing", "a", "first_page", amount=empty)
    metrics.record(Metric.OPERATIONS, "ok", amount=reads if operations is None else operations)
    return page_of(metrics)


def empty_reads(before: MetricsPage, after: MetricsPage, threshold: float = THRESHOLD) -> Difference:
    """Compare the shares of empty reads."""
    (found,) = [one for one in compared(before, after, threshold).differences if "empty" in one.metric]
    return found


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (share_page(0, 9), share_page(9, 9), "undecided"),
        (share_page(0, 10), share_page(10, 10), "worse"),
        (share_page(0, 1_000_000), share_page(1, 1), "undecided"),
        (share_page(0, 1_000_000), share_page(4, 20), "undecided"),
        (share_page(0, 1_000_000), share_page(5, 20), "worse"),
        (share_page(0, 1_000, operations=9), share_page(1_000, 1_000), "undecided"),
        (share_page(100, 1_000), share_page(145, 1_000), "same"),
        (share_page(100, 1_000), share_page(180, 1_000), "undecided"),
        (share_page(1_000, 10_000), share_page(1_800, 10_000), "worse"),
        (share_page(1_800, 10_000), share_page(1_000, 10_000), "changed"),
        (share_page(5, 10), share_page(5, 10), "same"),
        (share_page(0, 10), share_page(0, 10), "same"),
    ],
)
def test_few_events_are_no_change(before: MetricsPage, after: MetricsPage, verdict: str) -> None:
    """A change needs ten samples on both sides, five occurrences, and intervals further apart than the threshold.

    The searches of one operation are not independent, so there are at most as many samples as operations.
    """
    assert empty_reads(before, after).verdict == verdict


def test_the_threshold_is_exclusive() -> None:
    """With many samples, a change is reported if it is larger than the threshold, in both directions."""
    before, after = share_page(100_000, 1_000_000), share_page(130_000, 1_000_000)
    assert empty_reads(before, after, 0.2).verdict == "worse"
    assert empty_reads(after, before, 0.2).verdict == "changed"
    assert empty_reads(before, after, 0.4).verdict == "same"


def test_rare_new_events_rank_low() -> None:
    """A rare new error is reported, after a frequent failure whose factor is smaller."""
    before, after = Metrics(), Metrics()
    for metrics, empty, errors in ((before, 1_000, 0), (after, 9_000, 50)):
        metrics.record(Metric.OPERATIONS, "ok", amount=10_000)
        metrics.record(Metric.SEARCHES, "thing", "a", "first_page", amount=10_000)
        metrics.record(Metric.EMPTY_READS, "thing", "a", "first_page", amount=empty)
        metrics.record(Metric.ERRORS, "THROTTLED", amount=errors)
    found = [describe(one) for one in compared(page_of(before), page_of(after)).changes]
    assert found == ["worse empty_reads a first_page thing", "worse errors THROTTLED"]


# --- histograms ------------------------------------------------------------------------------------------------


def seconds_page(*durations: float) -> MetricsPage:
    """Return the page of a server with operations of these durations."""
    metrics = Metrics()
    for seconds in durations:
        metrics.record(Metric.OPERATION_SECONDS, amount=seconds)
        metrics.record(Metric.OPERATIONS, "ok")
    return page_of(metrics)


@pytest.mark.parametrize(
    ("before", "after", "unit", "values"),
    [
        ([0.003] * 100, [0.03] * 100, "p95", (0.004875, 0.04875)),
        ([0.003] * 960 + [0.02] * 40, [0.003] * 900 + [0.7] * 100, "p95", (0.005, 0.75)),
        ([0.003] * 100, [60.0] * 100, "p50", (0.00375, 5.0)),
        ([0.003] * 50, [0.03] * 50, "p50", (0.00375, 0.0375)),
    ],
)
def test_histograms_are_compared_by_quantiles(
    before: list[float], after: list[float], unit: str, values: tuple[float, float]
) -> None:
    """One value for each histogram: the quantile that has changed most."""
    (found,) = compared(seconds_page(*before), seconds_page(*after)).changes
    assert (found.verdict, found.unit) == ("worse", unit)
    assert (found.before.value, found.after.value) == pytest.approx(values, rel=0.1)
    (found,) = compared(seconds_page(*after), seconds_page(*before)).changes
    assert found.verdict == "better"


def test_single_slow_operations_are_no_change() -> None:
    """A few slow operations among many are no change, because no quantile of them is certain."""
    assert not compared(seconds_page(*[0.003] * 200), seconds_page(*[0.003] * 198, 4.0, 4.0)).changes
    assert not compared(seconds_page(*[0.003] * 5), seconds_page(*[0.03] * 5)).changes


def test_buckets_of_another_release() -> None:
    """Histograms whose buckets differ are compared by the bounds that both have."""
    after = text_of_seconds([0.02] * 50)
    coarse = "".join(line for line in after.splitlines(keepends=True) if 'le="0.025"' not in line)
    (found,) = compared(parse_page(text_of_seconds([0.002] * 50), "before"), parse_page(coarse, "after")).changes
    assert (found.unit, found.before.value, found.after.value) == ("p50", 0.00175, 0.03)


def text_of_seconds(durations: list[float]) -> str:
    """Return the page of a server with operations of these durations as text."""
    metrics = Metrics()
    for seconds in durations:
        metrics.record(Metric.OPERATION_SECONDS, amount=seconds)
        metrics.record(Metric.OPERATIONS, "ok")
    return text_of(metrics)


# --- pages and periods -----------------------------------------------------------------------------------------


def fill(metrics: Metrics, operations: int, errors: int) -> None:
    """Add operations and errors to a server's counts."""
    metrics.record(Metric.OPERATIONS, "ok", amount=operations)
    metrics.record(Metric.ERRORS, "THROTTLED", amount=errors)


def period_values(before: MetricsPage, after: MetricsPage) -> list[tuple[float, str]]:
    """Return operations and beginning of both periods."""
    return [(period.operations, period.since) for period in periods(before, after)]


def test_periods_of_one_run() -> None:
    """The second page of the same run counts only what it adds to the first one."""
    metrics = Metrics()
    fill(metrics, 100, 0)
    before = page_of(metrics)
    fill(metrics, 30, 30)
    after = page_of(metrics)
    assert period_values(before, after) == [(100, "the start of the server"), (30, "the first page")]
    (found,) = compared(before, after).changes
    assert (found.before.value, found.after.value) == (0, 1)
    seconds = [period.seconds for period in periods(before, after)]
    assert all(one is not None and 0 <= one < 60 for one in seconds)


@pytest.mark.parametrize("change", [lambda text: text, without_times], ids=["with times", "without times"])
def test_periods_of_a_restarted_server(change: Callable[[str], str]) -> None:
    """After a restart, the second page counts from the start, whether its counts are lower or higher."""
    old, new = Metrics(), Metrics()
    fill(old, 100, 10)
    fill(new, 30, 5)
    before, after = (parse_page(change(text_of(metrics)), "page") for metrics in (old, new))
    assert period_values(before, after) == [(100, "the start of the server"), (30, "the start of the server")]


def test_a_restart_is_seen_by_its_time() -> None:
    """A restarted server that has counted more than before is not taken for the same run."""
    old, new = Metrics(), Metrics()
    fill(old, 100, 10)
    fill(new, 130, 15)
    assert period_values(page_of(old), page_of(new))[1] == (130, "the start of the server")


def test_exchanged_pages_are_refused() -> None:
    """Pages of one run in the wrong order are refused."""
    metrics = Metrics()
    fill(metrics, 100, 0)
    before = page_of(metrics)
    fill(metrics, 30, 0)
    with pytest.raises(InvalidValue, match="exchange them"):
        periods(page_of(metrics), before)


def test_pages_of_several_servers() -> None:
    """On a page of Prometheus, each instance has its own period, and their counts are added up."""
    text = """# TYPE shardql_operations_total counter
shardql_operations_total{{instance="a",outcome="ok"}} {}
shardql_operations_total{{instance="b",outcome="ok"}} {}
"""
    before, after = parse_page(text.format(100, 200), "before"), parse_page(text.format(110, 50), "after")
    assert period_values(before, after) == [
        (300, "the start of the server"),
        (60, "the first page or the start of the server"),
    ]
    new = parse_page(text.format(110, 7).replace('"b"', '"c"'), "after")
    assert period_values(before, new)[1][0] == 17


def test_openmetrics_pages_are_equal() -> None:
    """A page in OpenMetrics has the same counts as in the Prometheus format."""
    metrics = simulate(Random(1), 20)
    plain = parse_page(text_of(metrics), "plain").servers[""]
    other = parse_page(text_of(metrics, "application/openmetrics-text; version=1.0.0"), "open").servers[""]
    cpu_time = ("process_cpu_seconds_total", frozenset[tuple[str, str]]())
    assert plain.samples | {cpu_time: 0} == other.samples | {cpu_time: 0}
    assert plain.start == pytest.approx(other.start)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<html></html>\n", "no page of metrics"),
        ('{"data": null}\n', "no page of metrics"),
        ("", "no counters"),
        ("# TYPE a gauge\na 1\n", "no counters"),
        ("# TYPE a_total counter\na_total 12", "cut off"),
        ('# TYPE a histogram\na_bucket{le="1.0"} 3\n', "cut off"),
        ("# TYPE a_total counter\na_total 1\na_total 2\n", "a_total is in it twice"),
        ("# TYPE a_total counter\na_total NaN\n", "a_total is nan"),
        ("# TYPE a_total counter\na_total -1\n", "a_total is -1"),
        ('# TYPE a histogram\na_bucket{x="1"} 3\n', "cut off"),
        ('# TYPE a histogram\na_bucket{le="0.0.1"} 3\n', "no page of metrics"),
        ('# TYPE a histogram\na_bucket{le="1"} 3\na_bucket{le="+Inf"} 2\n', "not cumulative"),
        ("# TYPE a_total counter\na_total{ 1\n", "no page of metrics"),
    ],
)
def test_invalid_pages_are_refused(text: str, message: str) -> None:
    """Text that is no complete page is refused, and the error names the page."""
    with pytest.raises(InvalidValue, match=message) as refused:
        parse_page(text, "page.txt")
    assert refused.value.message.startswith("page.txt ")


OTHER_APPLICATION = """# TYPE process_start_time_seconds gauge
process_start_time_seconds 1000
# TYPE shardql_scrape_time_seconds gauge
shardql_scrape_time_seconds {time}
# TYPE jobs_total counter
jobs_total{{queue="mail"}} {jobs}
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total {jobs}
# TYPE sizes histogram
sizes_bucket{{le="1"}} {small}
sizes_bucket{{le="10"}} {all}
sizes_bucket{{le="+Inf"}} {all}
sizes_sum 1
sizes_count {all}
"""


def test_metrics_of_other_applications() -> None:
    """Counters that ShardQL does not define are compared per second, and their histograms by quantiles.

    Metrics of the process are not compared.
    """
    before = parse_page(OTHER_APPLICATION.format(time=1100, jobs=1000, small=100, all=100), "before")
    after = parse_page(OTHER_APPLICATION.format(time=1200, jobs=6000, small=100, all=400), "after")
    found = [(describe(one), one.unit, one.before.value, one.after.value) for one in compared(before, after).changes]
    assert found == [
        ("changed sizes", "p95", 0.95, pytest.approx(9.55)),
        ("changed jobs mail", "per second", 10, 50),
    ]
    assert compared(before, after).only_after == []


def test_values_without_events_are_not_compared() -> None:
    """An index that was searched in one period only has no share of empty reads in the other one, and is listed."""
    before, after = share_page(3, 100), Metrics()
    after.record(Metric.OPERATIONS, "ok", amount=100)
    after.record(Metric.EMPTY_READS, "thing", "a", "first_page", amount=0)
    after.record(Metric.OPERATION_SECONDS, amount=1)
    comparison = compared(before, page_of(after))
    differences = comparison.differences
    assert not any("empty" in one.metric for one in differences)
    assert comparison.only_before == ['shardql_empty_reads_total{entity="thing", index="a", kind="first_page"}']
    assert comparison.only_after == ["shardql_operation_seconds"]
    (found,) = [one for one in differences if "searches" in one.metric]
    assert (found.verdict, found.before.value, found.after.value) == ("changed", 1, 0)


def test_period_without_times() -> None:
    """The length of a period is unknown if a page lacks the times."""
    metrics = Metrics()
    fill(metrics, 10, 1)
    page = parse_page(without_times(text_of(metrics)), "page")
    before, after = periods(page, page)
    assert (before.seconds, after.seconds) == (None, None)
    assert isinstance(before, Period)
    assert max(after.samples.values()) == 0 < inf
