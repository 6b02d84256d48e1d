"""Metrics of simulated servers, with skewed numbers of records, heavy tails of durations, and planted changes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from graphql_api import Catalog, Entity, Id, Index, Shards
from graphql_api.cli.comparison.metrics_page import MetricsPage, parse_page
from graphql_api.runtime.request_statistics import RequestStatistics
from graphql_api.server.observability.metrics import Metric, Metrics

SHARDS = 16


class Thing(Entity, shards=Shards(SHARDS)):
    """A record with several indexes."""

    thing_id: Id[str]
    a: str
    b: str
    c: str
    d: str

    by_a = Index(sort="a", name="thing_a")
    by_b = Index(sort="b", name="thing_b")
    by_c = Index(sort="c", name="thing_c")
    by_d = Index(sort="d", name="thing_d")


CATALOG = Catalog(Thing)
INDEXES = ("a", "b", "c", "d")


@dataclass
class Traffic:
    """The behaviour of a simulated server. A test changes some of it."""

    empty_shares: dict[str, float] = field(default_factory=lambda: {"a": 0.01, "b": 0.05, "c": 0.3, "d": 0.9})
    """of the searches of each index, and of reads by key"""
    missing_share: float = 0.2
    """of the reads by key"""
    records_factor: dict[str, float] = field(default_factory=lambda: dict.fromkeys(INDEXES, 1.0))
    slow_index: str = ""
    slow_shards: Sequence[int] = ()
    slowness: float = 20.0
    delay: float = 1.0
    """factor for all shards, as if they waited for the slow one"""
    error_share: float = 0.02
    failing_call_share: float = 0.01
    retries: float = 0.05
    calls_per_operation: int = 1


def simulate(random: Random, operations: int, traffic: Traffic | None = None) -> Metrics:
    """Return the metrics of a new server after this many operations: half searches, half reads by key."""
    traffic = traffic or Traffic()
    metrics = Metrics()
    metrics.declare_catalog(CATALOG)
    for _ in range(operations):
        _operate(random, metrics, traffic)
    return metrics


def _operate(random: Random, metrics: Metrics, traffic: Traffic) -> None:
    statistics = RequestStatistics()
    slowed = 1.0
    if random.random() < 0.5:
        slowed = _search(random, statistics, traffic)
        metrics.record(Metric.STORE_CALLS, "read_ranges", _outcome(random, traffic))
        metrics.record(Metric.STORE_SECONDS, "read_ranges", amount=0.01 * slowed)
    else:
        by_key = statistics.of_index("thing", "id")
        is_empty = random.random() < traffic.missing_share
        by_key.add_read("key", is_empty=is_empty, returned=not is_empty)
        by_key.records_read += not is_empty
        by_key.call_seconds.append(random.lognormvariate(-6, 0.7))
        for _ in range(traffic.calls_per_operation):
            metrics.record(Metric.STORE_CALLS, "get_many", _outcome(random, traffic))
    statistics.records_read = sum(one.records_read for one in statistics.indexes.values())
    metrics.record_reads(statistics)
    failed = random.random() < traffic.error_share
    metrics.record(Metric.OPERATIONS, "errors" if failed else "ok")
    metrics.record(Metric.HTTP_REQUESTS, "graphql", "200")
    if failed:
        metrics.record(Metric.ERRORS, "STORE_UNAVAILABLE")
    metrics.record(Metric.STORE_RETRIES, amount=random.random() < traffic.retries)
    metrics.record(Metric.OPERATION_SECONDS, amount=slowed * random.lognormvariate(-5, 0.8))


def _search(random: Random, statistics: RequestStatistics, traffic: Traffic) -> float:
    name = random.choice(INDEXES)
    index = statistics.of_index("thing", name)
    is_empty = random.random() < traffic.empty_shares[name]
    returned = 0 if is_empty else min(50, 1 + int(random.lognormvariate(1.5, 1.2)))
    index.add_read("first_page", is_empty=is_empty, returned=returned)
    index.records_read += int((returned + random.lognormvariate(0, 1)) * traffic.records_factor[name])
    index.shards_asked += SHARDS
    seconds = [traffic.delay * random.lognormvariate(-5.5, 0.6) for _ in range(SHARDS)]
    for shard in traffic.slow_shards:
        seconds[shard] *= traffic.slowness
    if traffic.slow_index == name:
        seconds = [one * traffic.slowness for one in seconds]
    statistics.shard_seconds = [(f"thing!{shard:02}", one) for shard, one in enumerate(seconds)]
    index.call_seconds.append(max(seconds))
    return max(1.0, max(seconds) / 0.01)


def _outcome(random: Random, traffic: Traffic) -> str:
    return "STORE_UNAVAILABLE" if random.random() < traffic.failing_call_share else "ok"


def page_of(metrics: Metrics, source: str = "page") -> MetricsPage:
    """Return the parsed page of a server."""
    return parse_page(text_of(metrics), source)


def text_of(metrics: Metrics, accept: str = "") -> str:
    """Return the page of a server as text."""
    return metrics.render(accept)[0].decode()


def without_times(text: str) -> str:
    """Return a page without the times of the server, as of an older release."""
    return "".join(line for line in text.splitlines(keepends=True) if "_time_seconds" not in line)
