"""Compare what servers counted in two periods: shares, means and quantiles, each with its confidence interval.

Every counter is divided by the events that cause it, so that periods of different length and traffic compare. A value
has changed if its intervals in the two periods are further apart than the threshold.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from typing import Literal

from graphql_api.cli.comparison.confidence_intervals import Distribution, Estimate, Spread, estimate_mean
from graphql_api.cli.comparison.metrics_page import Labels, Period, Series, describe_series, histograms
from graphql_api.server.observability import Metric

Verdict = Literal["worse", "changed", "better", "undecided", "same"]
"""undecided: the values differ by more than the threshold, but their intervals do not"""

_ORDER: Mapping[Verdict, int] = {"worse": 0, "changed": 1, "better": 2, "undecided": 3, "same": 4}

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

MIN_SAMPLES = 10
"""in both periods, for a change"""
MIN_OCCURRENCES = 5
"""of what is counted, in the period with more of it, for a change: a single error is none"""
EXPLAINED_FACTOR = 3
"""a change of durations explains others whose severity is at most this many times its own; those of its own level that
are less severe by more than this factor are consequences too"""
SMALLEST_MEAN = 0.01
"""means below it are ranked as this one, so that a rare event that is new does not rank above a frequent failure"""


@dataclass(frozen=True, slots=True)
class Basis:
    """The events that a counter is divided by, and the meaning of a change."""

    unit: str
    spread: Spread = "count"
    events: tuple[Metric, ...] = (Metric.OPERATIONS,)
    """counters of the events; without any, each second is an event"""
    idle: tuple[Metric, ...] = ()
    """counters of the events that add nothing as a rule: they are no samples of what the others add"""
    by: tuple[str, ...] = ()
    """labels that the counter shares with its events"""
    rise: Verdict = "changed"
    fall: Verdict = "changed"
    summed: tuple[str, ...] = ()
    """labels of the counter over which it is added up"""


_READS = (Metric.SEARCHES, Metric.KEY_READS)
_INDEX = ("entity", "index")
_PER_OPERATION = Basis("per operation")
_FAILURES = Basis("of operations", "share", rise="worse", fall="better")
_COSTS = Basis("per operation", rise="worse", fall="better")

BASES: Mapping[Metric, tuple[Basis, ...]] = {
    Metric.HTTP_REQUESTS: (replace(_FAILURES, unit="of requests", events=(Metric.HTTP_REQUESTS,), by=("route",)),),
    Metric.OPERATIONS: (_FAILURES,),
    Metric.QUERY_PATHS: (replace(_FAILURES, unit="of queries", events=(Metric.QUERY_PATHS,)),),
    Metric.ERRORS: (_COSTS,),
    Metric.TOKEN_ERRORS: (),  # They are among the errors.
    Metric.STORE_CALLS: (
        replace(_FAILURES, unit="of calls", events=(Metric.STORE_CALLS,), by=("call",)),
        replace(_COSTS, summed=("outcome",)),
    ),
    Metric.STORE_RETRIES: (replace(_COSTS, unit="per store call", events=(Metric.STORE_CALLS,)),),
    Metric.STORE_HEDGES: (replace(_COSTS, unit="per store call", events=(Metric.STORE_CALLS,)),),
    Metric.SEARCHES: (_PER_OPERATION,),
    Metric.KEY_READS: (_PER_OPERATION,),
    Metric.EMPTY_READS: (Basis("of reads", "share", _READS, (), (*_INDEX, "kind"), rise="worse"),),
    Metric.SHARDS_ASKED: (replace(_COSTS, unit="per search", events=(Metric.SEARCHES,), by=_INDEX),),
    Metric.RECORDS_READ: (Basis("per read", "count", _READS, (Metric.EMPTY_READS,), _INDEX, rise="worse"),),
    Metric.DANGLING_MAPPINGS: (replace(_COSTS, unit="per search", events=(Metric.SEARCHES,), by=_INDEX),),
    Metric.LOOKUP_REPAIRS_FAILED: (_COSTS,),
    Metric.EVENTS: (Basis("of events", "share", (Metric.EVENTS,), by=("projection",)),),
    Metric.SUBSCRIPTION_EVENTS: (replace(_FAILURES, unit="of events", events=(Metric.SUBSCRIPTION_EVENTS,)),),
    Metric.RECORDS_RETURNED: (Basis("per read", "count", _READS, (Metric.EMPTY_READS,), _INDEX),),
}
"""the bases of all counters of ShardQL"""

_METRICS = {metric.full_name: metric for metric in Metric}
_NESTED_DURATIONS = (
    Metric.SHARD_SECONDS,
    Metric.INDEX_SECONDS,
    Metric.STORE_SECONDS,
    Metric.OPERATION_SECONDS,
)
"""each is a part of the next one"""
_SUCCESSES = {("outcome", "ok"), ("path", "fast"), *(("status", str(status)) for status in range(200, 400))}
"""labels of successes, whose share is not compared: the shares of all failures are"""
_IMPLIED = {Metric.KEY_READS: {("index", "id"), ("kind", "key")}}
"""labels that a metric lacks because they would always have one value"""
_OTHER_BASES = (Basis("per second", "rate", events=()),)
"""of counters that ShardQL does not define"""
_IGNORED = "process_"
"""prefix of metrics about the process: its start alone takes seconds of CPU time"""


Sides = tuple[Period, Period]

Values = list[tuple[Basis, Estimate | None, Estimate | None]]
"""different values of one series before and after; None: there were no events"""


@dataclass(frozen=True, slots=True)
class Difference:
    """One value in both periods."""

    metric: str
    labels: Labels
    unit: str
    """`of reads` for a share, `per search` for a mean, `p95` for a quantile in the unit of the metric"""
    before: Estimate
    after: Estimate
    verdict: Verdict
    severity: float
    """how far apart the intervals are, as a factor, with very small means rounded up; at most 1 if they overlap"""
    is_consequence: bool = False
    """another change explains this one"""

    @property
    def is_share(self) -> bool:
        return self.unit.startswith("of ")

    @property
    def is_quantile(self) -> bool:
        return self.unit in QUANTILES

    @property
    def is_duration(self) -> bool:
        return self.is_quantile and self.metric.endswith("_seconds")

    @property
    def rank(self) -> tuple[int, bool, float, str, list[tuple[str, str]]]:
        """Return the sort key: the worst first."""
        return _ORDER[self.verdict], self.is_consequence, -self.severity, self.metric, sorted(self.labels)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All compared values, the worst first."""

    differences: list[Difference]
    only_before: list[str]
    """values that only the first period has: the events of the second one are missing"""
    only_after: list[str]

    @property
    def changes(self) -> list[Difference]:
        """Return the values that have changed."""
        return [one for one in self.differences if one.verdict in {"worse", "changed", "better"}]

    @property
    def undecided(self) -> list[Difference]:
        """Return the values that may have changed."""
        return [one for one in self.differences if one.verdict == "undecided"]


def compare_periods(before: Period, after: Period, threshold: float) -> Comparison:
    """Compare two periods. With a threshold of 0.5, a value has changed if it differs by more than 50 %.

    A histogram is compared by that of its quantiles that has changed most.
    """
    differences: list[Difference] = []
    only_before, only_after = set[str](), set[str]()
    for series, values in chain(_counter_values((before, after)), _histogram_values((before, after))):
        found = []
        for basis, old, new in values:
            if old is not None and new is not None:
                found.append(_compare(series, basis, old, new, threshold))
            elif old is not None and old.value:
                only_before.add(describe_series(*series))
            elif new is not None and new.value:
                only_after.add(describe_series(*series))
        differences += sorted(found, key=lambda one: one.rank)[:1]
    ranked = sorted(_with_consequences(differences), key=lambda one: one.rank)
    return Comparison(ranked, sorted(only_before), sorted(only_after))


def _with_consequences(differences: Sequence[Difference]) -> Iterator[Difference]:
    """Mark the durations that are longer because others are.

    A slower shard makes its indexes slower, and these all store calls and operations. Requests that wait for it also
    delay others a little. The level that explains the others is the first one at which only a part of the series, at
    most half of them, is much slower.
    """
    levels = [[one for one in differences if one.metric == metric.full_name] for metric in _NESTED_DURATIONS]
    found = [(level, changes) for level in levels if (changes := _most_severe(level))]
    parts = [changes for level, changes in found if 2 * len(changes) <= len(level)]
    cause = parts[0] if parts else found[-1][1] if found else set()
    others = {one for level in levels for one in level if one.verdict == "worse"} - cause
    explained = max((one.severity for one in cause), default=0.0) * EXPLAINED_FACTOR
    for one in differences:
        yield replace(one, is_consequence=one in others and one.severity <= explained)


def _most_severe(level: Sequence[Difference]) -> set[Difference]:
    """Return the longer durations of a level whose severity is close to the largest one."""
    longer = [one for one in level if one.verdict == "worse"]
    largest = max((one.severity for one in longer), default=0.0)
    return {one for one in longer if one.severity * EXPLAINED_FACTOR >= largest}


def _compare(series: Series, basis: Basis, before: Estimate, after: Estimate, threshold: float) -> Difference:
    lower, higher = sorted((before, after), key=lambda one: one.value)
    is_quantile = basis.unit in QUANTILES
    verdict: Verdict = "same"
    if higher.value > lower.value * (1 + threshold):
        has_samples = min(lower.samples, higher.samples) >= MIN_SAMPLES
        is_frequent = is_quantile or higher.value * higher.samples >= MIN_OCCURRENCES
        is_sure = has_samples and is_frequent and higher.low > lower.high * (1 + threshold)
        verdict = (basis.rise if higher is after else basis.fall) if is_sure else "undecided"
    smallest = 0.0 if is_quantile else SMALLEST_MEAN
    divisor = max(lower.high, smallest)
    severity = max(higher.low, smallest) / divisor if divisor else 0.0
    return Difference(*series, basis.unit, before, after, verdict, severity)


# --- counters --------------------------------------------------------------------------------------------------


def _counter_values(sides: Sides) -> Iterator[tuple[Series, Values]]:
    for name in dict.fromkeys(name for side in sides for name in side.by_name if name.endswith("_total")):
        if name.startswith(_IGNORED):
            continue
        for basis in BASES[_METRICS[name]] if name in _METRICS else _OTHER_BASES:
            counts = [_sums(side, name, basis) for side in sides]
            events = [_events(side, basis, basis.events) for side in sides]
            idle_events = [_events(side, basis, basis.idle) for side in sides]
            for labels in dict.fromkeys([*counts[0], *counts[1]]):
                if labels & _SUCCESSES and basis.spread == "share":
                    continue
                group = _selected(labels, basis.by)
                before, after = (
                    _estimate(side, count.get(labels, 0.0), event.get(group, 0.0), idle.get(group, 0.0), basis)
                    for side, count, event, idle in zip(sides, counts, events, idle_events, strict=True)
                )
                yield (name, labels), [(basis, before, after)]


def _sums(period: Period, name: str, basis: Basis) -> Mapping[Labels, float]:
    """Return a counter, added up over the labels of its basis that are not compared."""
    sums = defaultdict[Labels, float](float)
    for labels, count in period.by_name.get(name, {}).items():
        sums[frozenset(label for label in labels if label[0] not in basis.summed)] += count
    return sums


def _events(period: Period, basis: Basis, metrics: tuple[Metric, ...]) -> Mapping[Labels, float]:
    """Return the sum of event counters, by the labels that they share with the counter of a basis."""
    events = defaultdict[Labels, float](float)
    for metric in metrics:
        for labels, count in period.by_name.get(metric.full_name, {}).items():
            events[_selected(labels | _IMPLIED.get(metric, set()), basis.by)] += count
    return events


def _estimate(period: Period, total: float, events: float, idle: float, basis: Basis) -> Estimate | None:
    """Estimate the mean of a counter, or return None if there were no events.

    What happens within one operation is not independent, so there are at most as many samples as operations.
    """
    divisor = events if basis.events else period.seconds
    samples = min(period.operations or inf, events - idle or inf)
    return estimate_mean(total, divisor, samples, basis.spread) if divisor else None


def _selected(labels: Labels, names: tuple[str, ...]) -> Labels:
    return frozenset(label for label in labels if label[0] in names)


# --- histograms ------------------------------------------------------------------------------------------------


def _histogram_values(sides: Sides) -> Iterator[tuple[Series, Values]]:
    found = [histograms(side.samples) for side in sides]
    for series in dict.fromkeys([*found[0], *found[1]]):
        buckets = [one.get(series, {}) for one in found]
        bounds = sorted(set.intersection(*(set(one) for one in buckets if one)))
        if len(bounds) < 2:
            continue
        direction = Basis("", rise="worse", fall="better") if series[0].endswith("_seconds") else Basis("")
        values = []
        for name, quantile in QUANTILES.items():
            before, after = (
                Distribution(bounds, [one[bound] for bound in bounds]).estimate_quantile(
                    quantile, side.operations or inf
                )
                if one and one[bounds[-1]]
                else None
                for side, one in zip(sides, buckets, strict=True)
            )
            values.append((replace(direction, unit=name), before, after))
        yield series, values
