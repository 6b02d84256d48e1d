"""A search decided: everything that running it needs, and nothing that has to be decided again."""

from dataclasses import dataclass
from typing import Any

from graphql_api.catalog.specs import EntitySpec, IndexSpec
from graphql_api.keys.ranges import KeyRange, RangeValue
from graphql_api.keys.segments import AFTER, SEP
from graphql_api.search.page_token import PageToken, Place, RecordPlace, short_words
from graphql_api.search.standing import Standing, Walk
from graphql_api.store.values import Position, RangeRead


@dataclass(frozen=True, slots=True)
class Binding:
    """What every token of this search carries besides its place."""

    where: str
    """entity and index, for people"""
    index_digest: bytes
    search_digest: bytes
    words: str
    """what is searched for, in full; tokens carry the beginning"""
    generations: int
    hour: int

    def token(self, standing: Standing) -> PageToken:
        """The token that brings the shards back to where they stand."""
        return PageToken(
            self.hour,
            self.generations,
            self.index_digest,
            self.search_digest,
            short_words(self.words),
            standing.place,
            lagging=standing.lagging,
        )


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """One page of one search, as it will be read."""

    entity: EntitySpec
    index: IndexSpec
    tenant: str | None
    principal: str | None
    conditions: str
    range: KeyRange
    """what the whole answer lies in"""
    whole: tuple[RangeRead, ...]
    """a read of all that each shard of the answer may hold"""
    reads: tuple[RangeRead, ...]
    """what is read first: of the shards that have something left, the rest of it"""
    one_id: bool
    """all records of the answer have one unique id, and so lie together"""
    limit: int
    reverse: bool
    backward: bool
    resumed: bool
    walk: Walk
    partial: bool
    """a shard that fails is left to a later page"""
    binding: Binding
    now: float

    @property
    def ordinals(self) -> tuple[int, ...]:
        """All shards of the answer."""
        return tuple(read.ordinal for read in self.whole)

    @property
    def descending(self) -> bool:
        """Which way the engine reads: walking backward turns what reverse turned."""
        return self.reverse != self.backward

    def describe(self) -> dict[str, Any]:
        """The plan in words: one shape for tests, `explain` and logs."""
        first = self.reads[0].limit if self.reads else 0
        return {
            "entity": self.entity.type_name,
            "index": self.index.name,
            "physicalIndex": self.index.physical,
            "conditions": self.conditions,
            "order": [f"{column.name}{' desc' if column.descending else ''}" for column in _order(self.index)],
            "reverse": self.reverse,
            "backward": self.backward,
            "range": _range_in_words(self.range),
            "resumed": self.resumed,
            "shards": len(self.reads),
            "hashKeys": [read.hash_key for read in self.reads],
            "limit": self.limit,
            "firstRead": first,
        }


def _order(index: IndexSpec) -> Any:
    return [index.sort[0].column] if index.raw else index.columns


def place_of(index: IndexSpec, position: Position) -> Place:
    """A place as a token keeps it; rows that may tie are told apart by where their record lives."""
    record = RecordPlace(_ordinal_of(position.key.hash), position.key.range) if index.raw else None
    return Place(0, position.value, position.ordinal, record)


def _ordinal_of(hash_key: str) -> int:
    """A record's ordinal in its own shard space, from the shard in its hash key (`ShardSpace.text`)."""
    shard = hash_key.partition("!")[2]
    return int(shard, 36) + 1 if shard else 0


def _range_in_words(key_range: KeyRange) -> dict[str, Any]:
    return {
        "from": _readable(key_range.low),
        "to": _readable(key_range.high),
        "open": [name for name, is_open in (("from", key_range.low_open), ("to", key_range.high_open)) if is_open],
    }


def _readable(bound: RangeValue | None) -> str | None:
    """A bound as people read it: the separators stand for themselves, without their control character."""
    return None if bound is None else str(bound).replace(SEP, SEP[1]).replace(AFTER, AFTER[1])
