"""Invalid keys and records are refused with argument and remedy. No input causes any other kind of error."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api import Entity
from graphql_api.codecs.key_ranges import Between, Eq, Prefix
from graphql_api.codecs.scalar_codec import short_repr
from graphql_api.errors import (
    ConflictingArguments,
    EmptyKey,
    InvalidRecord,
    InvalidValue,
    KeyTooLong,
    MissingArgument,
    ShardQLError,
    UnknownArgument,
    UnknownEntity,
)
from graphql_api.model.markers import IndexRef
from graphql_api.query.planner import plan_search
from graphql_api.query.search_request import SearchRequest
from tests.support.all_types_catalog import (
    CATALOG,
    LONE_SURROGATE,
    NOW,
    SEAL,
    AllTypesDatabase,
    Digits,
    Line,
    Settings,
    State,
    Stranger,
    Thing,
    all_types_database,
)
from tests.support.run_depth import examples


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AllTypesDatabase]:
    """A store that is shared by the tests of this module."""
    with all_types_database(tmp_path_factory.mktemp("things")) as one:
        yield one


# --- reads and deletions by key --------------------------------------------------------------------------------

KEYS: list[tuple[type[Entity], tuple[Any, ...], dict[str, Any], type[ShardQLError], str, str]] = [
    (Thing, (), {}, MissingArgument, "thing_id", "identified by its thing_id: provide it"),
    (Thing, ("",), {}, EmptyKey, "thing_id", "provide a text"),
    (Thing, (5,), {}, InvalidValue, "id", "Give a str"),
    (Thing, (LONE_SURROGATE,), {}, InvalidValue, "id", "lone surrogate"),
    (Thing, ("x" * 1100,), {}, KeyTooLong, "thing_id", "Shorten"),
    (Thing, (), {"thing_id": 5}, InvalidValue, "thing_id", "Give a str"),
    (Thing, (), {"thing_id": ""}, EmptyKey, "thing_id", "provide a text"),
    (Thing, ("t-1",), {"thing_id": "t-1"}, ConflictingArguments, "thing_id", "provide one of the two"),
    (Thing, ("t-1",), {"thing": "t-1"}, UnknownArgument, "thing", "Did you mean 'thing_id'?"),
    (Thing, ("t-1",), {"created": 5}, UnknownArgument, "created", "identified by thing_id"),
    (Line, (), {}, MissingArgument, "order", "provide it"),
    (Line, (), {"order": "o-1"}, MissingArgument, "year", "provide it"),
    (Line, ("o-1",), {}, InvalidValue, "id", "has 1 of 2 parts"),
    (Line, ("o-1/2026/e/1",), {}, InvalidValue, "id", "has 4 parts, and the id has 2"),
    (Line, ("o-1/",), {}, InvalidValue, "id", "is no int64"),
    (Line, ("/2026",), {}, EmptyKey, "id", "empty part"),
    (Line, ("o-1/2026",), {"category": "e"}, MissingArgument, "num", "provide it"),
    (Line, ("o-1/2026",), {"num": 1}, MissingArgument, "category", "provide it"),
    (Line, ("o-1/2026",), {"category": "e", "num": "1"}, InvalidValue, "num", "Give an int"),
    (Line, ("o-1/2026",), {"category": "", "num": 1}, EmptyKey, "category", "provide a text"),
    (Line, ("o-1/2026",), {"category": LONE_SURROGATE, "num": 1}, InvalidValue, "category", "lone surrogate"),
    (Line, ("o-1/2026",), {"category": "x" * 1100, "num": 1}, KeyTooLong, "category", "Shorten"),
    (Settings, ("x",), {}, UnknownArgument, "id", "omit id"),
    (Stranger, ("x",), {}, UnknownEntity, "entity", "'Stranger'"),
]


@pytest.mark.parametrize(
    ("entity", "ids", "parts", "error", "argument", "message"), KEYS, ids=lambda case: short_repr(case)[:50]
)
@pytest.mark.parametrize("word", ["get", "delete"])
def test_invalid_keys_are_refused_with_a_remedy(
    things: AllTypesDatabase,
    word: str,
    entity: type[Entity],
    ids: tuple[Any, ...],
    parts: dict[str, Any],
    error: type[ShardQLError],
    argument: str,
    message: str,
) -> None:
    """A key that identifies no record is refused with argument and remedy, and nothing is read or deleted."""
    problem = things.error_of(getattr(things.db, word)(entity, *ids, **parts))
    assert (type(problem), problem.argument) == (error, argument), problem.message
    assert message in problem.message


def test_deletion_in_a_history_requires_the_sub_id(things: AllTypesDatabase) -> None:
    """A deletion in a history requires the sub id."""
    problem = things.error_of(things.db.delete(Line, "o-1/2026"))
    assert (type(problem), problem.argument) == (MissingArgument, "category")
    assert "provide category too" in problem.message
    assert things.runner.run(things.db.get(Line, "o-1/2026")) is not None


def test_refused_deletes_delete_nothing(things: AllTypesDatabase) -> None:
    """Refused deletions delete nothing."""
    assert things.runner.run(things.db.get(Thing, "t-1")) is not None
    assert things.runner.run(things.db.get(Settings)) is not None


# --- writes ----------------------------------------------------------------------------------------------------


def _changed(**changes: Any) -> Thing:
    """Returns a record that was changed by plain assignment, which pydantic does not validate."""
    thing = Thing(thing_id="t-3", created=1, first_name="Jo", owner="o")
    for name, value in changes.items():
        setattr(thing, name, value)
    return thing


def _digits(text: str) -> Digits:
    digits = Digits(digits_id="d-1", text="7")
    digits.text = text
    return digits


RECORDS: list[tuple[Entity, type[ShardQLError], str | None, str]] = [
    (_changed(thing_id=""), EmptyKey, "thing_id", "provide a text"),
    (_changed(thing_id=None), InvalidRecord, "thing_id", "provide a value"),
    (_changed(thing_id=5), InvalidValue, "thing_id", "Give a str"),
    (_changed(thing_id=LONE_SURROGATE), InvalidValue, "thing_id", "lone surrogate"),
    (_changed(thing_id="x" * 1100), KeyTooLong, "thing_id", "Shorten"),
    (_changed(created="5"), InvalidValue, "created", "Give an int"),
    (_changed(first_name="x" * 1100), KeyTooLong, "first_name", "Shorten"),
    (_changed(owner="o" * 3000), KeyTooLong, "owner", "Shorten owner"),
    (_changed(owner=LONE_SURROGATE), InvalidValue, "owner", "lone surrogate"),
    (_changed(note=""), EmptyKey, "note", "leave it null"),
    (_changed(note="x" * 1100), KeyTooLong, "note", "shorten"),
    (_changed(real=float("nan")), InvalidValue, "real", "Give a finite"),
    (_changed(amount=Decimal("1" * 39)), InvalidValue, "amount", "at most 38"),
    (_changed(moment=datetime(2026, 1, 1)), InvalidValue, "moment", "time zone"),  # noqa: DTZ001
    (_changed(state="open"), InvalidValue, "state", "Give a member of State"),
    (_changed(first_name=["Jo"]), InvalidValue, "first_name", "Give a str"),
    (_digits("x7"), InvalidRecord, None, "cannot be computed"),
    (_changed(whole=2**63), InvalidValue, "whole", "Give a value"),
    (Line(order="", year=1, category="a", num=1), EmptyKey, "order", "provide a text"),
    (Line(order="a", year=1, category="", num=1), EmptyKey, "category", "provide a text"),
    (Stranger(stranger_id="x"), UnknownEntity, "entity", "no entity 'Stranger'"),
]


@pytest.mark.parametrize(("record", "error", "argument", "message"), RECORDS, ids=lambda case: short_repr(case)[:50])
def test_invalid_records_are_refused_with_a_remedy(
    things: AllTypesDatabase, record: Entity, error: type[ShardQLError], argument: str | None, message: str
) -> None:
    """A record that cannot be stored is refused with property and remedy, and nothing is written."""
    problem = things.error_of(things.db.put(record))
    assert (type(problem), problem.argument) == (error, argument), problem.message
    assert message in problem.message


def test_an_invalid_record_does_not_block_the_others(things: AllTypesDatabase) -> None:
    """Each record of a batch is reported separately, also one of another entity."""
    mixed: list[Entity] = [_changed(thing_id="t-4"), _changed(thing_id=""), Settings(), _changed(thing_id="t-5")]
    results = things.runner.run(things.db.put_many(mixed))
    assert [type(result) for result in results] == [type(None), EmptyKey, InvalidRecord, type(None)]
    assert "pass an instance of Thing" in str(results[2])
    for thing_id in ("t-4", "t-5"):
        assert things.runner.run(things.db.get(Thing, thing_id)) is not None
        things.runner.run(things.db.delete(Thing, thing_id))


# --- arbitrary input -------------------------------------------------------------------------------------------

plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**4000, 2**63, -(2**63), 0, 1, 5]),
    st.floats(),
    st.decimals(),
    st.text(max_size=8),
    st.text(st.characters(categories=["Cs"]), max_size=2),
    st.sampled_from(["", "jo", "o", "o-1/2026", "electronics/1", "/", "%2F", "a" * 1025, "x" * 3000, "\x7f" * 1024]),
    st.binary(max_size=4),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.timedeltas(),
    st.uuids(),
    st.sampled_from(State),
)
values = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["eq", "prefix", "from", "from_", "to", "x", 5]), inner, max_size=3),
        st.builds(Eq, inner),
        st.builds(Prefix, inner),
        st.builds(Between, inner, inner),
    ),
    max_leaves=3,
)
NAMES = [
    *(
        "eq",
        "prefix",
        "from",
        "from_",
        "to",
        "id",
        "reverse",
        "limit",
        "first",
        "last",
        "next_token",
        "after",
        "before",
    ),
    *("name", "owner", "created", "whole", "state", "note", "limit_", "day", "order", "year", "category", "num", "x"),
]
INDEXES = [
    IndexRef(entity, attribute)
    for entity in (Thing, Digits, Line, Settings)
    for attribute in CATALOG.entity(entity).indexes
]


@examples(1500)
@given(
    index=st.sampled_from(INDEXES),
    is_complete=st.booleans(),
    arguments=st.dictionaries(st.sampled_from(NAMES), values, max_size=4),
    value=values,
)
def test_any_search_is_planned_or_refused(
    index: IndexRef, is_complete: bool, arguments: dict[str, Any], value: Any
) -> None:
    """Any search arguments lead to a plan or to a `ShardQLError` with a message and an argument."""
    if is_complete:  # Required arguments get the other values past the first checks.
        entity = CATALOG.entity(index.entity)
        needed = {
            **({"owner": "o"} if entity.indexes[index.attribute].hash else {}),
            **({"id": "o-1/2026"} if entity.ids[1:] else {}),
        }
        first = [part.property.name for part in entity.indexes[index.attribute].sort][:1]
        arguments = {**needed, **dict.fromkeys(first, value)} if len(arguments) % 2 else {**arguments, **needed}
    paging = {"reverse", "limit", "first", "last", "next_token", "after", "before"} & arguments.keys()
    request = SearchRequest(
        CATALOG.entity(index.entity).name,
        index.attribute,
        {name: value for name, value in arguments.items() if name not in paging},
        **{name: arguments[name] for name in paging},
    )
    try:
        plan = plan_search(CATALOG, request, NOW, SEAL)
    except ShardQLError as refused:
        problem = refused
    else:
        assert plan.describe()["hashKeys"]
        return
    assert problem.message
    assert problem.argument is not None
    assert len(problem.message) < 1_000


@examples(200)
@given(
    entity=st.sampled_from([Thing, Digits, Line, Settings]),
    own_id=values,
    parts=st.dictionaries(
        st.sampled_from(["thing_id", "order", "year", "category", "num", "x", "id"]), values, max_size=3
    ),
    word=st.sampled_from(["get", "delete"]),
)
def test_any_key_is_looked_up_or_refused(
    things: AllTypesDatabase, entity: type[Entity], own_id: Any, parts: dict[str, Any], word: str
) -> None:
    """Any key is looked up, or refused with a `ShardQLError`."""
    if word == "delete" and entity is Settings:
        return
    with suppress(ShardQLError):
        things.runner.run(getattr(things.db, word)(entity, own_id, **parts))


@examples(300)
@given(changes=st.dictionaries(st.sampled_from([*Thing.model_fields]), values, max_size=3))
def test_any_record_is_stored_or_refused(things: AllTypesDatabase, changes: dict[str, Any]) -> None:
    """Any property values are stored, or refused with a `ShardQLError`."""
    with suppress(ShardQLError):
        things.runner.run(things.db.scoped(tenant="junk").put(_changed(**changes)))
