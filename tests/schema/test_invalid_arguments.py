"""Invalid arguments of searches: each is a GraphQL error with a code, a location and the argument."""

from pathlib import Path
from typing import Any

import pytest

from graphql_api.database import Database
from graphql_api.query.token_seal import TokenSeal
from tests.schema.graphql_client import NOW, GraphQLClient, client_for, open_client
from tests.schema.graphql_text import EnumName, literal
from tests.support.all_types_catalog import CATALOG, Line, Settings, Thing

THING = Thing(thing_id="t-1", created=1, first_name="Jo", owner="o")
RECORDS = [
    THING,
    Thing(thing_id="t-2", created=2, first_name="Jo", owner="o"),
    Line(order="o", year=1, category="c", num=1),
    Settings(),
]


async def _search_error(client: GraphQLClient, query: str, variables: Any = None) -> dict[str, Any]:
    """The only error of a root field called `page`, which is null, without any store call."""
    client.reset_counts()
    response = await client.execute(query, variables)
    assert (response.executed, response.status) == (True, 200)
    assert response.body["data"] == {"page": None}
    assert (client.counts.rounds, client.counts.gets, client.counts.scans) == (0, 0, 0)
    error: dict[str, Any]
    (error,) = response.body["errors"]
    assert sorted(error) == ["extensions", "locations", "message", "path"]
    assert error["path"] == ["page"]
    assert error["locations"] == [{"line": 1, "column": query.index("page") + 1}]
    return error


MIXED_PAGING = [
    ("limit: 1, first: 1", "limit", "limit and first exclude"),
    ("limit: 1, last: 1", "limit", "limit and last exclude"),
    ('limit: 1, after: "x"', "limit", "limit and after exclude"),
    ('limit: 1, before: "x"', "limit", "limit and before exclude"),
    ('nextToken: "x", first: 1', "nextToken", "nextToken and first exclude"),
    ('nextToken: "x", after: "x"', "nextToken", "nextToken and after exclude"),
    ("first: 1, last: 1", "first", "first and last exclude"),
    ('first: 1, before: "x"', "first", "first and before exclude"),
    ('after: "x", before: "x"', "after", "after and before exclude"),
    ('after: "x", last: 1', "after", "after and last exclude"),
]


@pytest.mark.parametrize(("given", "argument", "message"), MIXED_PAGING)
@pytest.mark.parametrize("field", ["thingByName", "things", "thingById"])
async def test_mixed_paging_arguments(tmp_path: Path, field: str, given: str, argument: str, message: str) -> None:
    """Arguments of both paging styles or directions are refused, by their names."""
    async with open_client(CATALOG, tmp_path) as client:
        error = await _search_error(client, f"{{ page: {field}({given}) {{ nextToken }} }}")
        assert error["extensions"] == {"code": "CONFLICTING_ARGUMENTS", "argument": argument}
        assert message in error["message"]
        assert "next_token" not in error["message"]


@pytest.mark.parametrize("size", [0, -1, 501, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("argument", ["limit", "first", "last"])
async def test_page_sizes(tmp_path: Path, argument: str, size: int) -> None:
    """A page size from 1 to 500 is accepted; any other number is refused, as a literal and as a variable."""
    async with open_client(CATALOG, tmp_path) as client:
        for query, variables in (
            (f"{{ page: thingByName({argument}: {size}) {{ nextToken }} }}", None),
            (f"query ($n: Int) {{ page: thingByName({argument}: $n) {{ nextToken }} }}", {"n": size}),
        ):
            error = await _search_error(client, query, variables)
            assert error["extensions"] == {"code": "INVALID_LIMIT", "argument": argument}
            assert error["message"] == f"{argument} must be a whole number from 1 to 500, not {size}."
        for size_in_bounds in (1, 500):
            await client.data(f"{{ thingByName({argument}: {size_in_bounds}) {{ nextToken }} }}")


CONDITIONS = [
    ('thingByName(eq: "a", prefix: "a")', "CONFLICTING_ARGUMENTS", "eq", "eq and prefix exclude each other"),
    ('thingByName(eq: "a", from: "a")', "CONFLICTING_ARGUMENTS", "eq", "eq and from/to exclude each other"),
    ('thingByName(prefix: "a", to: "a")', "CONFLICTING_ARGUMENTS", "prefix", "prefix and from/to exclude"),
    ('thingByName(eq: "a", name: {eq: "a"})', "CONFLICTING_ARGUMENTS", "eq", "eq and name ask for the same property"),
    ('thingByName(from: "b", to: "a")', "INVALID_RANGE", "from", "ends before it begins"),
    ('thingByName(name: {between: {from: "b", to: "a"}})', "INVALID_RANGE", "name", "ends before it begins"),
    ("thingByName(created: {eq: 1})", "MISSING_ARGUMENT", "created", "created can be used only after"),
    ('thingByName(name: {prefix: "a"}, created: {eq: 1})', "CONFLICTING_ARGUMENTS", "created", "one exact name"),
    ('thingByOwner(owner: "")', "EMPTY_KEY", "owner", "owner is empty"),
    (f'thingByOwner(owner: "{"o" * 3_000}")', "KEY_TOO_LONG", "owner", "at most 2,048 fit"),
    (f'thingByName(eq: "{"o" * 3_000}")', "KEY_TOO_LONG", "eq", "at most 1,024 fit"),
    ('thingByNote(eq: "")', "EMPTY_KEY", "eq", "eq is empty"),
    ('lineById(id: "o-1")', "INVALID_VALUE", "id", "has 1 of 2 parts"),
    ('lineById(id: "o-1/x")', "INVALID_VALUE", "id", "Write it like 42"),
    ('lineById(id: "")', "EMPTY_KEY", "id", "give a non-empty string"),
    ('lineById(id: "o-1/1", prefix: "c/", num: {eq: 1})', "CONFLICTING_ARGUMENTS", "prefix", "prefix and num"),
    ('thingById(id: "t-1", eq: "t-1")', "CONFLICTING_ARGUMENTS", "eq", "eq and id ask for the same"),
    ('thingById(id: "t-1", thingId: {eq: "t-1"})', "CONFLICTING_ARGUMENTS", "id", "id and thingId ask for the same"),
    ("thingByReal(eq: 1e300)", "INVALID_VALUE", "eq", "outside the range of stored numbers"),
    ('thingByLimit(limit_: {eq: 1}, eq: "1")', "CONFLICTING_ARGUMENTS", "eq", "eq and limit_ ask for the same"),
    ('digitsByPadded(eq: "x")', "INVALID_VALUE", "eq", "cannot be derived"),
]


@pytest.mark.parametrize(("call", "code", "argument", "message"), CONDITIONS, ids=lambda value: str(value)[:50])
async def test_invalid_conditions(tmp_path: Path, call: str, code: str, argument: str, message: str) -> None:
    """Conflicting, incomplete or empty conditions are refused, with GraphQL names in the message."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        error = await _search_error(client, f"{{ page: {call} {{ nextToken }} }}")
        assert error["extensions"] == {"code": code, "argument": argument}
        assert message in error["message"]
        assert "from_" not in error["message"]


@pytest.mark.parametrize(
    ("call", "code", "argument"),
    [
        ('line(id: "o")', "INVALID_VALUE", "id"),
        ('line(id: "o/1/2")', "INVALID_VALUE", "id"),
        ('line(id: "o/1", num: 1)', "MISSING_ARGUMENT", "category"),
        ('line(id: "o/1", category: "", num: 1)', "EMPTY_KEY", "category"),
        ('thing(id: "")', "EMPTY_KEY", "id"),
        (f'thing(id: "{"x" * 2_000}")', "KEY_TOO_LONG", "id"),
        (f'line(id: "{"x" * 2_000}/1", category: "c", num: 1)', "KEY_TOO_LONG", "id"),
        (f'line(id: "o/1", category: "{"x" * 2_000}", num: 1)', "KEY_TOO_LONG", "category"),
    ],
)
async def test_invalid_record_ids(tmp_path: Path, call: str, code: str, argument: str) -> None:
    """An invalid id or an incomplete sub id is refused, with the name of the argument."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        error = await _search_error(client, f"{{ page: {call} {{ __typename }} }}")
        assert error["extensions"] == {"code": code, "argument": argument}


# --- tokens ----------------------------------------------------------------------------------------------------

FIRST = '{ page: thingByName(eq: "jo", first: 1) { nextToken pageInfo { startCursor } } }'
STYLES = [("nextToken", "limit"), ("after", "first"), ("before", "last")]


async def _token(client: GraphQLClient) -> str:
    token = (await client.data(FIRST))["page"]["nextToken"]
    assert isinstance(token, str)
    return token


def _next(argument: str, size: str, given: str = 'eq: "jo"', field: str = "thingByName") -> str:
    return f"query ($t: String!) {{ page: {field}({given}, {argument}: $t, {size}: 1) {{ nextToken }} }}"


@pytest.mark.parametrize(("argument", "size"), STYLES)
async def test_invalid_tokens(tmp_path: Path, argument: str, size: str) -> None:
    """Random, changed and truncated tokens are refused with the same message."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        token = await _token(client)
        middle = len(token) // 2
        changed = token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1 :]
        texts = set()
        for wrong in (
            "x",
            "é",
            "\U0001f600",
            "A" * 10_000,
            changed,
            token[:-4],
            token + "AAAA",
            token[::-1],
            f" {token}",
        ):
            error = await _search_error(client, _next(argument, size), {"t": wrong})
            assert error["extensions"] == {"code": "INVALID_TOKEN", "argument": argument}
            texts.add(error["message"])
        assert len(texts) == 1


@pytest.mark.parametrize(("argument", "size"), STYLES)
async def test_tokens_of_other_contexts(tmp_path: Path, argument: str, size: str) -> None:
    """A token of another tenant, principal or server is refused as an invalid token."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        token = await _token(client)
        db = client.db
        for other in (
            Database(db.catalog, db.store, db.seal, db.clock, tenant="t"),
            Database(db.catalog, db.store, db.seal, db.clock, principal="p"),
            Database(db.catalog, db.store, TokenSeal([b"another secret of thirty-two byt"]), db.clock),
        ):
            error = await _search_error(client_for(other), _next(argument, size), {"t": token})
            assert error["extensions"] == {"code": "INVALID_TOKEN", "argument": argument}


@pytest.mark.parametrize(("argument", "size"), STYLES)
async def test_tokens_of_other_searches(tmp_path: Path, argument: str, size: str) -> None:
    """A token is refused with other conditions, order, index or entity, and the error names its original search."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        token = await _token(client)
        await client.data(_next(argument, size), {"t": token})
        for query in (
            _next(argument, size, 'eq: "ja"'),
            _next(argument, size, 'prefix: "jo"'),
            _next(argument, size, 'eq: "jo", reverse: true'),
            _next(argument, size, 'eq: "jo"', "thingByNote"),
            _next(argument, size, 'eq: "jo"', "digitsById"),
        ):
            error = await _search_error(client, query, {"t": token})
            assert error["extensions"] == {"code": "TOKEN_MISMATCH", "argument": argument}
            assert 'name "jo"' in error["message"]


@pytest.mark.parametrize(("argument", "size"), STYLES)
async def test_expired_tokens(tmp_path: Path, argument: str, size: str) -> None:
    """A token is valid for a day, and then refused as expired."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        token, db = await _token(client), client.db
        later = [Database(db.catalog, db.store, db.seal, clock=lambda at=NOW + hours * 3_600: at) for hours in (24, 26)]  # type: ignore[misc]
        await client_for(later[0]).data(_next(argument, size), {"t": token})
        error = await _search_error(client_for(later[1]), _next(argument, size), {"t": token})
        assert error["extensions"] == {"code": "EXPIRED_TOKEN", "argument": argument}


# --- GraphQL validation ----------------------------------------------------------------------------------------

WRONG_TYPES: list[tuple[str, str, str, Any]] = [
    ("thingByWhole", "eq", "BigInt", "x"),
    ("thingByWhole", "eq", "BigInt", 1.5),
    ("thingByWhole", "eq", "BigInt", 2**63),
    ("thingByWhole", "eq", "BigInt", str(2**63)),
    ("thingByWhole", "eq", "BigInt", True),
    ("thingByWhole", "eq", "BigInt", "1.0"),
    ("thingByWhole", "eq", "BigInt", [1, 2]),
    ("thingBySmall", "eq", "Int", 2**31),
    ("thingBySmall", "eq", "Int", "1"),
    ("thingByReal", "eq", "Float", "1.5"),
    ("thingByReal", "eq", "Float", True),
    ("thingByAmount", "eq", "Decimal", "1,5"),
    ("thingByAmount", "eq", "Decimal", "NaN"),
    ("thingByAmount", "eq", "Decimal", "1E+126"),
    ("thingByAmount", "eq", "Decimal", "0." + "1" * 39),
    ("thingByFlag", "eq", "Boolean", "true"),
    ("thingByFlag", "eq", "Boolean", 1),
    ("thingByUuid", "eq", "UUID", "6f1f6d4e3c564f6f9d7a0d4a3c1c2b1a"),
    ("thingByDay", "eq", "Date", "2026-02-30"),
    ("thingByDay", "eq", "Date", "2026-02-03T00:00:00Z"),
    ("thingByDay", "eq", "Date", 20260203),
    ("thingByMoment", "eq", "DateTime", "2026-02-03T00:00:00"),
    ("thingByMoment", "eq", "DateTime", "2026-02-03"),
    ("thingByMoment", "eq", "DateTime", "2026-02-03T25:00:00Z"),
    ("thingBySpan", "eq", "Duration", "1 day"),
    ("thingBySpan", "eq", "Duration", "P1M"),
    ("thingBySpan", "eq", "Duration", 5),
    ("thingByState", "eq", "State", "open"),
    ("thingByState", "eq", "State", "NOPE"),
    ("thingByState", "eq", "State", 0),
    ("thingByName", "eq", "String", 5),
    ("thingByName", "eq", "String", ["a", "b"]),
    ("thingByName", "created", "TimestampCondition", {"eq": 2**53 + 1}),
    ("thingByName", "created", "TimestampCondition", {"eq": "1"}),
    ("thingByName", "name", "StringCondition", {}),
    ("thingByName", "name", "StringCondition", {"eq": "a", "prefix": "a"}),
    ("thingByName", "name", "StringCondition", {"eq": None}),
    ("thingByName", "name", "StringCondition", {"lt": "a"}),
    ("thingByName", "name", "StringCondition", "a"),
    ("thingByName", "name", "StringCondition", {"between": {"from": "a"}}),
    ("thingByName", "name", "StringCondition", {"between": {"from": "a", "to": None}}),
    ("thingByName", "limit", "Int", 1.5),
    ("thingByName", "limit", "Int", "1"),
    ("thingByName", "reverse", "Boolean", "yes"),
    ("thingByName", "nextToken", "String", 5),
    ("thingByName", "onShardFailure", "OnShardFailure", "SOMETIMES"),
    ("things", "orderBy", "ThingOrder!", "NAME"),
    ("things", "orderBy", "ThingOrder!", None),
]


@pytest.mark.parametrize(("field", "argument", "of", "value"), WRONG_TYPES, ids=str)
async def test_values_of_the_wrong_type(tmp_path: Path, field: str, argument: str, of: str, value: Any) -> None:
    """A value of the wrong type is refused before execution, as a literal and as a variable."""
    names = of in {"State", "OnShardFailure", "ThingOrder!"} and isinstance(value, str) and value.isidentifier()
    text = literal(EnumName(value) if names else value)
    async with open_client(CATALOG, tmp_path) as client:
        inline = f"{{ page: {field}({argument}: {text}) {{ nextToken }} }}"
        for query, variables, code in (
            (inline, None, "GRAPHQL_VALIDATION_FAILED"),
            (f"query ($v: {of}) {{ page: {field}({argument}: $v) {{ nextToken }} }}", {"v": value}, "BAD_USER_INPUT"),
        ):
            client.reset_counts()
            response = await client.execute(query, variables)
            assert (response.executed, response.status, set(response.codes)) == (False, 400, {code}), response.body
            assert client.counts.rounds == 0
            for error in response.body["errors"]:
                assert sorted({*error, "locations"}) == ["extensions", "locations", "message"]
                assert len(error["message"]) < 700


MISSING = [
    ("{ thing { name } }", "GRAPHQL_VALIDATION_FAILED"),
    ("{ thing(id: null) { name } }", "GRAPHQL_VALIDATION_FAILED"),
    ("query ($id: ID!) { thing(id: $id) { name } }", "BAD_USER_INPUT"),
    ("query ($id: ID) { thing(id: $id) { name } }", "GRAPHQL_VALIDATION_FAILED"),
    ("{ thingByOwner(owner: o) { nextToken } }", "GRAPHQL_VALIDATION_FAILED"),
    ("{ thingByName(name: {eq: $n}) { nextToken } }", "GRAPHQL_VALIDATION_FAILED"),
    ("query ($n: String) { thingByName(name: {eq: $n}) { nextToken } }", "GRAPHQL_VALIDATION_FAILED"),
    ("query ($n: String!) { thingByName(name: {eq: $n}) { nextToken } }", "BAD_USER_INPUT"),
    ("{ lineById { nextToken } }", "GRAPHQL_VALIDATION_FAILED"),
    ('{ settings(id: "x") { theme } }', "GRAPHQL_VALIDATION_FAILED"),
    ("{ thingByName }", "GRAPHQL_VALIDATION_FAILED"),
    ('{ thing(id: "t-1") { name { x } } }', "GRAPHQL_VALIDATION_FAILED"),
]


@pytest.mark.parametrize(("query", "code"), MISSING)
async def test_missing_arguments_and_selections(tmp_path: Path, query: str, code: str) -> None:
    """A missing required argument, variable or selection is refused before execution."""
    async with open_client(CATALOG, tmp_path) as client:
        error = await client.error(query)
        assert error["extensions"] == {"code": code}
        assert error["locations"]


@pytest.mark.parametrize("field", ["thingByOwner", "thingsByOwner"])
async def test_missing_hash_properties(tmp_path: Path, field: str) -> None:
    """A search without a value of its hash property, and without several values, is refused before any read."""
    async with open_client(CATALOG, tmp_path) as client:
        error = await client.error(f"{{ {field} {{ nextToken }} }}")
        assert error["extensions"] == {"code": "MISSING_ARGUMENT", "argument": "owner"}
        assert "give it, or ownerIn" in error["message"]


async def test_null_arguments(tmp_path: Path) -> None:
    """A null argument counts as omitted, as a literal, a null variable or an omitted variable."""
    query = (
        "query ($t: String, $n: Int, $c: StringCondition, $r: Boolean, $s: OnShardFailure) "
        "{ page: thingByName(eq: $t, from: null, name: $c, limit: $n, first: null, nextToken: $t, reverse: $r, "
        "onShardFailure: $s) { items { thingId } } }"
    )
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        for variables in ({}, dict.fromkeys("tncrs")):
            assert await client.data(query, variables) == {"page": {"items": [{"thingId": "t-1"}, {"thingId": "t-2"}]}}


async def test_fields_fail_independently(tmp_path: Path) -> None:
    """An invalid field does not affect other fields, and each error has its own path."""
    query = "{ good: thingByName(limit: 1) { items { thingId } } bad: thingByName(limit: 0) { items { thingId } } "
    query += 'worse: thing(id: "") { name } }'
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        response = await client.execute(query)
        assert response.status == 200
        assert response.body["data"] == {"good": {"items": [{"thingId": "t-1"}]}, "bad": None, "worse": None}
        assert {(error["path"][0], error["extensions"]["code"]) for error in response.body["errors"]} == {
            ("bad", "INVALID_LIMIT"),
            ("worse", "EMPTY_KEY"),
        }
