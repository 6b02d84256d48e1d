"""Reads records by their keys, by one call of the store however many they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.clock import Clock
from graphql_api.codecs import readable
from graphql_api.errors import ShardQLError
from graphql_api.model import Entity, EntitySpec, from_item, living
from graphql_api.query.execution.index_scan import Work
from graphql_api.runtime import count_returned, itemised
from graphql_api.storage import Item, Key, Store


@dataclass(frozen=True, slots=True)
class RecordRead:
    """A read of one record by every key that it can have: one for each generation of shards."""

    entity: EntitySpec
    keys: Sequence[Key]
    consistent: bool
    why: str | None
    """in words, why it is read by key"""

    def describe(self) -> dict[str, Any]:
        """The read in words, in the shape of a plan."""
        return {
            **({} if self.why is None else {"why": self.why}),
            "entity": self.entity.type_name,
            "keys": [{"hashKey": key.hash, "rangeKey": readable(key.range)} for key in self.keys],
            "consistent": self.consistent,
        }


@dataclass(frozen=True, slots=True)
class RecordsFound:
    """What reads by key have found, one by one, and what that took."""

    answers: Sequence[Entity | ShardQLError | None]
    """None where there is no record, an error where what is stored is none"""
    explain: Mapping[str, Any]


async def find_records(store: Store, reads: Sequence[RecordRead], clock: Clock) -> RecordsFound:
    """The records that these reads find; one that is broken takes no other with it."""
    now = clock()
    keys = [*dict.fromkeys(key for read in reads for key in read.keys)]
    with itemised() as bill:
        items = await store.get_many(keys, reads[0].consistent)
    answers = _answers(reads, dict(zip(keys, items, strict=True)), now)
    found = sum(isinstance(answer, Entity) for answer in answers)
    count_returned(found)
    work = Work(fetched=len(keys))
    work.took(clock() - now, bill)
    return RecordsFound(answers, {**_described(reads), "read": {**work.describe(), "returned": found}})


def _answers(
    reads: Sequence[RecordRead], items: Mapping[Key, Item | None], now: float
) -> list[Entity | ShardQLError | None]:
    answers: list[Entity | ShardQLError | None] = []
    for read in reads:
        try:
            item = living(read.entity, map(items.__getitem__, read.keys), now)
            answers.append(None if item is None else from_item(read.entity, item))
        except ShardQLError as problem:
            answers.append(problem)
    return answers


def _described(reads: Sequence[RecordRead]) -> dict[str, Any]:
    """The reads in words: of several, how many keys of which entities."""
    if len(reads) == 1:
        return reads[0].describe()
    return {
        "entities": sorted({read.entity.type_name for read in reads}),
        "records": len(reads),
        "consistent": reads[0].consistent,
    }
