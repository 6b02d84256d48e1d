"""Values in errors of writes: formatted as in GraphQL, and otherwise unchanged."""

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
from tests.schema.graphql_client import GraphQLClient, open_client


class Colour(Enum):
    """The colour of a bead."""

    RED = "r"
    DARK_BLUE = "b"


class Bead(Entity):
    """Has unique properties of every type."""

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
    """Identified by a colour and a date."""

    colour: Id[Colour]
    day: Id[date]
    since: Created[datetime]


class Thread(Entity, name="cord"):
    """References days."""

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
async def beads_client(tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """An empty database."""
    async with open_client(CATALOG, tmp_path) as client:
        yield client


DUPLICATES = [
    ("colour: DARK_BLUE", "Bead.colour: another Bead already has DARK_BLUE."),
    ('price: "1.50"', "Bead.price: another Bead already has 1.5."),
    ('madeAt: "2026-01-01T00:00:00+01:00"', "Bead.madeAt: another Bead already has 2025-12-31T23:00:00.000000Z."),
    ('lasts: "PT1H"', "Bead.lasts: another Bead already has PT3600S."),
    ("done: true", "Bead.done: another Bead already has true."),
    ('firstName: "it\'s"', 'Bead.firstName: another Bead already has "it\'s".'),
    ('day: "2026-01-31", count: 7', "Bead.day and count: another Bead already has 2026-01-31, 7."),
]


@pytest.mark.parametrize(("given", "message"), DUPLICATES)
async def test_duplicate_values(beads_client: GraphQLClient, given: str, message: str) -> None:
    """The error of a duplicate value formats the value as GraphQL does."""
    await beads_client.data(f'mutation {{ createBead(input: {{ beadId: "a", {given} }}) {{ __typename }} }}')
    error = await beads_client.error(f'mutation {{ createBead(input: {{ beadId: "b", {given} }}) {{ __typename }} }}')
    assert error["message"] == f"{message} Choose another value, or change that record."


DAY = 'colour: DARK_BLUE, day: "2026-01-31"'
NAMED = 'threadId: "PT1H", knot: RED, inColour: DARK_BLUE, onDay: "2026-01-31"'
REFUSED_WRITES = [
    (f"createDay(input: {{{DAY}}})", "Day b/2026-01-31 already exists: update it, put it, or create"),
    (
        f'putDay(input: {{{DAY}, since: "2026-02-01T00:00:00Z"}})',
        "Day b/2026-01-31 was created at 2026-01-01T00:00:00.000000Z, which determines its shard and cannot become",
    ),
    (
        'deleteDay(id: "b/2026-01-31")',
        (
            "Day b/2026-01-31 cannot be deleted: Thread PT3600S/r references it by Thread.inColour and Thread.onDay. "
            "Delete"
        ),
    ),
    (
        'updateThread(input: {id: "PT1H", knot: RED, onDay: "2026-02-01"})',
        (
            "Thread.inColour and Thread.onDay reference Day b/2026-02-01, which does not exist. Create it first, "
            "or reference"
        ),
    ),
    ('updateThread(input: {id: "PT2H", knot: RED})', "Thread PT7200S does not exist: create it by put, or check"),
]


@pytest.mark.parametrize(("mutation", "message"), REFUSED_WRITES)
async def test_records_in_errors(beads_client: GraphQLClient, mutation: str, message: str) -> None:
    """Errors identify records by type name and raw id."""
    await beads_client.data(
        f'mutation {{ createDay(input: {{{DAY}, since: "2026-01-01T00:00:00Z"}}) {{ __typename }} '
        f"createThread(input: {{{NAMED}}}) {{ __typename }} }}"
    )
    error = await beads_client.error(f"mutation {{ {mutation} {{ __typename }} }}")
    assert error["message"].startswith(message)


async def test_values_that_look_like_properties(beads_client: GraphQLClient) -> None:
    """A value equal to the Python name of a property is reported unchanged."""
    await beads_client.data('mutation { createBead(input: {beadId: "bead_id", firstName: "made_at"}) { __typename } }')
    for mutation, message in (
        (
            'createBead(input: {beadId: "x", firstName: "made_at"})',
            "Bead.firstName: another Bead already has 'made_at'",
        ),
        ('createBead(input: {beadId: "bead_id"})', "Bead bead_id already exists"),
        ('updateBead(input: {id: "made_at"})', "Bead made_at does not exist"),
    ):
        error = await beads_client.error(f"mutation {{ {mutation} {{ __typename }} }}")
        assert error["message"].startswith(message)


INVALID_KEYS = [
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


@pytest.mark.parametrize(("given", "extensions", "message"), INVALID_KEYS)
async def test_keys_of_invalid_length(
    beads_client: GraphQLClient, given: dict[str, str], extensions: dict[str, str], message: str
) -> None:
    """The error names the search field of the index, and the argument to change."""
    query = "mutation ($input: LabelInput!) { createLabel(input: $input) { label { labelId } } }"
    error = await beads_client.error(query, {"input": {"labelId": "l", **given}})
    assert error["extensions"] == extensions
    assert error["message"].startswith(message)


async def test_record_size_limit(beads_client: GraphQLClient) -> None:
    """The error names the record that is too large, in a single write and in a batch."""
    message = "Label l has 420,127 bytes"
    large = {"labelId": "l", "wholeText": "x", "body": "y" * 420_000}
    one = "mutation ($row: LabelInput!) { createLabel(input: $row) { label { labelId } } }"
    error = await beads_client.error(one, {"row": large})
    assert error["extensions"] == {"code": "ITEM_TOO_LARGE"}
    assert error["message"].startswith(message)
    many = """mutation ($rows: [LabelInput!]!) {
      createLabels(inputs: $rows) { results { label { labelId } error { code message } } } }"""
    found = (await beads_client.data(many, {"rows": [large, {"labelId": "m", "wholeText": "z"}]}))["createLabels"][
        "results"
    ]
    assert found[0]["error"]["message"].startswith(message)
    assert found[1] == {"label": {"labelId": "m"}, "error": None}
