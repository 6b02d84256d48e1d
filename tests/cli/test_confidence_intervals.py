"""The confidence intervals of `shardql compare`: their coverage, computed exactly, and their bounds."""

from collections.abc import Iterator
from math import ceil, exp, floor, inf, lgamma, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.cli.comparison.confidence_intervals import Distribution, estimate_mean
from graphql_api.server.observability.metrics import SECONDS

BOUNDS = (*SECONDS, inf)


def binomial(count: int, share: float) -> list[float]:
    """Return the probabilities of 0 to `count` successes."""
    whole = lgamma(count + 1)
    return [
        exp(whole - lgamma(k + 1) - lgamma(count - k + 1) + k * log(share) + (count - k) * log(1 - share))
        for k in range(count + 1)
    ]


def negative_binomial(count: int, mean: float) -> Iterator[tuple[int, float]]:
    """Yield the totals of geometric values with this mean, and their probabilities, until nearly all are covered."""
    total, covered = 0, 0.0
    while covered < 1 - 1e-6:
        choose = lgamma(total + count) - lgamma(count) - lgamma(total + 1)
        probability = exp(choose - count * log(1 + mean) + total * log(mean / (1 + mean)))
        covered += probability
        yield total, probability
        total += 1


@pytest.mark.parametrize("samples", [10, 30, 100, 1000])
@pytest.mark.parametrize("share", [0.001, 0.02, 0.1, 0.3, 0.5, 0.9])
def test_intervals_of_shares_contain_the_true_share(samples: int, share: float) -> None:
    """The interval misses the share in about 1 % of all samples that have at least five occurrences."""
    missed = 0.0
    for count, probability in enumerate(binomial(samples, share)):
        interval = estimate_mean(count, samples, inf, "share")
        missed += probability if count >= 5 and not interval.low <= share <= interval.high else 0
    assert missed < 0.02


@pytest.mark.parametrize("samples", [10, 100, 1000])
@pytest.mark.parametrize("mean", [0.1, 1.0, 10.0])
def test_intervals_of_counts_contain_the_true_mean(samples: int, mean: float) -> None:
    """The interval of values with a geometric distribution misses their mean in at most 2 % of all samples."""
    missed = 0.0
    for total, probability in negative_binomial(samples, mean):
        interval = estimate_mean(total, samples, inf, "count")
        missed += probability if total >= 5 and not interval.low <= mean <= interval.high else 0
    assert missed < 0.02


@pytest.mark.parametrize("samples", [1, 5, 9, 10, 20, 100, 400, 3000])
@pytest.mark.parametrize("quantile", [0.5, 0.95, 0.99])
def test_intervals_of_quantiles_contain_the_true_quantile(samples: int, quantile: float) -> None:
    """For any distribution, the interval misses the quantile in at most 2 % of all samples.

    With one value in each bucket, the ends are the values at two ranks. The probability that a rank is above or below
    the quantile is binomial.
    """
    bounds = [float(value) for value in range(1, samples + 2)]
    values = Distribution([*bounds, inf], [*map(float, range(1, samples + 1)), samples, samples])
    interval = values.estimate_quantile(quantile, inf)
    probabilities = binomial(samples, quantile)
    assert sum(probabilities[: floor(interval.low)]) < 0.02
    assert interval.high == inf or sum(probabilities[ceil(interval.high) :]) < 0.02
    if samples < 8:
        assert interval.high == inf


def test_empty_samples_have_wide_intervals() -> None:
    """0 of 10 may be a share of up to 40 %, and a mean of few events may be anything."""
    none, all_of_them = estimate_mean(0, 10, inf, "share"), estimate_mean(10, 10, inf, "share")
    assert (none.value, none.low, none.high) == pytest.approx((0, 0, 0.4), abs=0.01)
    assert (all_of_them.value, all_of_them.low, all_of_them.high) == pytest.approx((1, 0.6, 1), abs=0.01)
    assert estimate_mean(3, 3, inf, "count").high == inf


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.sampled_from(["share", "count", "rate"]),
)
def test_intervals_contain_the_observed_mean(total: int, events: int, samples: int, spread: str) -> None:
    """An interval contains its value, and is wider with fewer independent events."""
    exact = estimate_mean(total, events, inf, spread)  # type: ignore[arg-type] # one of its values
    coarse = estimate_mean(total, events, samples, spread)  # type: ignore[arg-type] # one of its values
    tolerance = 1e-9 * (1 + exact.value)
    assert exact.low <= exact.value + tolerance
    assert exact.value <= exact.high + tolerance
    assert coarse.low <= exact.low + tolerance
    assert exact.high <= coarse.high + tolerance
    assert coarse.samples == min(events, samples)


@given(st.lists(st.integers(0, 1000), min_size=len(BOUNDS), max_size=len(BOUNDS)).filter(any))
def test_quantiles_are_ordered(counts: list[int]) -> None:
    """Quantiles of a histogram are in order, and each is within its interval."""
    cumulative = [float(sum(counts[: at + 1])) for at in range(len(counts))]
    values = Distribution(BOUNDS, cumulative)
    quantiles = [values.estimate_quantile(quantile, inf) for quantile in (0.5, 0.95, 0.99)]
    assert [one.value for one in quantiles] == sorted(one.value for one in quantiles)
    for one in quantiles:
        assert one.low <= one.value <= one.high
        assert 0 <= one.value <= SECONDS[-1]


def test_quantiles_are_interpolated() -> None:
    """As in PromQL, a quantile is interpolated within its bucket, and the last finite bound replaces higher values."""
    values = Distribution([1.0, 2.0, 4.0, inf], [10.0, 20.0, 80.0, 100.0])
    assert values.value_at(5) == 0.5
    assert values.value_at(15) == 1.5
    assert values.estimate_quantile(0.5, inf).value == pytest.approx(3)
    assert values.estimate_quantile(0.95, inf).value == 4
