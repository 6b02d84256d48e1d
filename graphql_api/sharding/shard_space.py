"""Assign records to shards by the generations of a shard space (docs/reference/shards.md).

A shard space grows only by a new generation that begins in the future. Records therefore never move:
a record stays in the shard of the generation that was in force at its creation value.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
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
    pending: int = 0
    """number of the last generations in which no record is placed yet; readers include them"""
    _beginnings: tuple[Any, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_beginnings", tuple(generation.since for generation in self.generations[1:]))

    def generation_at(self, created: Any | None) -> int:
        """Return the number of the generation that places a record with this creation value."""
        if not self._beginnings or created is None:
            return 0  # Without a creation value, a record is older than its creation property.
        return min(bisect_right(self._beginnings, created), len(self._beginnings) - self.pending)

    def covering_shards(
        self, *, unique_id: str | None = None, created_from: Any | None = None, created_to: Any | None = None
    ) -> tuple[int, ...]:
        """Return the ordinals of all shards that may hold a matching record, ascending and without duplicates.

        A known unique id selects one shard per generation. Inclusive bounds on the creation value select generations.
        """
        first = 0 if created_from is None else self.generation_at(created_from)
        last = len(self._beginnings) if created_to is None else bisect_right(self._beginnings, created_to)
        if unique_id is None:
            return _shards_of_sizes(tuple(generation.size for generation in self.generations[first : last + 1]))
        return tuple(sorted({self.ordinal(unique_id, generation) for generation in range(first, last + 1)}))

    def ordinal(self, unique_id: str, generation: int) -> int:
        """Return the ordinal of an id's shard: 0 in a generation of one shard, else the number of the shard + 1."""
        size = self.generations[generation].size
        return 1 + SHARD_FUNCTIONS[self.function](unique_id) % size if size > 1 else 0

    def ordinals(self, generation: int) -> range:
        """Return all ordinals of a generation. Growth renumbers none of them, and generations share them."""
        return _shards_of_size(self.generations[generation].size)

    @property
    def capacity(self) -> int:
        """Return the number of ordinals that the space can ever have. It never changes."""
        return int(36**self.width) + 1

    def shard_text(self, ordinal: int) -> str:
        """Format a shard for hash keys: base 36 of fixed width, empty for ordinal 0. Texts sort like ordinals."""
        return _shard_text(ordinal, self.width)

    def ordinals_by_text(self, ordinals: tuple[int, ...]) -> Mapping[str, int]:
        """Return ordinals by the texts of their shards, in the same order."""
        return _ordinals_by_text(ordinals, self.width)


def _shards_of_size(size: int) -> range:
    return range(1, size + 1) if size > 1 else range(1)


@lru_cache(maxsize=256)
def _shards_of_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ordinals of all shards of some generations, ascending and without duplicates."""
    return tuple(sorted({ordinal for size in sizes for ordinal in _shards_of_size(size)}))


@lru_cache(maxsize=256)
def _ordinals_by_text(ordinals: tuple[int, ...], width: int) -> Mapping[str, int]:
    return MappingProxyType({_shard_text(ordinal, width): ordinal for ordinal in ordinals})


@lru_cache(maxsize=4096)
def _shard_text(ordinal: int, width: int) -> str:
    if ordinal == 0:
        return ""
    number, digits = ordinal - 1, ""
    for _ in range(width):
        number, digit = divmod(number, 36)
        digits = BASE36_DIGITS[digit] + digits
    return digits


ONE_SHARD = ShardSpace()
