"""Errors about arguments of a search name the argument, the reason and the remedy."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from graphql_api.codecs.key_ranges import Between, Eq, Prefix
from graphql_api.codecs.scalar_codec import short_repr
from graphql_api.errors import (
    ConflictingArguments,
    EmptyKey,
    InvalidLimit,
    InvalidRange,
    InvalidToken,
    InvalidValue,
    KeyTooLong,
    MissingArgument,
    ShardQLError,
    UnknownArgument,
    UnknownEntity,
    UnknownIndex,
)
from graphql_api.model.markers import IndexRef
from tests.support.all_types_catalog import (
    LONE_SURROGATE,
    AllTypesDatabase,
    Digits,
    Line,
    Settings,
    State,
    Stranger,
    Thing,
    all_types_database,
)


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AllTypesDatabase]:
    """A database shared by the tests of this module."""
    with all_types_database(tmp_path_factory.mktemp("things")) as one:
        yield one


def _both(low: Any, high: Any) -> dict[str, Any]:
    return {"from": low, "to": high}


Case = tuple[IndexRef, dict[str, Any], type[ShardQLError], str, str]


def _eq(index: IndexRef, part_of_message: str, *values: Any) -> list[Case]:
    return [(index, {"eq": value}, InvalidValue, "eq", part_of_message) for value in values]


def _text(
    index: IndexRef, error: type[ShardQLError], part_of_message: str, text: str, *names: str, **others: Any
) -> list[Case]:
    return [(index, {**others, name: text}, error, name, part_of_message) for name in names]


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ORDER: dict[str, Any] = {"id": "o-1/2026"}

CASES: list[Case] = [
    # --- names
    (IndexRef(Thing, "by_nane"), {}, UnknownIndex, "index", "Did you mean 'by_name'?"),
    (IndexRef(Thing, "zzz"), {}, UnknownIndex, "index", "It declares by_id, by_name"),
    (IndexRef(Stranger, "by_id"), {}, UnknownEntity, "entity", "'Stranger'"),
    (Thing.by_name, {"nmae": "jo"}, UnknownArgument, "nmae", "Did you mean 'name'?"),
    (Thing.by_name, {"limt": 5}, UnknownArgument, "limt", "Did you mean 'limit'?"),
    (Thing.by_name, {"prefx": "j"}, UnknownArgument, "prefx", "Did you mean 'prefix'?"),
    (Thing.by_name, {"note": "x"}, UnknownArgument, "note", "It takes name, created, state, eq, prefix, from_, to."),
    (Thing.by_name, {"note": None}, UnknownArgument, "note", "takes no argument 'note'"),
    (Thing.by_owner_only, {"owner": "o", "eq": "x"}, UnknownArgument, "eq", "has none"),
    (Settings.by_id, {"id": "x"}, UnknownArgument, "id", "omit id"),
    # --- hash properties and ids
    (Thing.by_owner, {}, MissingArgument, "owner", "owner: give it"),
    (Thing.by_owner, {"owner": None}, MissingArgument, "owner", "owner: give it"),
    (Thing.by_owner, {"owner": ""}, EmptyKey, "owner", "give a text"),
    (Thing.by_owner, {"owner": 5}, InvalidValue, "owner", "Give a str"),
    (Thing.by_owner, {"owner": ["o"]}, InvalidValue, "owner", "Give a str"),
    (Thing.by_owner, {"owner": {"prefix": "o"}}, InvalidValue, "owner", "Give a str"),
    (Thing.by_owner, {"owner": Prefix("o")}, InvalidValue, "owner", "Give a str"),
    (Thing.by_owner, {"owner": LONE_SURROGATE}, InvalidValue, "owner", "lone surrogate"),
    (Thing.by_owner, {"owner": "o" * 3000}, KeyTooLong, "owner", "at most 2,048 fit. Shorten owner"),
    (Line.by_id, {}, MissingArgument, "order", "order: give it"),
    (Line.by_id, {"order": "o-1"}, MissingArgument, "year", "year: give it"),
    (Line.by_id, {"id": "o-1"}, InvalidValue, "id", "has 1 of 2 parts"),
    (Line.by_id, {"id": "o-1/2026/x"}, InvalidValue, "id", "has 3 parts, and the id has 2: write a '/'"),
    (Line.by_id, {"id": "o-1/x"}, InvalidValue, "id", "Write it like 42"),
    (Line.by_id, {"id": ""}, EmptyKey, "id", "give a non-empty string"),
    (Line.by_id, {"id": "/2026"}, EmptyKey, "id", "empty part"),
    (Line.by_id, {"id": 5}, InvalidValue, "id", "as one string, separated by '/'"),
    (Line.by_id, {"id": LONE_SURROGATE + "/2026"}, InvalidValue, "id", "lone surrogate"),
    (Line.by_id, {"id": "x" * 2000 + "/2026"}, KeyTooLong, "order", "at most 1,024 fit. Shorten"),
    (Line.by_id, {**ORDER, "order": "o-2"}, ConflictingArguments, "id", "id and order ask for the same"),
    (Line.by_id, {**ORDER, "year": 2026}, ConflictingArguments, "id", "id and year ask for the same"),
    # --- conditions that exclude each other
    (Thing.by_name, {"eq": "a", "prefix": "a"}, ConflictingArguments, "eq", "eq and prefix exclude each other"),
    (Thing.by_name, {"eq": "a", "from_": "a"}, ConflictingArguments, "eq", "eq and from_/to exclude each other"),
    (Thing.by_name, {"prefix": "a", "to": "b"}, ConflictingArguments, "prefix", "prefix and from_/to exclude"),
    (Thing.by_name, {"eq": "a", "prefix": "a", "to": "b"}, ConflictingArguments, "eq", "eq and prefix and from_/to"),
    (Thing.by_name, {"from": "a", "from_": "a"}, ConflictingArguments, "from_", "provide it once"),
    (Thing.by_name, {"eq": "a", "name": "a"}, ConflictingArguments, "eq", "eq and name ask for the same property"),
    (Thing.by_name, {"from_": "a", "name": "a"}, ConflictingArguments, "from_", "from_ and name ask for the same"),
    (Thing.by_name, {"to": "a", "name": "a"}, ConflictingArguments, "to", "to and name ask for the same"),
    (
        Line.by_id,
        {**ORDER, "prefix": "e/", "num": 1},
        ConflictingArguments,
        "prefix",
        "prefix and num ask for the same",
    ),
    (Line.by_id, {**ORDER, "eq": "e/1", "category": "e"}, ConflictingArguments, "eq", "eq and category ask for"),
    (Thing.by_name, {"name": {"eq": "a", "prefix": "a"}}, ConflictingArguments, "name", "exactly one of eq, prefix"),
    (Thing.by_name, {"name": {"prefix": "a", "to": "b"}}, ConflictingArguments, "name", "exactly one of eq, prefix"),
    (Thing.by_name, {"name": {"from": "a", "from_": "a"}}, ConflictingArguments, "name", "exactly one of eq, prefix"),
    (Thing.by_name, {"name": {}}, ConflictingArguments, "name", "exactly one of eq, prefix, and from/to, not []"),
    (Thing.by_name, {"name": {"eq": None}}, ConflictingArguments, "name", "exactly one of eq, prefix"),
    (Thing.by_name, {"name": {"equals": "a"}}, ConflictingArguments, "name", "not ['equals']"),
    (Thing.by_name, {"name": {5: "a"}}, ConflictingArguments, "name", "exactly one of eq, prefix"),
    # --- conditions out of order
    (Thing.by_name, {"created": 5}, MissingArgument, "created", "only after one exact name"),
    (Thing.by_name, {"name": "a", "state": State.OPEN}, MissingArgument, "state", "only after one exact created"),
    (Thing.by_name, {"eq": "a", "state": State.OPEN}, MissingArgument, "state", "ordered by name, created, state"),
    (Thing.by_name, {"prefix": "a", "created": 5}, ConflictingArguments, "created", "only after one exact name"),
    (Thing.by_name, {"name": {"to": "b"}, "created": 5}, ConflictingArguments, "created", "use eq there, or leave"),
    (
        Thing.by_name,
        {"eq": "a", "created": {"from": 1}, "state": State.OPEN},
        ConflictingArguments,
        "state",
        "one exact created",
    ),
    # --- ranges that end before they begin
    (Thing.by_name, {"from_": "b", "to": "a"}, InvalidRange, "from_", "exchange the two, and use reverse"),
    (Thing.by_name, {"from": "b", "to": "a"}, InvalidRange, "from_", "exchange the two"),
    (Thing.by_name, {"from": "ab", "to": "Á"}, InvalidRange, "from_", "from 'ab' to 'a' ends before"),
    (Thing.by_name, {"name": _both("b", "a")}, InvalidRange, "name", "exchange the two"),
    (Thing.by_name, {"eq": "a", "created": _both(2, 1)}, InvalidRange, "created", "from '2' to '1'"),
    (Thing.by_whole, _both(10, 9), InvalidRange, "from_", "from '10' to '9'"),
    (Thing.by_small, _both(-9, -10), InvalidRange, "from_", "exchange"),
    (Thing.by_real, _both(0.5, -0.5), InvalidRange, "from_", "exchange"),
    (Thing.by_amount, _both(Decimal("1E+3"), Decimal(2)), InvalidRange, "from_", "exchange"),
    (Thing.by_flag, _both(True, False), InvalidRange, "from_", "from 'true' to 'false'"),
    (Thing.by_uuid, _both(UUID(int=2), UUID(int=1)), InvalidRange, "from_", "exchange"),
    (Thing.by_day, _both(date(2026, 1, 2), date(2026, 1, 1)), InvalidRange, "from_", "from '2026-01-02'"),
    (Thing.by_moment, _both(NOON + timedelta(1), NOON), InvalidRange, "from_", "exchange"),
    (Thing.by_span, _both(timedelta(1), timedelta(-1)), InvalidRange, "from_", "exchange"),
    (Thing.by_state, _both(State.ABANDONED, State.CLOSED), InvalidRange, "from_", "from 'abandoned' to 'closed'"),
    (Thing.by_number, _both(10, 9), InvalidRange, "from_", "exchange"),
    (Thing.by_note, _both("b", "a"), InvalidRange, "from_", "exchange"),
    (Thing.by_owner, {"owner": "o", **_both(2, 1)}, InvalidRange, "from_", "use reverse for the other order"),
    (Thing.by_owner, {"owner": "o", "whole": Between(2, 1)}, InvalidRange, "whole", "use reverse"),
    (Thing.by_day_down, {"owner": "o", **_both(date(2026, 1, 2), date(2026, 1, 1))}, InvalidRange, "from_", "reverse"),
    (
        Thing.by_day_down,
        {"owner": "o", "day": date(2026, 1, 2), "state": _both(State.CLOSED, State.OPEN)},
        InvalidRange,
        "state",
        "from 'closed'",
    ),
    (Line.by_id, {**ORDER, **_both("b", "a")}, InvalidRange, "from_", "exchange the two"),
    (Line.by_id, {**ORDER, **_both("a/2", "a/1")}, InvalidRange, "from_", "exchange the two"),
    # --- page sizes and tokens
    *[
        (Thing.by_name, {"limit": limit}, InvalidLimit, "limit", "whole number from 1 to 500")
        for limit in (0, 501, -1, "5", 2.5, True)
    ],
    (Thing.by_name, {"first": 0}, InvalidLimit, "first", "whole number from 1 to 500"),
    (Thing.by_name, {"last": 501}, InvalidLimit, "last", "whole number from 1 to 500"),
    (Thing.by_name, {"limit": 5, "first": 5}, ConflictingArguments, "limit", "limit and first exclude each other"),
    (Thing.by_name, {"next_token": "t", "after": "t"}, ConflictingArguments, "next_token", "next_token and after"),
    (Thing.by_name, {"first": 5, "last": 5}, ConflictingArguments, "first", "first and last exclude"),
    (Thing.by_name, {"after": "t", "before": "t"}, ConflictingArguments, "after", "after and before exclude"),
    (Thing.by_name, {"reverse": "yes"}, InvalidValue, "reverse", "True or False"),
    *[
        (Thing.by_name, {name: token}, InvalidToken, name, "exactly as you received it")
        for name in ("next_token", "after", "before")
        for token in ("", "x", LONE_SURROGATE, 5)
    ],
    # --- values of the wrong type
    (Thing.by_name, {"eq": 5}, InvalidValue, "eq", "Give a str"),
    (Thing.by_name, {"eq": ["a"]}, InvalidValue, "eq", "Give a str"),
    (Thing.by_name, {"prefix": 5}, InvalidValue, "prefix", "a prefix is a text"),
    (Thing.by_name, {"prefix": {"eq": "a"}}, InvalidValue, "prefix", "a prefix is a text"),
    (Thing.by_name, {"from_": 5}, InvalidValue, "from_", "Give a str"),
    (Thing.by_name, {"to": 5}, InvalidValue, "to", "Give a str"),
    (Thing.by_name, {"from_": "a", "to": 5}, InvalidValue, "to", "Give a str"),
    (Thing.by_name, {"name": b"a"}, InvalidValue, "name", "Give a str"),
    (Thing.by_name, {"name": Eq(None)}, InvalidValue, "name", "null given"),
    (Thing.by_name, {"name": {"eq": {"eq": "a"}}}, InvalidValue, "name", "Give a str"),
    (Thing.by_name, {"eq": "a", "created": "5"}, InvalidValue, "created", "Give an int"),
    (Thing.by_name, {"eq": "a", "created": 2**53 + 1}, InvalidValue, "created", "-2^53 to 2^53"),
    (Thing.by_name, {"eq": "a", "created": 5, "state": "open"}, InvalidValue, "state", "Give a member of State"),
    *_eq(Thing.by_whole, "Give a", "5", True, 5.0, Decimal(5), 2**63, -(2**63) - 1, 10**5000),
    *_eq(Thing.by_small, "Give a", "5", True, 2**31),
    *_eq(Thing.by_real, "Give a", "5", True, float("nan"), float("inf"), 2**53 + 1, Decimal("1.5")),
    *_eq(Thing.by_real, "Give 0, or a magnitude", 1e300, 1e-200),
    *_eq(Thing.by_amount, "Give a", "5", True, 1.5, Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity")),
    *_eq(Thing.by_amount, "Give", Decimal("1" * 39), Decimal("1E+200"), 10**5000),
    *_eq(Thing.by_flag, "Give a bool", 1, "true", []),
    *_eq(Thing.by_uuid, "Give a UUID", str(UUID(int=1)), 1),
    *_eq(Thing.by_day, "Give a date", "2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
    *_eq(Thing.by_moment, "Give a datetime with a time zone", datetime(2026, 1, 1)),  # noqa: DTZ001
    *_eq(Thing.by_moment, "Give a datetime", "2026-01-01T00:00:00Z", date(2026, 1, 1)),
    *_eq(Thing.by_span, "Give a timedelta", 5, "PT5S"),
    *_eq(Thing.by_state, "Give a member of State", "open", 0, []),
    *_eq(Thing.by_number, "Give a", "5", True, 5.0, 2**63),
    *[
        (index, {"prefix": "5"}, InvalidValue, "prefix", "only texts have prefixes: use eq, or from and to")
        for index in (Thing.by_whole, Thing.by_real, Thing.by_uuid, Thing.by_day, Thing.by_state, Thing.by_number)
    ],
    (Thing.by_whole, {"whole": {"prefix": "5"}}, InvalidValue, "whole", "use eq, or from and to"),
    (Thing.by_limit, {"limit_": "5"}, InvalidValue, "limit_", "Give an int"),
    (Digits.by_padded, {"eq": "x7"}, InvalidValue, "eq", "provide one that text can hold"),
    (Digits.by_padded, {"eq": 7}, InvalidValue, "eq", "Give a str"),
    (Line.by_id, {**ORDER, "prefix": 5}, InvalidValue, "prefix", "as one string, separated by '/'"),
    (Line.by_id, {**ORDER, "prefix": "e/1"}, InvalidValue, "prefix", "only text supports prefixes"),
    (Line.by_id, {**ORDER, "prefix": "e/1/2"}, InvalidValue, "prefix", "has 3 parts, and the id has 2"),
    (Line.by_id, {**ORDER, "eq": "e"}, InvalidValue, "eq", "has 1 of 2 parts"),
    (Line.by_id, {**ORDER, "eq": "e/x"}, InvalidValue, "eq", "Write it like 42"),
    (Line.by_id, {**ORDER, "from_": "e/x"}, InvalidValue, "from_", "Write it like 42"),
    (Line.by_id, {**ORDER, "to": ["e"]}, InvalidValue, "to", "as one string, separated by '/'"),
    # --- empty and broken texts
    (Thing.by_id, {"eq": ""}, EmptyKey, "eq", "give a text"),
    (Thing.by_note, {"eq": ""}, EmptyKey, "eq", "give a text"),
    (Thing.by_note, {"to": ""}, EmptyKey, "to", "give a non-empty string, or omit"),
    (Line.by_id, {**ORDER, "eq": "/1"}, EmptyKey, "eq", "empty part"),
    (Line.by_id, {**ORDER, "category": ""}, EmptyKey, "category", "give a text"),
    *_text(Thing.by_note, InvalidValue, "lone surrogate", LONE_SURROGATE, "eq", "prefix", "from_", "to", "note"),
    *_text(Thing.by_name, InvalidValue, "lone surrogate", LONE_SURROGATE, "eq", "prefix", "from_", "to", "name"),
    *_text(Line.by_id, InvalidValue, "lone surrogate", LONE_SURROGATE, "prefix", "from_", "to", "category", **ORDER),
    (Line.by_id, {**ORDER, "eq": LONE_SURROGATE + "/1"}, InvalidValue, "eq", "lone surrogate"),
    (Thing.by_id, {"eq": LONE_SURROGATE}, InvalidValue, "eq", "lone surrogate"),
    # --- texts that are too long
    *_text(Thing.by_name, KeyTooLong, "at most 1,024 fit. Shorten", "a" * 1100, "eq", "prefix", "from_", "to", "name"),
    *_text(Thing.by_note, KeyTooLong, "at most 1,024 fit. Shorten", "a" * 1025, "eq", "prefix", "from_", "to", "note"),
    (Thing.by_note, {"prefix": "a" * 1023 + "\x7f"}, KeyTooLong, "prefix", "1,025 bytes, at most 1,024 fit"),
    (Thing.by_owner, {"owner": "o", "whole": 5, "name": {"prefix": "a" * 1100}}, KeyTooLong, "name", "Shorten"),
    (Line.by_id, {**ORDER, "prefix": "a" * 1100}, KeyTooLong, "prefix", "Shorten"),
    (Line.by_id, {**ORDER, "from_": "a" * 1100}, KeyTooLong, "from_", "Shorten"),
    (Line.by_id, {**ORDER, "category": "a" * 1100, "num": 5}, KeyTooLong, "category", "Shorten"),
]


def _case_id(case: Case) -> str:
    index, arguments, *_ = case
    return f"{index.entity.__name__}.{index.attribute} {short_repr(arguments)}".encode("ascii", "replace").decode()


@pytest.mark.parametrize("case", CASES, ids=_case_id)
def test_invalid_arguments_are_explained(things: AllTypesDatabase, case: Case) -> None:
    """An invalid argument raises the expected error, which names the argument as provided and the remedy."""
    index, arguments, error, argument, part_of_message = case
    problem = things.error_of(things.db.search(index, **arguments))
    assert (type(problem), problem.argument) == (error, argument), problem.message
    assert part_of_message in problem.message
    assert problem.extensions == {"code": error.code, "argument": argument}


def test_the_cases_include_every_kind_of_error() -> None:
    """The cases include every error that arguments of a search can cause."""
    assert {case[2] for case in CASES} == {
        *(UnknownEntity, UnknownIndex, UnknownArgument, MissingArgument, ConflictingArguments, InvalidRange),
        *(InvalidLimit, InvalidValue, EmptyKey, KeyTooLong, InvalidToken),
    }


VALID: list[tuple[IndexRef, dict[str, Any], int]] = [
    (Thing.by_name, {"eq": "JÓ"}, 1),
    (Thing.by_name, {"prefix": ""}, 1),
    (Thing.by_name, {"from_": None, "to": None, "eq": None, "prefix": None, "name": None, "limit": None}, 1),
    (Thing.by_name, {"from": "jo", "to": "jo"}, 1),
    (Thing.by_name, {"eq": "jo", "created": {"from": 1, "to": None}}, 1),
    (Thing.by_name, {"eq": ""}, 0),
    (Thing.by_limit, {"limit_": 0, "limit": 1}, 1),
    (Thing.by_owner, {"owner": {"eq": "o"}}, 1),
    (Thing.by_owner, {"owner": Eq("o"), "whole": Between(0, 0), "reverse": True}, 1),
    (Thing.by_real, {"eq": 0}, 1),
    (Thing.by_amount, {"eq": 0}, 1),
    (Thing.by_note, {"from_": "", "prefix": None}, 0),
    (Line.by_id, {**ORDER, "prefix": ""}, 1),
    (Line.by_id, {**ORDER, "prefix": "electronics/"}, 1),
    (Line.by_id, {"order": "o-1", "year": 2026, "eq": "electronics/1"}, 1),
    (Line.by_id, {**ORDER, "from_": "electronics/1", "to": "electronics"}, 1),
    (Line.by_id, {**ORDER, "from_": "electronics/2"}, 0),
    (Settings.by_id, {}, 1),
]


@pytest.mark.parametrize(("index", "arguments", "count"), VALID, ids=lambda case: short_repr(case)[:60])
def test_valid_arguments_that_resemble_invalid_ones_are_accepted(
    things: AllTypesDatabase, index: IndexRef, arguments: dict[str, Any], count: int
) -> None:
    """Valid arguments that resemble invalid ones are accepted."""
    assert len(things.runner.run(things.db.search(index, **arguments)).items) == count


@pytest.mark.parametrize(
    ("tenant", "error", "part_of_message"),
    [
        ("", EmptyKey, "Give the id of a tenant, or no tenant at all"),
        (LONE_SURROGATE, InvalidValue, "lone surrogate"),
        ("t" * 3000, KeyTooLong, "at most 2,048 fit. Shorten the tenant"),
    ],
    ids=["empty", "lone surrogate", "too long"],
)
def test_invalid_tenants_are_rejected(
    things: AllTypesDatabase, tenant: str, error: type[ShardQLError], part_of_message: str
) -> None:
    """Every operation rejects a tenant that cannot be part of a key."""
    db = things.db.scoped(tenant=tenant)
    thing = Thing(thing_id="t-2", created=1)
    for action in (db.search(Thing.by_name), db.get(Thing, "t-1"), db.put(thing), db.delete(Thing, "t-1")):
        problem = things.error_of(action)
        assert type(problem) is error
        assert part_of_message in problem.message
    assert things.error_of(db.search(Thing.by_name)).argument == "tenant"
