"""Which shard a record belongs to: dated generations of a shard space (docs/shards.md).

A shard space only ever grows by adding a generation that begins in the future, so no record moves: each stays in the
shard that the generation in force at its creation value gave it.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def blake2b_number(unique_id: str) -> int:
    """The first eight bytes of BLAKE2b: an even spread for any ids."""
    return int.from_bytes(blake2b(unique_id.encode()).digest()[:8], "big")


def string_hash(unique_id: str) -> int:
    """The hash of the npm package `string-hash`, which Entity Manager shards by: over UTF-16 units, from the last."""
    number = 5381
    units = unique_id.encode("utf-16-le")
    for at in range(len(units) - 2, -1, -2):
        number = ((number * 33) & 0xFFFFFFFF) ^ (units[at] | units[at + 1] << 8)
    return number


SHARD_FUNCTIONS: Mapping[str, Callable[[str], int]] = {"blake2b": blake2b_number, "string-hash": string_hash}


@dataclass(frozen=True, slots=True)
class Generation:
    """A number of shards, in force from a creation value on; None for the first one: from the beginning."""

    since: Any | None
    size: int


@dataclass(frozen=True, slots=True)
class ShardSpace:
    """All generations of an entity's shards, oldest first."""

    generations: tuple[Generation, ...] = (Generation(None, 1),)
    width: int = 2
    function: str = "blake2b"
    _later: tuple[Any, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_later", tuple(generation.since for generation in self.generations[1:]))

    def generation_at(self, created: Any | None) -> int:
        """The number of the generation in force at a creation value."""
        return bisect_right(self._later, created) if self._later else 0

    def generations_between(self, low: Any | None, high: Any | None) -> range:
        """The generations that records created from `low` to `high` (both included, None: no bound) may belong to."""
        first = 0 if low is None else self.generation_at(low)
        last = len(self._later) if high is None else self.generation_at(high)
        return range(first, last + 1)

    def ordinal(self, unique_id: str, generation: int) -> int:
        """The ordinal of an id's shard: 0 for the only shard of a generation of one, else the shard's number + 1."""
        size = self.generations[generation].size
        return 1 + SHARD_FUNCTIONS[self.function](unique_id) % size if size > 1 else 0

    def ordinals(self, generation: int) -> range:
        """All ordinals of a generation. Growth renumbers none of them, and generations share them."""
        size = self.generations[generation].size
        return range(1, size + 1) if size > 1 else range(1)

    def text(self, ordinal: int) -> str:
        """A shard as the hash key names it: base 36 of one width, nothing for ordinal 0; it sorts as ordinals do."""
        if ordinal == 0:
            return ""
        number, digits = ordinal - 1, ""
        for _ in range(self.width):
            number, digit = divmod(number, 36)
            digits = DIGITS[digit] + digits
        return digits


ONE_SHARD = ShardSpace()
