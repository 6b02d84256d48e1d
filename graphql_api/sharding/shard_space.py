"""Assign records to shards by the generations of a shard space (docs/shards.md).

A shard space grows only by a new generation that begins in the future. Records therefore never move:
a record stays in the shard of the generation that was in force at its creation value.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

BASE36_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def blake2b_number(unique_id: str) -> int:
    """Return the first eight bytes of BLAKE2b as a number. The numbers of any ids are evenly distributed."""
    return int.from_bytes(blake2b(unique_id.encode()).digest()[:8], "big")


def string_hash(unique_id: str) -> int:
    """Return the hash of npm's `string-hash`, which Entity Manager uses: over UTF-16 units, from last to first."""
    number = 5381
    octets = unique_id.encode("utf-16-le")
    for offset in range(len(octets) - 2, -1, -2):
        number = ((number * 33) & 0xFFFFFFFF) ^ (octets[offset] | octets[offset + 1] << 8)
    return number


SHARD_FUNCTIONS: Mapping[str, Callable[[str], int]] = {"blake2b": blake2b_number, "string-hash": string_hash}


@dataclass(frozen=True, slots=True)
class Generation:
    """A number of shards, in force from the creation value `since` on. The first generation has no `since`."""

    since: Any | None
    size: int


@dataclass(frozen=True, slots=True)
class ShardSpace:
    """All generations of an entity's shards, oldest first."""

    generations: tuple[Generation, ...] = (Generation(None, 1),)
    width: int = 2
    function: str = "blake2b"
    _beginnings: tuple[Any, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_beginnings", tuple(generation.since for generation in self.generations[1:]))

    def generation_at(self, created: Any | None) -> int:
        """Return the number of the generation in force at a creation value."""
        return bisect_right(self._beginnings, created) if self._beginnings else 0

    def generations_between(self, low: Any | None, high: Any | None) -> range:
        """Return the generations of records created from `low` to `high`. Bounds are inclusive; None is no bound."""
        first = 0 if low is None else self.generation_at(low)
        last = len(self._beginnings) if high is None else self.generation_at(high)
        return range(first, last + 1)

    def ordinal(self, unique_id: str, generation: int) -> int:
        """Return the ordinal of an id's shard: 0 in a generation of one shard, else the number of the shard + 1."""
        size = self.generations[generation].size
        return 1 + SHARD_FUNCTIONS[self.function](unique_id) % size if size > 1 else 0

    def ordinals(self, generation: int) -> range:
        """Return all ordinals of a generation. Growth renumbers none of them, and generations share them."""
        size = self.generations[generation].size
        return range(1, size + 1) if size > 1 else range(1)

    def shard_text(self, ordinal: int) -> str:
        """Format a shard for hash keys: base 36 of fixed width, empty for ordinal 0. Texts sort like ordinals."""
        if ordinal == 0:
            return ""
        number, digits = ordinal - 1, ""
        for _ in range(self.width):
            number, digit = divmod(number, 36)
            digits = BASE36_DIGITS[digit] + digits
        return digits


ONE_SHARD = ShardSpace()
