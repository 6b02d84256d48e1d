"""Limits of operations: each limit accepts its number and refuses one more before execution."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from graphql import get_introspection_query
from pydantic import BaseModel, Field

from graphql_api import Catalog, Entity, HasMany, Id, Index, Shards
from graphql_api.schema.execution.document_executor import MAX_TEXT_LENGTH
from graphql_api.schema.execution.document_limits import MAX_COUNT, Limits
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import RangeRead, ReadResult
from tests.schema.graphql_client import GraphQLClient, client_for, open_client, open_database

LIMITS = Limits()
ID = "w1"


class Part(BaseModel):
    """A nested model."""

    name: str
    size: int


class Wide(Entity, shards=Shards(2)):
    """A record with twenty text properties and two lists."""

    wide_id: Id[str] = ID
    f1: str = ""
    f2: str = ""
    f3: str = ""
    f4: str = ""
    f5: str = ""
    f6: str = ""
    f7: str = ""
    f8: str = ""
    f9: str = ""
    f10: str = ""
    f11: str = ""
    f12: str = ""
    f13: str = ""
    f14: str = ""
    f15: str = ""
    f16: str = ""
    f17: str = ""
    f18: str = ""
    f19: str = ""
    tags: Annotated[list[str], Field(default_factory=list)]
    parts: Annotated[list[Part], Field(default_factory=list)]

    by_first = Index(sort="f1")


CATALOG = Catalog(Wide)
TWENTY = " ".join(["wideId", *(f"f{number}" for number in range(1, 20))])
RECORD = Wide.model_validate({})


async def _refusal(client: GraphQLClient, query: str, variables: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the only error of an operation that is refused without a store call."""
    client.reset_counts()
    response = await client.execute(query, variables)
    assert (response.executed, response.status) == (False, 400)
    assert (client.counts.rounds, client.counts.gets, client.counts.scans) == (0, 0, 0)
    error: dict[str, Any]
    (error,) = response.body["errors"]
    return error


# --- depth -----------------------------------------------------------------------------------------------------


async def test_depth(tmp_path: Path) -> None:
    """Fields may be nested up to the depth limit, also through fragments and inline fragments."""
    query = "{ wideById { edges { node { wideId } } } }"
    spread = "{ wideById { ...page } } fragment page on WideConnection { edges { ... { ...edge } } } "
    spread += "fragment edge on WideEdge { node { wideId } }"
    async with open_client(CATALOG, tmp_path, RECORD, limits=replace(LIMITS, depth=4)) as client:
        tighter = client_for(client.db, limits=replace(LIMITS, depth=3))
        for text in (query, spread):
            assert await client.data(text) == {"wideById": {"edges": [{"node": {"wideId": ID}}]}}
            error = await _refusal(tighter, text)
            assert error["extensions"] == {"code": "QUERY_TOO_DEEP", "limit": 3, "found": 4}
            assert "4 levels deep; the limit is 3" in error["message"]


FAR_TOO_DEEP = {
    "fields": "{" + "wide{" * 220 + "x" + "}" * 221,
    "inline fragments": "{" + "...{" * 400 + "x" + "}" * 401,
    "lists": "{ wide(id: " + "[" * 900 + "]" * 900 + ") { wideId } }",
    "objects": "{ wide(id: " + "{a: " * 400 + "1" + "}" * 400 + ") { wideId } }",
    "open lists": "{ wide(id: " + "[" * 1_900,
    "types": "query ($a: " + "[" * 900 + "Int" + "]" * 900 + ") { __typename }",
    "introspection": "{ __schema { types { fields { type {" + "ofType {" * 400 + "name" + "}" * 405,
    "fragment": "{ __typename } fragment f on Wide { " + "a {" * 400 + "a" + "}" * 401,
}


@pytest.mark.parametrize("query", FAR_TOO_DEEP.values(), ids=FAR_TOO_DEEP.keys())
async def test_far_too_deep(tmp_path: Path, query: str) -> None:
    """Extreme nesting of any syntax is refused with QUERY_TOO_DEEP."""
    async with open_client(CATALOG, tmp_path) as client:
        error = await _refusal(client, query)
        assert error["extensions"] == {"code": "QUERY_TOO_DEEP", "limit": LIMITS.depth}


# --- fragments -------------------------------------------------------------------------------------------------


def _chain(length: int) -> str:
    links = "".join(f" fragment f{at} on Query {{ ...f{at + 1} }}" for at in range(length))
    return f"{{ ...f0 }}{links} fragment f{length} on Query {{ __typename }}"


async def test_long_chains_of_fragments(tmp_path: Path) -> None:
    """Long chains of fragments are resolved up to a maximum length and refused beyond it."""
    async with open_client(CATALOG, tmp_path) as client:
        assert await client.data(_chain(150)) == {"__typename": "Query"}
        for length in (220, 245):
            error = await _refusal(client, _chain(length))
            assert error["extensions"]["code"] in {"QUERY_TOO_DEEP", "GRAPHQL_VALIDATION_FAILED"}
            assert "aborted" not in error["message"]


@pytest.mark.parametrize("length", [1, 2, 150])
async def test_cyclic_fragments(tmp_path: Path, length: int) -> None:
    """Cyclic fragments of any length are invalid."""
    circle = "".join(f" fragment f{at} on Query {{ ...f{(at + 1) % length} __typename }}" for at in range(length))
    async with open_client(CATALOG, tmp_path, limits=replace(LIMITS, root_fields=1_000)) as client:
        for error in await client.errors("{ ...f0 }" + circle):
            assert error["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED"


async def test_fragment_bombs(tmp_path: Path) -> None:
    """The cost of exponentially growing fragments is computed without expanding them."""
    bomb = "".join(f" fragment f{at} on WideConnection {{ {f'...f{at + 1} ' * 10} }}" for at in range(30))
    bomb += " fragment f30 on WideConnection { edges { cursor } }"
    async with open_client(CATALOG, tmp_path) as client:
        error = await _refusal(client, "{ wideById { ...f0 } }" + bomb)
        assert error["extensions"] == {"code": "QUERY_TOO_COSTLY", "limit": LIMITS.cost, "found": MAX_COUNT}


# --- counts ----------------------------------------------------------------------------------------------------


async def test_aliases(tmp_path: Path) -> None:
    """Aliases are counted across the whole document, including fragments."""
    rest = " ...f } fragment f on Query { b: __typename c: __typename }"
    async with open_client(CATALOG, tmp_path, limits=replace(LIMITS, root_fields=1_000)) as client:
        at_most = "{ " + " ".join(f"a{at}: __typename" for at in range(LIMITS.aliases - 2))
        assert len(await client.data(at_most + rest)) == LIMITS.aliases
        error = await _refusal(client, f"{at_most} more: __typename {rest}")
        assert error["extensions"] == {
            "code": "TOO_MANY_ALIASES",
            "limit": LIMITS.aliases,
            "found": LIMITS.aliases + 1,
        }


async def test_directives(tmp_path: Path) -> None:
    """Directives are counted across the whole document, including fragments."""
    rest = " ...f @include(if: true) } fragment f on Query { __typename @skip(if: false) }"
    async with open_client(CATALOG, tmp_path, limits=replace(LIMITS, aliases=1_000, root_fields=1_000)) as client:
        at_most = "{ " + " ".join(f"a{at}: __typename @include(if: true)" for at in range(LIMITS.directives - 2))
        assert len(await client.data(at_most + rest)) == LIMITS.directives - 1
        error = await _refusal(client, f"{at_most} more: __typename @skip(if: false) {rest}")
        assert error["extensions"] == {
            "code": "TOO_MANY_DIRECTIVES",
            "limit": LIMITS.directives,
            "found": LIMITS.directives + 1,
        }


async def test_root_fields(tmp_path: Path) -> None:
    """Root fields are counted per operation, and once for each spread of their fragment."""
    five = " fragment f on Query { __typename __typename __typename __typename __typename }"
    async with open_client(CATALOG, tmp_path) as client:
        assert LIMITS.root_fields == 20
        assert await client.data("{ ...f ...f ... { ...f ...f } }" + five) == {"__typename": "Query"}
        error = await _refusal(
            client, "query A { __typename } query B { __typename ...f ...f ... { ...f ...f } }" + five
        )
        assert error["extensions"] == {"code": "TOO_MANY_ROOT_FIELDS", "limit": 20, "found": 21}


async def test_root_field_counts_are_capped(tmp_path: Path) -> None:
    """A count above the largest exact JSON number is reported as the maximum count."""
    bomb = "".join(f" fragment f{at} on Query {{ {f'...f{at + 1} ' * 10} }}" for at in range(30))
    async with open_client(CATALOG, tmp_path) as client:
        error = await _refusal(client, "{ ...f0 }" + bomb + " fragment f30 on Query { __typename }")
        assert error["extensions"] == {"code": "TOO_MANY_ROOT_FIELDS", "limit": 20, "found": MAX_COUNT}


async def test_tokens(tmp_path: Path) -> None:
    """The token limit applies to lexical tokens and separately to comments. Commas do not count."""
    async with open_client(CATALOG, tmp_path, RECORD) as client:
        head, tail = '{ wide(id: "w1") {', "} }"
        fields = LIMITS.tokens - 10
        parts = "".join(f"...{{f{at % 19 + 1}}}," for at in range(fields // 4))
        at_most = f"{head} {parts} {'f1,' * (fields % 4)} {tail}"
        assert await client.data(at_most) == {"wide": {f"f{at}": "" for at in range(1, 20)}}
        error = await _refusal(client, at_most.replace("{f1}", "{f1 f1}", 1))
        assert error["extensions"] == {"code": "QUERY_TOO_LONG", "limit": LIMITS.tokens}
        assert await client.data("{ __typename }" + "#\n" * LIMITS.tokens) == {"__typename": "Query"}
        error = await _refusal(client, "{ __typename }" + "#\n" * (LIMITS.tokens + 1))
        assert error["extensions"] == {"code": "QUERY_TOO_LONG", "limit": LIMITS.tokens}


async def test_characters(tmp_path: Path) -> None:
    """The character limit applies to all characters, including ignored ones."""
    async with open_client(CATALOG, tmp_path) as client:
        for filler in (" ", ",", "\n", "#"):
            at_most = "{ __typename }".ljust(MAX_TEXT_LENGTH, filler)
            assert await client.data(at_most) == {"__typename": "Query"}
            error = await _refusal(client, at_most + filler)
            assert error["extensions"] == {
                "code": "QUERY_TOO_LONG",
                "limit": MAX_TEXT_LENGTH,
                "found": MAX_TEXT_LENGTH + 1,
            }


@pytest.mark.parametrize(
    "query",
    [
        '{ wide(id: "w1") {' + "f1 " * 1_900 + "} }",
        "{ wideById {" + "items { f1 } " * 480 + "} }",
        "{ wideById {" + "edges { node { f1 } } " * 250 + "} }",
        "{ " + ("wideById {" + "items { f1 } " * 25 + "} ") * 18 + " }",
    ],
    ids=["plain fields", "lists", "edges", "pages"],
)
async def test_fields_that_overlap(tmp_path: Path, query: str) -> None:
    """A document with too many overlapping fields is refused, and the message suggests a fix."""
    async with open_client(CATALOG, tmp_path, limits=replace(LIMITS, tokens=2_000)) as client:
        error = await _refusal(client, query)
        assert error["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED"
        assert error["message"].endswith("Select each field once.")


async def test_fields_of_many_fragments(tmp_path: Path) -> None:
    """Twenty fragments with the same twenty fields are merged and executed."""
    fragments = "".join(f" fragment F{at} on Wide {{ {TWENTY} }}" for at in range(20))
    async with open_client(CATALOG, tmp_path, RECORD) as client:
        data = await client.data('{ wide(id: "w1") {' + "".join(f" ...F{at}" for at in range(20)) + " } }" + fragments)
        assert len(data["wide"]) == 20


async def test_documents_with_many_errors(tmp_path: Path) -> None:
    """A document with hundreds of errors reports 20 of them, and that there are more."""
    async with open_client(CATALOG, tmp_path) as client:
        errors = await client.errors('{ wide(id: "w1") {' + " ".join(f"g{at}" for at in range(1_000)) + "} }")
        assert {error["extensions"]["code"] for error in errors} == {"GRAPHQL_VALIDATION_FAILED"}
        assert len(errors) == 21
        assert errors[-1]["message"].startswith("Too many validation errors")


async def test_variables_with_many_errors(tmp_path: Path) -> None:
    """A variable with many errors reports ten of them, because each message repeats the value."""
    async with open_client(CATALOG, tmp_path) as client:
        query = "query ($f: StringCondition) { wideByFirst(f1: $f) { nextToken } }"
        errors = await client.errors(query, {"f": {f"g{at}": "" for at in range(1_000)}})
        assert {error["extensions"]["code"] for error in errors} == {"BAD_USER_INPUT"}
        assert len(errors) == 11
        assert errors[-1]["message"].startswith("Too many errors")


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        ("{ " + "a" * 50_000 + " }", {}),
        ('{ wide(id: "w1") { f1(' + "a" * 50_000 + ": 1) } }", {}),
        ("{ wideByFirst(limit: " + "1" * 4_000 + ") { nextToken } }", {}),
        ("query ($o: WideOrder) { wides(orderBy: $o) { nextToken } }", {"o": "A" * 500_000}),
    ],
    ids=["field", "argument", "number", "enum"],
)
async def test_long_error_messages(tmp_path: Path, query: str, variables: dict[str, Any]) -> None:
    """Error messages are shortened to about 1,000 characters."""
    async with open_client(CATALOG, tmp_path) as client:
        error = await _refusal(client, query, variables)
        assert 900 < len(error["message"]) < 1_010
        assert " … " in error["message"]


# --- cost ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("limit: 500", "items { FIELDS }"),
        ("first: 500", "edges { node { FIELDS } cursor } pageInfo { endCursor hasNextPage }"),
        ("last: 500", "edges { node { FIELDS } } pageInfo { startCursor }"),
        ("limit: 500", "items { FIELDS tags parts { name size } } nextToken"),
    ],
)
async def test_the_largest_page_is_within_the_limits(tmp_path: Path, page: str, query: str) -> None:
    """A page of 500 records with twenty scalar fields and lists is accepted, as items and as edges."""
    async with open_client(CATALOG, tmp_path, RECORD) as client:
        data = await client.data(f"{{ wideByFirst({page}) {{ {query.replace('FIELDS', TWENTY)} }} }}")
        assert len(data["wideByFirst"]) >= 1


PAGE = " fragment p on WideConnection { items { f1 } }"
COSTS: Sequence[tuple[str, dict[str, Any], int]] = [
    ("{ __typename }", {}, 1),
    ('{ wide(id: "w1") { wideId f1 } }', {}, 3),
    ("{ wideById(limit: 7) { items { wideId f1 } } }", {}, 1 + 1 + 7 * 3),
    ("{ wideById { items { wideId } } }", {}, 1 + 1 + 50 * 2),
    ("{ wideById(first: 2) { edges { node { wideId } cursor } } }", {}, 1 + 1 + 2 * (1 + 1 + 1 + 1)),
    ("query ($n: Int) { wideById(last: $n) { items { wideId } } }", {"n": 3}, 1 + 1 + 3 * 2),
    ("query ($n: Int = 4) { wideById(last: $n) { items { wideId } } }", {}, 1 + 1 + 4 * 2),
    ("query ($n: Int) { wideById(last: $n) { items { wideId } } }", {"n": None}, 1 + 1 + 50 * 2),
    ("query ($n: Int) { wideById(limit: $n, first: 9) { items { wideId } } }", {}, 1 + 1 + 9 * 2),
    ("{ wideById(limit: 2) { items { parts { name size } } } }", {}, 1 + 1 + 2 * (1 + 1 + 1 + 2)),
    ("{ a: wideById(limit: 2) { ...p } b: wideById(limit: 3) { ...p } }" + PAGE, {}, (2 + 2 * 2) + (2 + 3 * 2)),
    ("{ wideById(limit: 2) { nextToken pageInfo { endCursor } shards { failed { code } } } }", {}, 1 + 1 + 2 + 1 + 3),
    ("query A { wideById { items { f1 } } } query B { __typename }", {}, 1),
    (f"{{ wideByFirst(limit: 500) {{ items {{ {TWENTY} }} }} }}", {}, 10_502),
]


@pytest.mark.parametrize(("query", "variables", "cost"), COSTS)
async def test_cost(tmp_path: Path, query: str, variables: dict[str, Any], cost: int) -> None:
    """The cost is one per field and per object, times the possible list length. A limit below it refuses."""
    name = "B" if query.startswith("query A") else None
    async with open_client(CATALOG, tmp_path, limits=replace(LIMITS, cost=cost)) as client:
        assert (await client.execute(query, variables, name=name)).executed
        if cost > 1:
            error = await _refusal(client_for(client.db, limits=replace(LIMITS, cost=cost - 1)), query, variables)
            assert error["extensions"] == {"code": "QUERY_TOO_COSTLY", "limit": cost - 1, "found": cost}


async def test_a_costly_query_makes_no_store_call(tmp_path: Path) -> None:
    """A query above the default cost limit is refused with cost and limit, with literals and with variables."""
    query = (
        "query ($n: Int) { wideByFirst(limit: $n) { items { f1 " + TWENTY + " } edges { node { " + TWENTY + " } } } }"
    )
    async with open_client(CATALOG, tmp_path, RECORD) as client:
        for text, variables in ((query, {"n": 500}), (query.replace("$n)", "500)", 2).replace("($n: Int)", ""), None)):
            error = await _refusal(
                client, text.replace("limit: $n", "limit: 500") if variables is None else text, variables
            )
            assert error["extensions"]["code"] == "QUERY_TOO_COSTLY"
            assert error["extensions"]["found"] > error["extensions"]["limit"] == LIMITS.cost
            assert f"{error['extensions']['found']:,}" in error["message"]


async def test_the_cost_of_introspection(tmp_path: Path) -> None:
    """The full introspection query is accepted, but not ten copies of it in one operation."""
    whole = get_introspection_query(specified_by_url=True, directive_is_repeatable=True, input_value_deprecation=True)
    async with open_client(CATALOG, tmp_path) as client:
        assert (await client.data(whole))["__schema"]["queryType"]["name"] == "Query"
        fragments = whole[whole.index("fragment FullType") :]
        many = " ".join(f"a{at}: __schema {{ types {{ ...FullType }} }}" for at in range(10))
        error = await _refusal(client, f"{{ {many} }} {fragments}")
        assert error["extensions"]["code"] == "QUERY_TOO_COSTLY"


# --- elements of inputs ----------------------------------------------------------------------------------------

FILTER = len(Wide.model_fields) + len(["and", "or", "not"])
"""Fields of the filter of Wide."""
COMPARISONS = len(["eq", "ne", "in", "lt", "le", "gt", "ge", "between", "prefix", "contains", "exists"])
"""Fields of the comparisons of texts."""
BY_FILTER = "query ($f: WideFilter) { wides(filter: $f) { nextToken } }"
TWICE = "query ($f: WideFilter) { a: wides(filter: $f) { nextToken } b: wides(filter: $f) { nextToken } }"
ELEMENTS: Sequence[tuple[str, dict[str, Any], int]] = [
    ("{ wideByFirst(limit: 2) { nextToken } }", {}, 1),
    ('{ wide(id: "' + "a" * 250 + '") { f1 } }', {}, 1 + 2),
    ("query ($i: ID!) { wide(id: $i) { f1 } }", {"i": "a" * 250}, (1 + 2) + (1 + 3)),
    ('{ wide(id: "' + "é" * 250 + '") { f1 } }', {}, 1 + 10),
    ('{ wide(id: "' + "\ufdfa" * 100 + '") { f1 } }', {}, 1 + 18 * 4),
    ("{ wides(filter: {}) { nextToken } }", {}, 1 + FILTER),
    ("{ wides(filter: {and: [{}, {}]}) { nextToken } }", {}, (1 + FILTER) + 1 + 2 * (1 + FILTER)),
    (BY_FILTER, {"f": {}}, (1 + FILTER) + (1 + 1 + FILTER)),
    (TWICE, {"f": {}}, (1 + FILTER) + 2 * (1 + 1 + FILTER)),
    (BY_FILTER.replace("WideFilter", "WideFilter = {}"), {}, (1 + FILTER) + (1 + 1 + FILTER)),
    (BY_FILTER, {"f": {"f1": {"in": ["a", "b"]}}}, 2 * ((1 + FILTER) + (1 + COMPARISONS) + (1 + 2)) + 1),
    (
        'mutation ($t: [String!]) { putWide(input: {wideId: "w", tags: $t}) { wide { f1 } } }',
        {"t": []},
        1 + (1 + len(Wide.model_fields) + 1 + 2),
    ),
]


@pytest.mark.parametrize(("query", "variables", "elements"), ELEMENTS)
async def test_elements(tmp_path: Path, query: str, variables: dict[str, Any], elements: int) -> None:
    """Values, declared input fields and blocks of text count once in a variable, and once for each use."""
    async with open_client(CATALOG, tmp_path, limits=replace(LIMITS, elements=elements)) as client:
        assert (await client.execute(query, variables)).executed
        if elements > 1:
            error = await _refusal(
                client_for(client.db, limits=replace(LIMITS, elements=elements - 1)), query, variables
            )
            assert error["extensions"].pop("found", elements) == elements
            assert error["extensions"] == {"code": "INPUT_TOO_LARGE", "limit": elements - 1}


class Parent(Entity):
    """A record with child lists."""

    parent_id: Id[str]
    children = HasMany("Child", via="by_parent")


class Child(Entity):
    """A child of a record."""

    child_id: Id[str]
    parent_id: str
    by_parent = Index(hash="parent_id", sort="child_id")


async def test_elements_of_each_record(tmp_path: Path) -> None:
    """An argument of a field of a record counts once for each record of the largest page."""
    query = "query ($n: Int) { parents(limit: $n) { items { children(filter: {}) { nextToken } } } }"
    child_filter = 1 + len(["childId", "parentId", "and", "or", "not"])
    async with open_client(Catalog(Parent, Child), tmp_path, limits=replace(LIMITS, elements=1_000)) as client:
        assert (await client.execute(query, {"n": 100})).executed
        for size in (200, 200.0):
            error = await _refusal(client, query, {"n": size})
            found = 1 + (1 + 1) + 200 * child_filter
            assert error["extensions"] == {"code": "INPUT_TOO_LARGE", "limit": 1_000, "found": found}


@pytest.mark.parametrize(
    ("query", "variables", "code", "text"),
    [
        ("query ($i: [ID!]!) { nodes(ids: $i) { id } }", {"i": ["a"] * 101}, "INVALID_LIMIT", "ids has 101 ids"),
        ("{ nodes(ids: [" + '"a" ' * 101 + "]) { id } }", {}, "INVALID_LIMIT", "ids has 101 ids"),
        (BY_FILTER, {"f": {"and": [{}] * 101}}, "FILTER_TOO_LARGE", "filter: and has 101 filters"),
        (BY_FILTER, {"f": {"f1": {"in": ["a"] * 101}}}, "FILTER_TOO_LARGE", "filter: in has 101 values"),
        (
            "mutation ($i: [DeleteInput!]!) { deleteWides(inputs: $i) { results { error { code } } } }",
            {"i": [{"id": "a"}] * 101},
            "INVALID_LIMIT",
            "inputs has 101 rows",
        ),
    ],
)
async def test_lists_have_limits(tmp_path: Path, query: str, variables: dict[str, Any], code: str, text: str) -> None:
    """A list of an argument has a limit of its own, in literals and in variables."""
    async with open_client(CATALOG, tmp_path) as client:
        error = await _refusal(client, query, variables)
        assert error["extensions"]["code"] == code
        assert f"{text}, and at most 100 are allowed" in error["message"]


# --- time ------------------------------------------------------------------------------------------------------


class SlowStore(ForwardingStore):
    """Never completes a read, and counts started and cancelled reads."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.started = self.cancelled = 0
        self.both_started = asyncio.Event()

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        self.started += 1
        if self.started == 2:
            self.both_started.set()
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        raise AssertionError("the read was never cancelled")


async def test_deadline(tmp_path: Path) -> None:
    """An operation that exceeds its deadline is refused as retryable, and its reads are cancelled."""
    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db")) as db:
        slow = SlowStore(db.store)
        client = client_for(replace(db, store=slow), limits=replace(LIMITS, deadline=0.1))
        response = await client.execute("{ a: wideById { items { f1 } } b: wideByFirst { items { f1 } } }")
        assert (response.executed, response.status) == (False, 504)
        (error,) = response.body["errors"]
        assert error["extensions"] == {"code": "DEADLINE_EXCEEDED", "retryable": True}
        assert (slow.started, slow.cancelled) == (2, 2)


async def test_cancelling_an_operation_cancels_its_reads(tmp_path: Path) -> None:
    """Cancelling the task of an operation cancels all its reads."""
    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db")) as db:
        slow = SlowStore(db.store)
        client = client_for(replace(db, store=slow))
        waiting = asyncio.create_task(
            client.execute("{ a: wideById { items { f1 } } b: wideByFirst { items { f1 } } }")
        )
        await slow.both_started.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (slow.started, slow.cancelled) == (2, 2)
