"""Codecs alone decode records as pydantic does: the same values, the same set fields, and the same errors."""

from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, derived
from graphql_api.errors import ShardQLError
from graphql_api.examples import issues, orders, users
from graphql_api.model import EntitySpec, decode_record, decode_records
from graphql_api.model.record_codec import decode_by_model
from graphql_api.storage import Item
from graphql_api.writes.item_keys import to_item
from tests.laws import completion_catalogs
from tests.support import all_types_catalog
from tests.support.run_depth import depth


class Word(Entity):
    """Has derived properties, of which one fails for some records."""

    word_id: Id[str]
    text: str
    size: int | None = 3
    first: str = derived(lambda text: text[0], "text")
    upper: str = derived(lambda text: text.upper(), "text")


WORDS = [Word(word_id="a", text="één"), Word(word_id="b", text="x", size=2**40)]
SAMPLES: Sequence[tuple[Catalog, Sequence[Entity]]] = [
    (users.catalog, [*users.sample(20)]),
    (orders.catalog, [*islice(orders.sample(4), 60)]),
    (issues.catalog, [*islice(issues.sample(6), 60)]),
    (completion_catalogs.CATALOG, completion_catalogs.RECORDS),
    (all_types_catalog.CATALOG, [all_types_catalog.Line(order="o", year=1, category="c", num=2)]),
    (Catalog(Word), WORDS),
]


def stored_samples() -> Iterator[tuple[EntitySpec, Item]]:
    """Yield entities with stored records."""
    for catalog, records in SAMPLES:
        for record in records:
            entity = catalog.entity(type(record))
            yield entity, to_item(entity, record, None, "w")


def damaged(entity: EntitySpec, item: Item, random: Random) -> Item:
    """Return an item in which some attributes are missing, null, or of another type."""
    changed, fields = dict(item), entity.model.model_fields
    generated = {part.stored for part in entity.properties.values() if fields[part.name].default_factory is not None}
    names = sorted(changed.keys() - generated)  # A missing one is random at each reading.
    for name in random.sample(names, min(len(names), random.choice([0, 1, 1, 2, 4]))):
        changed[name] = random.choice([None, True, 7, -1, "", "x", "é\ud800", changed[name]])
        if random.random() < 0.3:
            del changed[name]
    return changed


def outcome(decode: Any, entity: EntitySpec, item: Item) -> Any:
    """Return everything that shows of a decoded record, or of the error."""
    try:
        record = decode(entity, item)
    except ShardQLError as problem:
        return type(problem), str(problem)
    except Exception as problem:  # noqa: BLE001 - a function of the catalog may raise anything
        return type(problem), str(problem)
    hidden = record.__pydantic_extra__, record.__pydantic_private__
    return type(record), [*vars(record).items()], record.model_fields_set, hidden, repr(record)


def test_codecs_decode_as_the_model_does(random: Random) -> None:
    """Records, and errors for damaged items, are equal; and most records need no model."""
    plain = 0
    for entity, item in [*stored_samples()] * depth(quick=3, deep=100):
        for one in (item, damaged(entity, item, random)):
            assert outcome(decode_record, entity, one) == outcome(decode_by_model, entity, one), one
        plain += entity.has_only_scalars
    assert plain > 0


def test_pages_are_decoded_as_single_records(random: Random) -> None:
    """Several items at once are decoded as one by one: equal records, or the error of the first invalid one."""
    items: dict[str, tuple[EntitySpec, list[Item]]] = {}
    for entity, item in stored_samples():
        items.setdefault(entity.type_name, (entity, []))[1].append(item)
    for entity, stored in [*items.values()] * depth(quick=4, deep=200):
        page = random.choices(stored, k=random.randrange(5))
        if page and random.random() < 0.7:
            page[-1] = damaged(entity, page[-1], random)

        def decode_last(spec: EntitySpec, item: Item, before: Sequence[Item] = page[:-1]) -> Any:
            return decode_records(spec, [*before, item])[-1]

        if page:
            assert outcome(decode_last, entity, page[-1]) == outcome(decode_record, entity, page[-1]), page
        assert [outcome(lambda _, __, one=one: one, entity, {}) for one in decode_records(entity, page[:-1])] == [
            outcome(decode_record, entity, one) for one in page[:-1]
        ]


@pytest.mark.parametrize("record", WORDS)
def test_a_decoded_record_equals_the_written_one(record: Word) -> None:
    """A record that codecs decode equals the one that was written, and can be changed like it."""
    entity = Catalog(Word).entity(Word)
    decoded = decode_record(entity, to_item(entity, record, None, "w"))
    assert decoded == record
    assert decoded.model_copy(update={"size": 5}).model_dump() == {**record.model_dump(), "size": 5}
