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
    ("colour: DARK_BLUE", "Bead.colour: another Bead has DARK_BLUE already."),
    ('price: "1.50"', "Bead.price: another Bead has 1.5 already."),
    ('madeAt: "2026-01-01T00:00:00+01:00"', "Bead.madeAt: another Bead has 2025-12-31T23:00:00.000000Z already."),
    ('lasts: "PT1H"', "Bead.lasts: another Bead has PT3600S already."),
    ("done: true", "Bead.done: another Bead has true already."),
    ('firstName: "it\'s"', 'Bead.firstName: another Bead has "it\'s" already.'),
    ('day: "2026-01-31", count: 7', "Bead.day and count: another Bead has 2026-01-31, 7 already."),
]


@pytest.mark.parametrize(("given", "told"), UNIQUE)
async def test_values_that_another_record_has(beads: Asked, given: str, told: str) -> None:
    """They stand in the error as they are written in GraphQL."""
    await beads.data(f'mutation {{ createBead(input: {{ beadId: "a", {given} }}) {{ __typename }} }}')
    error = await beads.error(f'mutation {{ createBead(input: {{ beadId: "b", {given} }}) {{ __typename }} }}')
    assert error["message"] == f"{told} Give another value, or change that record."


DAY = 'colour: DARK_BLUE, day: "2026-01-31"'
NAMED = 'threadId: "PT1H", knot: RED, inColour: DARK_BLUE, onDay: "2026-01-31"'
RECORDS = [
    (f"createDay(input: {{{DAY}}})", "Day b/2026-01-31 exists already: change it by an update, or put it, or create"),
    (
        f'putDay(input: {{{DAY}, since: "2026-02-01T00:00:00Z"}})',
        "Day b/2026-01-31 was created at 2026-01-01T00:00:00.000000Z, which decides where it lives, and cannot become",
    ),
    (
        'deleteDay(id: "b/2026-01-31")',
        "Day b/2026-01-31 cannot be removed: Thread PT3600S/r names it by Thread.inColour and Thread.onDay. Remove",
    ),
    (
        'updateThread(input: {id: "PT1H", knot: RED, onDay: "2026-02-01"})',
        "Thread.inColour and Thread.onDay name Day b/2026-02-01, which is not there. Create that first, or name",
    ),
    ('updateThread(input: {id: "PT2H", knot: RED})', "There is no Thread PT7200S to change: write it by put, or look"),
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
            "Bead.firstName: another Bead has 'made_at' already",
        ),
        ('createBead(input: {beadId: "bead_id"})', "Bead bead_id exists already"),
        ('updateBead(input: {id: "made_at"})', "There is no Bead made_at to change"),
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
        "Label.plainText has 1,100 bytes, and labelByPlain keeps it as a plain key, where at most 1,020 fit",
    ),
    (
        {"wholeText": "", "plainText": ""},
        {"code": "EMPTY_KEY", "argument": "plainText"},
        "Label.plainText is empty, and labelByPlain keeps it as a plain key",
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
