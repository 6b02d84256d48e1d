"""A search decided: everything that running it needs, and nothing that has to be decided again."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from graphql_api.codecs import KeyRange, RangeValue, hash_key, readable
from graphql_api.model import EntitySpec, IndexSpec, SortProperty
from graphql_api.query.filters import Filter, conjuncts
from graphql_api.query.index_row import RowView
from graphql_api.query.page_token import PageToken, Place, RecordPlace, short_words
from graphql_api.query.read_sizing import first_limit
from graphql_api.query.shard_progress import Standing, Walk
from graphql_api.storage import Item, Key, Position, RangeRead, behind


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

    def token(self, standing: Standing, hint: int = 0) -> PageToken:
        """The token that brings the shards back to where they stand."""
        return PageToken(
            self.hour,
            self.generations,
            self.index_digest,
            self.search_digest,
            short_words(self.words),
            standing.place,
            hint=hint,
            lagging=standing.lagging,
        )


@dataclass(frozen=True, slots=True)
class Member:
    """One index of a search: what is looked at there, and in which of it a record counts."""

    number: int
    index: IndexSpec
    conditions: str
    hash_values: tuple[tuple[str, str], ...]
    range: KeyRange
    """what the whole answer of this index lies in"""
    whole: tuple[RangeRead, ...]
    """a read of all that each shard of it may hold"""
    one_id: bool
    """all records of the answer have one unique id, and so lie together"""
    view: RowView
    """what a row tells by itself"""
    early: Filter | None
    """the part of the filter that a row tells enough for"""
    fetches: bool
    """rows do not tell enough: records are fetched by key"""
    late: bool
    """part of the filter is tested on the fetched records"""

    @property
    def ordinals(self) -> tuple[int, ...]:
        """All shards of the answer."""
        return tuple(read.ordinal for read in self.whole)

    def holds(self, item: Item) -> bool:
        """Whether a record has its place in this part of the answer, by the keys that are stored with it."""
        value = item.get(self.index.range_attribute)
        if value is None or not self.range.contains(value):
            return False
        hash_key = item.get(self.index.hash_attribute)
        return any(read.hash_key == hash_key for read in self.whole)

    def place_of(self, position: Position) -> Place:
        """A place as a token keeps it; rows that may tie are told apart by where their record lives."""
        record = RecordPlace(_ordinal_of(position.key.hash), position.key.range) if self.index.raw else None
        return Place(self.number, position.value, position.ordinal, record)

    def describe(self) -> dict[str, Any]:
        """This part of the answer in words."""
        return {
            "index": self.index.name,
            "physicalIndex": self.index.physical,
            "conditions": self.conditions,
            "order": [f"{column.name}{' desc' if column.descending else ''}" for column in _order(self.index)],
            "range": _range_in_words(self.range),
        }


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """One page of one search, as it will be read."""

    entity: EntitySpec
    tenant: str | None
    principal: str | None
    members: tuple[Member, ...]
    """the indexes that are searched, one after the other; nearly always one"""
    union: str | None
    """what the several indexes are called together"""
    filter: Filter | None
    order_by: SortProperty | None
    """what sorts the whole answer, which is then one page"""
    limit: int
    reverse: bool
    backward: bool
    resumed: bool
    walk: Walk
    partial: bool
    """a shard that fails is left to a later page"""
    budget: int
    """records that are looked at before the page ends early"""
    hint: int
    """about how many records the pages before looked at for each of theirs, as a power of two"""
    selected: frozenset[str] | None
    """the properties that are needed of a record; None: all"""
    binding: Binding
    now: float
    why: str | None = None
    """in words, why it is this index"""

    @property
    def descending(self) -> bool:
        """Which way the engine reads: walking backward turns what reverse turned."""
        return self.reverse != self.backward

    @property
    def ordinals(self) -> tuple[int, ...]:
        """All shards of the answer."""
        return tuple(dict.fromkeys(ordinal for member in self.members for ordinal in member.ordinals))

    def reads_of(
        self, member: Member, standing: Standing, count: int, without: Collection[int] = ()
    ) -> list[RangeRead]:
        """What is read first of an index, from where the shards stand, for so many records."""
        left = [
            (read, position)
            for whole in member.whole
            if whole.ordinal not in without
            for place in [standing.of(whole.ordinal)]
            for position in [self._position(member, place)]
            if (read := self._left_of(member, whole, place, position)) is not None
        ]
        if not left:
            return []
        each = first_limit(count, len(left), hint=0 if member.late else self.hint, one_id=member.one_id)
        each = min(each, -(-self.budget // len(left)))
        return [_with_limit(read, each, position) for read, position in left]

    def _left_of(self, member: Member, read: RangeRead, place: Place, position: Position | None) -> RangeRead | None:
        """What a shard still has to show of an index."""
        if position is not None:
            return behind(read, position, may_tie=member.index.raw)
        return None if self.walk.is_done(place, member.number) else read

    def _position(self, member: Member, place: Place) -> Position | None:
        """A place within this index; the hash key of its record is made anew, never taken from the token."""
        if place.value is None or place.index != member.number:
            return None
        if place.record is None:
            return Position(place.value, place.ordinal, Key("", ""))
        entity = self.entity
        own_hash = hash_key(entity.name, entity.space.text(place.record.ordinal), (), self.tenant)
        return Position(place.value, place.ordinal, Key(own_hash, place.record.range_key))

    @property
    def reads(self) -> list[RangeRead]:
        """What is read first."""
        return self._begin()[1]

    def _begin(self) -> tuple[Member, list[RangeRead]]:
        """The index that the page begins with, and what is read of it first."""
        for number in self.walk.members():
            reads = self.reads_of(self.members[number], self.walk.begins, self.limit)
            if reads:
                return self.members[number], reads
        return self.members[self.walk.members()[0]], []

    def describe(self) -> dict[str, Any]:
        """The plan in words: one shape for tests, `explain` and logs."""
        member, reads = self._begin()
        told = {
            **({} if self.why is None else {"why": self.why}),
            "entity": self.entity.type_name,
            **member.describe(),
            "reverse": self.reverse,
            "backward": self.backward,
            "resumed": self.resumed,
            "shards": len(reads),
            "hashKeys": [read.hash_key for read in reads],
            "limit": self.limit,
            "firstRead": reads[0].limit if reads else 0,
        }
        if self.union is not None:
            told |= {"union": self.union, "indexes": [each.describe() for each in self.members]}
        if self.filter is not None:
            by_row, rest = conjuncts(member.early), conjuncts(self.filter)
            told["filter"] = {
                "conditions": self.filter.words(),
                "testedOnRows": [part.words() for part in rest if part in by_row],
                "testedOnRecords": [part.words() for part in rest if part not in by_row],
            }
        if self.order_by is not None:
            order = self.order_by
            told["sortedBy"] = f"{order.property.stored}{' desc' if order.descending else ''}"
        if any(each.fetches for each in self.members):
            told["fetchesRecords"] = True
        return told


def _order(index: IndexSpec) -> Any:
    return [index.sort[0].column] if index.raw else index.columns


def _ordinal_of(hash_key: str) -> int:
    """A record's ordinal in its own shard space, from the shard in its hash key (`ShardSpace.text`)."""
    shard = hash_key.partition("!")[2]
    return int(shard, 36) + 1 if shard else 0


def _with_limit(read: RangeRead, limit: int, position: Position | None) -> RangeRead:
    """Reading downwards an engine may have to read the place's own record once more to leave it out: one more there."""
    again = position is not None and read.descending and read.start is None and read.ordinal == position.ordinal
    return replace(read, limit=limit + again)


def _range_in_words(key_range: KeyRange) -> dict[str, Any]:
    return {
        "from": _bound_in_words(key_range.low),
        "to": _bound_in_words(key_range.high),
        "open": [name for name, is_open in (("from", key_range.low_open), ("to", key_range.high_open)) if is_open],
    }


def _bound_in_words(bound: RangeValue | None) -> str | None:
    return None if bound is None else readable(str(bound))
