"""How many records to ask each shard for: as few as will probably fill the page (docs/search.md)."""

from functools import lru_cache
from math import ceil, exp, sqrt


@lru_cache(maxsize=4096)
def first_limit(limit: int, shards: int) -> int:
    """The first read of every shard: it should hold the shard's part of the page in nearly all cases.

    The part is about Poisson distributed; the caps keep the sum of all shards within what a page may read.
    """
    wanted = limit + 1
    if shards <= 1:
        return wanted
    most = min(wanted, (2 * limit + 3 * shards) // (shards + 1), int(0.97 * (2 * limit + 3 * shards) / shards))
    mean = wanted / shards
    accepted = min(1 / shards, 0.05)
    below = probability = exp(-mean)
    for count in range(1, most):
        if 1 - below <= accepted:
            return count
        probability *= mean / count
        below += probability
    return max(1, most)


def next_limit(needed: int, share: float, last_limit: int, refill: int) -> int:
    """A later read of a shard that may hold more of the page: its expected part of what is still needed, and some more.

    From the third refill on at least twice the last read, so that no distribution needs many rounds.
    """
    expected = needed * share
    count = ceil(expected + sqrt(expected))
    if refill >= 3:
        count = max(count, 2 * last_limit)
    return max(1, count)
