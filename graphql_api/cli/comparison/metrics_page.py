"""Pages of metrics in the Prometheus or OpenMetrics text format, and the two periods that a pair of them covers."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isfinite

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from graphql_api.errors import InvalidValue
from graphql_api.server.observability import Metric

Labels = frozenset[tuple[str, str]]
"""names and values of labels"""

Series = tuple[str, Labels]
"""name and labels of a sample: `shardql_searches_total`, or `shardql_operation_seconds_bucket` with the label `le`"""

Samples = Mapping[Series, float]
"""values of counters and of buckets"""

SERVER_LABEL = "instance"
"""the label by which Prometheus distinguishes servers, on a page with several of them"""

_SUFFIXES = {"counter": "_total", "histogram": "_bucket"}


@dataclass(slots=True)
class ServerCounts:
    """What one server has counted since its start."""

    samples: dict[Series, float] = field(default_factory=dict)
    start: float | None = None
    """time at which the server began to count; None: unknown"""
    time: float | None = None
    """time of the page, by the clock of the server; None: unknown"""

    def is_later_than(self, earlier: "ServerCounts") -> bool:
        """Return whether another page is an earlier one of the same run. Without a restart, counts only grow."""
        has_grown = all(self.samples.get(series, 0) >= count for series, count in earlier.samples.items())
        if self.start is None or earlier.start is None:
            return has_grown
        if self.start == earlier.start and not has_grown:
            raise InvalidValue("The second page is older than the first one: exchange them.")
        return self.start == earlier.start


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """A page of metrics, of one server or of several."""

    source: str
    servers: Mapping[str, ServerCounts]
    """by their label `instance`, which is empty on the page of one server"""


@dataclass(frozen=True)
class Period:
    """What servers counted during a period."""

    source: str
    samples: Samples
    seconds: float | None
    """its length; None: unknown"""
    since: str
    """its beginning, in words"""

    @cached_property
    def by_name(self) -> Mapping[str, Mapping[Labels, float]]:
        """The samples, by name and labels."""
        found = defaultdict[str, dict[Labels, float]](dict)
        for (name, labels), count in self.samples.items():
            found[name][labels] = count
        return found

    @cached_property
    def operations(self) -> float:
        """The number of GraphQL operations."""
        return sum(self.by_name.get(Metric.OPERATIONS.full_name, {}).values())


# --- parsing ---------------------------------------------------------------------------------------------------


def parse_page(text: str, source: str) -> MetricsPage:
    """Parse a page of metrics. Refuse a page that is incomplete, or that contains a series twice."""
    parse = parse_openmetrics if text.endswith("# EOF\n") else parse_prometheus
    servers = defaultdict[str, ServerCounts](ServerCounts)
    cut_off = f"{source} is cut off. Use the whole response of /metrics."
    try:
        for family in parse(text):
            for sample in family.samples:
                labels = dict(sample.labels)
                counts = servers[labels.pop(SERVER_LABEL, "")]
                if sample.name.endswith(_SUFFIXES.get(family.type, " ")):
                    _add_count(counts, (sample.name, frozenset(labels.items())), sample.value)
                elif sample.name == Metric.SCRAPE_TIME.full_name:
                    counts.time = sample.value
                elif sample.name == Metric.START_TIME.full_name:
                    counts.start = sample.value or counts.start
                elif sample.name == "process_start_time_seconds" and counts.start is None:
                    counts.start = sample.value
        buckets = [bounds for counts in servers.values() for bounds in _checked_histograms(counts.samples)]
    except (ValueError, KeyError, IndexError) as problem:
        if not text.endswith("\n") and text.startswith("#"):
            raise InvalidValue(cut_off) from problem
        raise InvalidValue(f"{source} is no page of metrics: {problem}. Use one response of /metrics.") from problem
    if not any(counts.samples for counts in servers.values()):
        raise InvalidValue(f"{source} has no counters and no histograms. Use the response of /metrics.")
    if not text.endswith("\n") or any(inf not in bounds for bounds in buckets):
        raise InvalidValue(cut_off)
    return MetricsPage(source, servers)


def _add_count(counts: ServerCounts, series: Series, value: float) -> None:
    if series in counts.samples:
        raise ValueError(f"{describe_series(*series)} is in it twice")
    if not isfinite(value) or value < 0:
        raise ValueError(f"{describe_series(*series)} is {value}")
    counts.samples[series] = value


def _checked_histograms(samples: Samples) -> Iterator[Mapping[float, float]]:
    for series, buckets in histograms(samples).items():
        counts = [count for _, count in sorted(buckets.items())]
        if counts != sorted(counts):
            raise ValueError(f"the buckets of {describe_series(*series)} are not cumulative")
        yield buckets


def describe_series(name: str, labels: Labels) -> str:
    """Return name and labels of a series as PromQL writes them, with the labels in alphabetical order."""
    pairs = ", ".join(f'{key}="{value}"' for key, value in sorted(labels))
    return f"{name}{{{pairs}}}" if pairs else name


def histograms(samples: Samples) -> Mapping[Series, Mapping[float, float]]:
    """Return the cumulative counts of each histogram, by the bound of the bucket. Names have no suffix."""
    found = defaultdict[Series, dict[float, float]](dict)
    for (name, labels), count in samples.items():
        if name.endswith(_SUFFIXES["histogram"]):
            own_labels = dict(labels)
            bound = float(own_labels.pop("le", "nan"))
            found[name.removesuffix(_SUFFIXES["histogram"]), frozenset(own_labels.items())][bound] = count
    return found


# --- periods ---------------------------------------------------------------------------------------------------


def periods(before: MetricsPage, after: MetricsPage) -> tuple[Period, Period]:
    """Return the period before the first page, and the one that the second page adds.

    A server that has restarted, or that is not on the first page, adds everything that it has counted.
    """
    before_samples, after_samples = Counter[Series](), Counter[Series]()
    before_seconds, after_seconds = set[float | None](), set[float | None]()
    begins = set[str]()
    for counts in before.servers.values():
        before_samples.update(counts.samples)
        before_seconds.add(_difference(counts.time, counts.start))
    for name, counts in after.servers.items():
        earlier = before.servers.get(name)
        if earlier is not None and counts.is_later_than(earlier):
            begins.add("the first page")
            after_seconds.add(_difference(counts.time, earlier.time))
            after_samples.update({key: value - earlier.samples.get(key, 0) for key, value in counts.samples.items()})
        else:
            begins.add(_START)
            after_seconds.add(_difference(counts.time, counts.start))
            after_samples.update(counts.samples)
    return (
        Period(before.source, before_samples, _longest(before_seconds), _START),
        Period(after.source, after_samples, _longest(after_seconds), " or ".join(sorted(begins))),
    )


_START = "the start of the server"


def _difference(end: float | None, begin: float | None) -> float | None:
    return None if end is None or begin is None else max(0.0, end - begin)


def _longest(seconds: set[float | None]) -> float | None:
    return None if None in seconds else max(one for one in seconds if one is not None)
