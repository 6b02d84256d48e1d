"""Read a part of a table: about equally many records of every shard, at even distances."""

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import pairwise, takewhile
from secrets import SystemRandom

from graphql_api.codecs import KeyRange, hash_key
from graphql_api.errors import StoreError
from graphql_api.storage import Item, RangeRead, Row, Store
from graphql_api.verification.verified_elements import VerifiedElements

_CHUNK = 8
"""neighboring records that are read at each position"""
_PROBED = 50
"""records at each end of a shard that show which characters its keys consist of"""
_DIGITS = 8
"""characters of a position"""


async def sampled_pages(
    store: Store, elements: VerifiedElements, count: int, tenants: Sequence[str | None]
) -> AsyncIterator[Sequence[Item]]:
    """Yield about `count` records, from every shard of the verified entities."""
    shards = [(hash_text, *await _ends(store, hash_text)) for hash_text in _hash_keys(elements, tenants)]
    filled = [shard for shard in shards if shard[1]]
    for hash_text, first, last in filled:
        wanted = max(1, round(count / len(filled)))
        if len(first) < _PROBED:
            yield [row.item for row in first[:: -(-len(first) // wanted)]]  # These are all records of the shard.
            continue
        keys = [f"{row.value}" for row in (*first, *last)]
        starts = spread_positions(keys, -(-wanted // _CHUNK), SystemRandom().random())
        for low, high in pairwise([*starts, None]):
            rows = await _rows(store, hash_text, KeyRange(low, high, high_open=high is not None), _CHUNK)
            yield [row.item for row in rows]


def _hash_keys(elements: VerifiedElements, tenants: Sequence[str | None]) -> Iterator[str]:
    for name, verified in elements.entities.items():
        for ordinal in verified.entity.space.covering_shards():
            for tenant in tenants:
                yield hash_key(name, verified.entity.space.shard_text(ordinal), (), tenant)


async def _ends(store: Store, hash_text: str) -> tuple[Sequence[Row], Sequence[Row]]:
    """Return the first and the last records of a shard."""
    first = await _rows(store, hash_text, KeyRange(), _PROBED)
    return first, await _rows(store, hash_text, KeyRange(), _PROBED, descending=True) if first else ()


async def _rows(
    store: Store, hash_text: str, key_range: KeyRange, limit: int, *, descending: bool = False
) -> Sequence[Row]:
    read = RangeRead(None, hash_text, 0, key_range, limit, descending, consistent=True)
    (page,) = await store.read_ranges([read], want=limit)
    if isinstance(page, StoreError):
        raise page
    return page.rows


def spread_positions(keys: Sequence[str], count: int, offset: float) -> list[str]:
    """Return up to `count` texts between the least and the greatest of some keys, at even distances.

    A text counts as a number whose digits are the characters of the keys. `offset`, from 0 to 1, shifts all positions.
    """
    first, last = min(keys), max(keys)
    prefix = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    characters = sorted({character for key in keys for character in key[len(prefix) :]})
    if not characters:
        return [first]
    values = {character: number for number, character in enumerate(characters)}

    def value(key: str) -> int:
        number = 0
        for digit in key[len(prefix) : len(prefix) + _DIGITS].ljust(_DIGITS, characters[0]):
            number = number * len(characters) + values[digit]
        return number

    low, distance = value(first), value(last) + 1 - value(first)
    return sorted({prefix + _text(low + int(distance * (step + offset) / count), characters) for step in range(count)})


def _text(number: int, characters: Sequence[str]) -> str:
    digits = ""
    for _ in range(_DIGITS):
        number, digit = divmod(number, len(characters))
        digits = characters[digit] + digits
    return digits
