"""Digests of items, and their sums by shard: they depend neither on the engine nor on the order of reading."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from orjson import OPT_SORT_KEYS, dumps

from graphql_api.codecs import HashKeyParts, hash_key_parts
from graphql_api.evolution import TableRecord
from graphql_api.model import HASH_ATTRIBUTE
from graphql_api.projections import STREAM_KIND
from graphql_api.storage import Item, canonical_json, is_number
from graphql_api.writes import BOOKKEEPING, OWNER_EXPIRES

_DIGEST_BYTES = 8
_SUMS = 2 ** (8 * _DIGEST_BYTES)
OTHER_ITEMS = HashKeyParts(None, "(other)", "")
"""the place of items whose hash key is none of a table"""


def item_digest(item: Item) -> int:
    """Return a digest of the attributes of an item, but its write id and delete intent."""
    content = {name: value for name, value in item.items() if name not in BOOKKEEPING}
    text = dumps(canonical_json(content), option=OPT_SORT_KEYS)
    return int.from_bytes(blake2b(text, digest_size=_DIGEST_BYTES).digest(), "big")


@dataclass(frozen=True, slots=True)
class ShardDigest:
    """The number of items in one shard, of all tenants, and the sum of their digests."""

    head: str
    """an entity, or an entity and `~` with a kind of item"""
    shard: str
    items: int
    digest: int

    @property
    def text(self) -> str:
        """Return the sum as hexadecimal digits."""
        return f"{self.digest:0{2 * _DIGEST_BYTES}x}"


class DigestSums:
    """The digests of the items of a table, by shard."""

    def __init__(self, sums: Mapping[tuple[str, str], tuple[int, int]] | None = None) -> None:
        self.sums = dict(sums or {})
        """number of items and sum of digests, by head and shard"""

    def add(self, place: HashKeyParts, digest: int) -> None:
        """Add the digest of an item."""
        key = place.head, place.shard
        count, total = self.sums.get(key, (0, 0))
        self.sums[key] = count + 1, (total + digest) % _SUMS

    def __iter__(self) -> Iterator[ShardDigest]:
        for head, shard in sorted(self.sums):
            yield ShardDigest(head, shard, *self.sums[head, shard])

    def differing(self, other: "DigestSums") -> set[tuple[str, str]]:
        """Return the shards whose items differ in number or digest."""
        keys = self.sums.keys() | other.sums.keys()
        return {key for key in keys if self.sums.get(key) != other.sums.get(key)}


class DigestedItems:
    """Selects the items that digests include: not the table's own record, nor dead letters, nor expired items."""

    def __init__(self, record: TableRecord) -> None:
        self._expiry = {
            one.element.entity: one.element.definition["stored"]
            for one in record.elements.values()
            if one.element.kind == "server-set" and one.element.name.endswith(".expiry")
        }

    def place(self, item: Item, now: float) -> HashKeyParts | None:
        """Return the place of an item; None if digests do not include it."""
        place = hash_key_parts(item[HASH_ATTRIBUTE]) or OTHER_ITEMS
        if place.entity == "shardql":
            # Without the positions of streams, a copy would apply their events again.
            return place if place.kind == STREAM_KIND else None
        attribute = OWNER_EXPIRES if place.kind else self._expiry.get(place.entity, "")
        expires: Any = item.get(attribute)
        return None if is_number(expires) and expires <= now else place
