"""Values in errors of writes: as clients write them, whatever they are in Python, and never changed."""

from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path

import pytest

from graphql_api import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    Id,
    Index,
    Shards,
    SubId,
    Unique,
    UniqueTogether,
    canonical,
    derived,
)
from tests.schema.asking import Asked, asked


class Colour(Enum):
    """Of a bead."""

    RED = "r"
    DARK_BLUE = "b"


class Bead(Entity):
    """May be of everything that can be unique."""

    bead_id: Id[str]
    colour: Unique[Colour | None] = None
    price: Unique[Decimal | None] = None
    made_at: Unique[datetime | None] = None
    lasts: Unique[timedelta | None] = None
    done: Unique[bool | None] = None
    first_name: Unique[str | None] = None
    day: date | None = None
    count: int | None = None
    unique_day = UniqueTogether("day", "count")


class Day(Entity, shards=Shards(1).then(4, since="2020-01-01")):
    """Known by a colour and a date."""

    colour: Id[Colour]
    day: Id[date]
    since: Created[datetime]


class Thread(Entity, name="cord"):
    """Goes through days."""

    thread_id: Id[timedelta]
    knot: SubId[Colour]
    in_colour: Colour | None = None
    on_day: date | None = None

    of_day = ForeignKey("Day", by=["in_colour", "on_day"])


class Label(Entity):
    """Has long texts in keys."""

    label_id: Id[str]
    whole_text: str
    plain_text: str | None = None
    body: str = ""
    text_canonical: str = derived(canonical, "whole_text")

    by_whole_text = Index(sort=["text_canonical", "label_id"])
    by_plain = Index(sort="plain_text", raw=True, sharded=False)


CATALOG = Catalog(Bead, Day, Thread, Label)


@pytest.fixture
async def beads(tmp_path: Path) -> AsyncIterator[Asked]:
    """Nothing yet."""
    async with asked(CATALOG, tmp_path) as ask:
        yield ask


UNIQUE = [
    ("colour: DARK_BLUE", "Bead.colour: another Bead already has DARK_BLUE."),
    ('price: "1.50"', "Bead.price: another Bead already has 1.5."),
    ('madeAt: "2026-01-01T00:00:00+01:00"', "Bead.madeAt: another Bead already has 2025-12-31T23:00:00.000000Z."),
    ('lasts: "PT1H"', "Bead.lasts: another Bead already has PT3600S."),
    ("done: true", "Bead.done: another Bead already has true."),
    ('firstName: "it\'s"', 'Bead.firstName: another Bead already has "it\'s".'),
    ('day: "2026-01-31", count: 7', "Bead.day and count: another Bead already has 2026-01-31, 7."),
]


@pytest.mark.parametrize(("given", "told"), UNIQUE)
async def test_values_that_another_record_has(beads: Asked, given: str, told: str) -> None:
    """They stand in the error as they are written in GraphQL."""
    await beads.data(f'mutation {{ createBead(input: {{ beadId: "a", {given} }}) {{ __typename }} }}')
    error = await beads.error(f'mutation {{ createBead(input: {{ beadId: "b", {given} }}) {{ __typename }} }}')
    assert error["message"] == f"{told} Choose another value, or change that record."


DAY = 'colour: DARK_BLUE, day: "2026-01-31"'
NAMED = 'threadId: "PT1H", knot: RED, inColour: DARK_BLUE, onDay: "2026-01-31"'
RECORDS = [
    (f"createDay(input: {{{DAY}}})", "Day b/2026-01-31 already exists: update it, put it, or create"),
    (
        f'putDay(input: {{{DAY}, since: "2026-02-01T00:00:00Z"}})',
        "Day b/2026-01-31 was created at 2026-01-01T00:00:00.000000Z, which determines its shard and cannot become",
    ),
    (
        'deleteDay(id: "b/2026-01-31")',
        "Day b/2026-01-31 cannot be deleted: Thread PT3600S/r references it by Thread.inColour and Thread.onDay. Delete",
    ),
    (
        'updateThread(input: {id: "PT1H", knot: RED, onDay: "2026-02-01"})',
        "Thread.inColour and Thread.onDay reference Day b/2026-02-01, which does not exist. Create it first, or reference",
    ),
    ('updateThread(input: {id: "PT2H", knot: RED})', "Thread PT7200S does not exist: create it by put, or check"),
]


@pytest.mark.parametrize(("mutation", "told"), RECORDS)
async def test_records_in_errors(beads: Asked, mutation: str, told: str) -> None:
    """Records go by the names of their types, and by their ids as clients give them."""
    await beads.data(
        f'mutation {{ createDay(input: {{{DAY}, since: "2026-01-01T00:00:00Z"}}) {{ __typename }} '
        f"createThread(input: {{{NAMED}}}) {{ __typename }} }}"
    )
    error = await beads.error(f"mutation {{ {mutation} {{ __typename }} }}")
    assert error["message"].startswith(told)


async def test_values_that_are_called_as_properties(beads: Asked) -> None:
    """A value that is written as Python writes a property stays as it is."""
    await beads.data('mutation { createBead(input: {beadId: "bead_id", firstName: "made_at"}) { __typename } }')
    for mutation, told in (
        (
            'createBead(input: {beadId: "x", firstName: "made_at"})',
            "Bead.firstName: another Bead already has 'made_at'",
        ),
        ('createBead(input: {beadId: "bead_id"})', "Bead bead_id already exists"),
        ('updateBead(input: {id: "made_at"})', "Bead made_at does not exist"),
    ):
        error = await beads.error(f"mutation {{ {mutation} {{ __typename }} }}")
        assert error["message"].startswith(told)


LONG = [
    (
        {"wholeText": "x" * 1_100},
        {"code": "KEY_TOO_LONG", "argument": "wholeText"},
        "labelByWholeText: The range value of textCanonical, labelId would have ",
    ),
    (
        {"wholeText": "x", "plainText": "y" * 1_100},
        {"code": "KEY_TOO_LONG", "argument": "plainText"},
        "Label.plainText has 1,100 bytes, and labelByPlain stores it as a plain key, where at most 1,020 fit",
    ),
    (
        {"wholeText": "", "plainText": ""},
        {"code": "EMPTY_KEY", "argument": "plainText"},
        "Label.plainText is empty, and labelByPlain stores it as a plain key",
    ),
]


@pytest.mark.parametrize(("given", "extensions", "told"), LONG)
async def test_keys_that_do_not_fit(beads: Asked, given: dict[str, str], extensions: dict[str, str], told: str) -> None:
    """The error names the search that the schema has for the index, and what can be given differently."""
    query = "mutation ($input: CreateLabelInput!) { createLabel(input: $input) { label { labelId } } }"
    error = await beads.error(query, {"input": {"labelId": "l", **given}})
    assert error["extensions"] == extensions
    assert error["message"].startswith(told)


async def test_a_record_that_is_too_large(beads: Asked) -> None:
    """The error names the record, alone as in a batch, and whatever is written along with it."""
    told = "Label l has 420,127 bytes"
    large = {"labelId": "l", "wholeText": "x", "body": "y" * 420_000}
    one = "mutation ($row: CreateLabelInput!) { createLabel(input: $row) { label { labelId } } }"
    error = await beads.error(one, {"row": large})
    assert error["extensions"] == {"code": "ITEM_TOO_LARGE"}
    assert error["message"].startswith(told)
    many = """mutation ($rows: [CreateLabelInput!]!) {
      createLabels(inputs: $rows) { results { label { labelId } error { code message } } } }"""
    found = (await beads.data(many, {"rows": [large, {"labelId": "m", "wholeText": "z"}]}))["createLabels"]["results"]
    assert found[0]["error"]["message"].startswith(told)
    assert found[1] == {"label": {"labelId": "m"}, "error": None}
