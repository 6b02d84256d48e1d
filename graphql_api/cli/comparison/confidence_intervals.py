"""Confidence intervals of means and quantiles, from counts alone.

A page of metrics has no variances, so an interval assumes one. For a mean m it is

- m - m², if each event counts at most once (a share);
- m + m², if an event may count several times (a geometric distribution);
- m for the events of each second (a Poisson distribution).

The interval of a mean has the means that explain the observed one: those at most Z standard errors away from it. For
shares this is the Wilson interval. It also holds for few events: 0 of 10 may be a share of up to 40 %.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isinf, sqrt
from typing import Literal

CONFIDENCE = 0.99
Z = 2.5758
"""standard errors on each side of a confidence interval of 99 %"""

Spread = Literal["share", "count", "rate"]
"""what an event adds to a sum: 0 or 1, or any number; what a second adds"""

_VARIANCE: Mapping[Spread, tuple[int, int]] = {"share": (1, -1), "count": (1, 1), "rate": (1, 0)}
"""the variance of an event's value as a polynomial of its mean: factors of m and m²"""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its confidence interval."""

    value: float
    low: float
    high: float
    samples: int
    """number of independent events that the interval is based on"""


def estimate_mean(total: float, events: float, most_samples: float, spread: Spread) -> Estimate:
    """Estimate the mean of events whose values have this total. At most `most_samples` of them are independent."""
    samples = min(events, most_samples)
    mean = min(total / events, 1.0) if spread == "share" else total / events
    linear, quadratic = _VARIANCE[spread]
    # The ends solve (mean - m)² = k (linear m + quadratic m²).
    k = Z * Z / samples
    middle, curvature = 2 * mean + k * linear, 1 - k * quadratic
    root = sqrt(max(0.0, middle * middle - 4 * curvature * mean * mean))
    low = 2 * mean * mean / (middle + root) if mean else 0.0
    high = (middle + root) / (2 * curvature) if curvature > 0 else inf
    return Estimate(mean, low, min(high, 1.0) if spread == "share" else high, int(samples))


@dataclass(frozen=True, slots=True)
class Distribution:
    """The values of a histogram: how many are at most each bound. The last bound is infinite."""

    bounds: Sequence[float]
    """at least one is finite"""
    counts: Sequence[float]
    """cumulative"""

    @property
    def total(self) -> float:
        return self.counts[-1]

    def value_at(self, rank: float) -> float:
        """Return the value at a rank, interpolated within its bucket; infinite above the last finite bound."""
        at = bisect_left(self.counts, min(rank, self.total))
        if isinf(self.bounds[at]):
            return inf
        begin, count = (self.bounds[at - 1], self.counts[at - 1]) if at else (min(0.0, self.bounds[0]), 0.0)
        return begin + (self.bounds[at] - begin) * (rank - count) / (self.counts[at] - count)

    def estimate_quantile(self, quantile: float, most_samples: float) -> Estimate:
        """Estimate a quantile. Its interval reaches from one observed value to another, whatever the distribution.

        As in PromQL, the last finite bound represents all values above it.
        """
        samples = floor(min(self.total, most_samples))
        share = estimate_mean(quantile * samples, samples, samples, "share")
        first, last = floor(share.low * samples), ceil(share.high * samples) + 1
        scale = self.total / samples
        low = self.value_at(first * scale) if first else 0.0
        high = self.value_at(last * scale) if last <= samples else inf
        largest = max(bound for bound in self.bounds if not isinf(bound))
        return Estimate(min(self.value_at(quantile * self.total), largest), min(low, largest), high, samples)
