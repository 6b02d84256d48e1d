"""What an operation may ask for at most: each limit holds at its number, and refuses one more before anything runs."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from graphql import get_introspection_query
from pydantic import BaseModel, Field

from graphql_api import Catalog, Entity, Id, Index, Shards
from graphql_api.schema.execution.document_executor import MAX_TEXT_LENGTH
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.query_cost import MAX_COST
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.values import RangeRead, ReadResult
from tests.schema.asking import Asked, asked, asking, opened
from tests.stores import WrappedStore

LIMITS = Limits()
ID = "w1"


class Part(BaseModel):
    """A model inside a record."""

    name: str
    size: int


class Wide(Entity, shards=Shards(2)):
    """A record with twenty plain fields, and lists of things."""

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


async def _refused(ask: Asked, query: str, variables: dict[str, Any] | None = None) -> dict[str, Any]:
    """The one error of an operation that is refused without a call of the store."""
    ask.forget()
    answer = await ask.answer(query, variables)
    assert (answer.executed, answer.status) == (False, 400)
    assert (ask.counts.rounds, ask.counts.gets, ask.counts.scans) == (0, 0, 0)
    error: dict[str, Any]
    (error,) = answer.body["errors"]
    return error


# --- depth -----------------------------------------------------------------------------------------------------


async def test_depth(tmp_path: Path) -> None:
    """Fields lie as many levels deep as the limit says; fragments and inline fragments are no way around it."""
    query = "{ wideById { edges { node { wideId } } } }"
    spread = "{ wideById { ...page } } fragment page on WideConnection { edges { ... { ...edge } } } "
    spread += "fragment edge on WideEdge { node { wideId } }"
    async with asked(CATALOG, tmp_path, RECORD, limits=replace(LIMITS, depth=4)) as ask:
        tighter = asking(ask.db, limits=replace(LIMITS, depth=3))
        for text in (query, spread):
            assert await ask.data(text) == {"wideById": {"edges": [{"node": {"wideId": ID}}]}}
            error = await _refused(tighter, text)
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
    """However far a document is nested, and with whatever, it is refused with the code of depth."""
    async with asked(CATALOG, tmp_path) as ask:
        error = await _refused(ask, query)
        assert error["extensions"] == {"code": "QUERY_TOO_DEEP", "limit": LIMITS.depth}


# --- fragments -------------------------------------------------------------------------------------------------


def _chain(length: int) -> str:
    links = "".join(f" fragment f{at} on Query {{ ...f{at + 1} }}" for at in range(length))
    return f"{{ ...f0 }}{links} fragment f{length} on Query {{ __typename }}"


async def test_long_chains_of_fragments(tmp_path: Path) -> None:
    """Fragments that spread one another are followed a long way, and refused beyond it."""
    async with asked(CATALOG, tmp_path) as ask:
        assert await ask.data(_chain(150)) == {"__typename": "Query"}
        for length in (220, 245):
            error = await _refused(ask, _chain(length))
            assert error["extensions"]["code"] in {"QUERY_TOO_DEEP", "GRAPHQL_VALIDATION_FAILED"}
            assert "aborted" not in error["message"]


@pytest.mark.parametrize("length", [1, 2, 150])
async def test_cyclic_fragments(tmp_path: Path, length: int) -> None:
    """Fragments that spread themselves in a circle are invalid, however long the circle."""
    circle = "".join(f" fragment f{at} on Query {{ ...f{(at + 1) % length} __typename }}" for at in range(length))
    async with asked(CATALOG, tmp_path, limits=replace(LIMITS, root_fields=1_000)) as ask:
        for error in await ask.errors("{ ...f0 }" + circle):
            assert error["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED"


async def test_fragment_bombs(tmp_path: Path) -> None:
    """Fragments that each spread the next one ten times are weighed in full, without being unfolded."""
    bomb = "".join(f" fragment f{at} on WideConnection {{ {f'...f{at + 1} ' * 10} }}" for at in range(30))
    bomb += " fragment f30 on WideConnection { edges { cursor } }"
    async with asked(CATALOG, tmp_path) as ask:
        error = await _refused(ask, "{ wideById { ...f0 } }" + bomb)
        assert error["extensions"] == {"code": "QUERY_TOO_COSTLY", "limit": LIMITS.cost, "found": MAX_COST}


# --- counts ----------------------------------------------------------------------------------------------------


async def test_aliases(tmp_path: Path) -> None:
    """Aliases are counted over the whole document, in fragments too."""
    rest = " ...f } fragment f on Query { b: __typename c: __typename }"
    async with asked(CATALOG, tmp_path, limits=replace(LIMITS, root_fields=1_000)) as ask:
        at_most = "{ " + " ".join(f"a{at}: __typename" for at in range(LIMITS.aliases - 2))
        assert len(await ask.data(at_most + rest)) == LIMITS.aliases
        error = await _refused(ask, f"{at_most} more: __typename {rest}")
        assert error["extensions"] == {
            "code": "TOO_MANY_ALIASES",
            "limit": LIMITS.aliases,
            "found": LIMITS.aliases + 1,
        }


async def test_directives(tmp_path: Path) -> None:
    """Directives are counted wherever they stand, on operations and fragments too."""
    rest = " ...f @include(if: true) } fragment f on Query { __typename @skip(if: false) }"
    async with asked(CATALOG, tmp_path, limits=replace(LIMITS, aliases=1_000, root_fields=1_000)) as ask:
        at_most = "{ " + " ".join(f"a{at}: __typename @include(if: true)" for at in range(LIMITS.directives - 2))
        assert len(await ask.data(at_most + rest)) == LIMITS.directives - 1
        error = await _refused(ask, f"{at_most} more: __typename @skip(if: false) {rest}")
        assert error["extensions"] == {
            "code": "TOO_MANY_DIRECTIVES",
            "limit": LIMITS.directives,
            "found": LIMITS.directives + 1,
        }


async def test_root_fields(tmp_path: Path) -> None:
    """Root fields are counted through fragments, each as often as it is spread, and for each operation by itself."""
    five = " fragment f on Query { __typename __typename __typename __typename __typename }"
    async with asked(CATALOG, tmp_path) as ask:
        assert LIMITS.root_fields == 20
        assert await ask.data("{ ...f ...f ... { ...f ...f } }" + five) == {"__typename": "Query"}
        error = await _refused(ask, "query A { __typename } query B { __typename ...f ...f ... { ...f ...f } }" + five)
        assert error["extensions"] == {"code": "TOO_MANY_ROOT_FIELDS", "limit": 20, "found": 21}


async def test_more_root_fields_than_numbers_hold(tmp_path: Path) -> None:
    """A count beyond what clients read exactly as a number is told as the largest that the server counts to."""
    bomb = "".join(f" fragment f{at} on Query {{ {f'...f{at + 1} ' * 10} }}" for at in range(30))
    async with asked(CATALOG, tmp_path) as ask:
        error = await _refused(ask, "{ ...f0 }" + bomb + " fragment f30 on Query { __typename }")
        assert error["extensions"] == {"code": "TOO_MANY_ROOT_FIELDS", "limit": 20, "found": MAX_COST}


async def test_tokens(tmp_path: Path) -> None:
    """As many lexical tokens are read as the limit says, and as many comments; commas are nothing."""
    async with asked(CATALOG, tmp_path, RECORD) as ask:
        head, tail = '{ wide(id: "w1") {', "} }"
        fields = LIMITS.tokens - 10
        parts = "".join(f"...{{f{at % 19 + 1}}}," for at in range(fields // 4))
        at_most = f"{head} {parts} {'f1,' * (fields % 4)} {tail}"
        assert await ask.data(at_most) == {"wide": {f"f{at}": "" for at in range(1, 20)}}
        error = await _refused(ask, at_most.replace("{f1}", "{f1 f1}", 1))
        assert error["extensions"] == {"code": "QUERY_TOO_LONG", "limit": LIMITS.tokens}
        assert await ask.data("{ __typename }" + "#\n" * LIMITS.tokens) == {"__typename": "Query"}
        error = await _refused(ask, "{ __typename }" + "#\n" * (LIMITS.tokens + 1))
        assert error["extensions"] == {"code": "QUERY_TOO_LONG", "limit": LIMITS.tokens}


async def test_characters(tmp_path: Path) -> None:
    """A document has as many characters as the limit says, whatever they are."""
    async with asked(CATALOG, tmp_path) as ask:
        for filler in (" ", ",", "\n", "#"):
            at_most = "{ __typename }".ljust(MAX_TEXT_LENGTH, filler)
            assert await ask.data(at_most) == {"__typename": "Query"}
            error = await _refused(ask, at_most + filler)
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
    """A document whose fields would have to be compared each with each is refused, and told how to do without."""
    async with asked(CATALOG, tmp_path, limits=replace(LIMITS, tokens=2_000)) as ask:
        error = await _refused(ask, query)
        assert error["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED"
        assert error["message"].endswith("Select each field once.")


async def test_fields_of_many_fragments(tmp_path: Path) -> None:
    """Fragments that twenty components bring along, each with the same twenty fields, are compared and answered."""
    fragments = "".join(f" fragment F{at} on Wide {{ {TWENTY} }}" for at in range(20))
    async with asked(CATALOG, tmp_path, RECORD) as ask:
        found = await ask.data('{ wide(id: "w1") {' + "".join(f" ...F{at}" for at in range(20)) + " } }" + fragments)
        assert len(found["wide"]) == 20


async def test_many_mistakes(tmp_path: Path) -> None:
    """Of a document with hundreds of mistakes a hundred are told, and that there are more."""
    async with asked(CATALOG, tmp_path) as ask:
        errors = await ask.errors('{ wide(id: "w1") {' + " ".join(f"g{at}" for at in range(1_000)) + "} }")
        assert {error["extensions"]["code"] for error in errors} == {"GRAPHQL_VALIDATION_FAILED"}
        assert len(errors) == 101
        assert errors[-1]["message"].startswith("Too many validation errors")


async def test_many_mistakes_in_a_variable(tmp_path: Path) -> None:
    """Of a variable with many mistakes ten are told, since each message repeats what was sent."""
    async with asked(CATALOG, tmp_path) as ask:
        query = "query ($f: StringCondition) { wideByFirst(f1: $f) { nextToken } }"
        errors = await ask.errors(query, {"f": {f"g{at}": "" for at in range(1_000)}})
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
async def test_long_mistakes(tmp_path: Path, query: str, variables: dict[str, Any]) -> None:
    """What is wrong is told in at most a thousand characters, however long what was sent is."""
    async with asked(CATALOG, tmp_path) as ask:
        error = await _refused(ask, query, variables)
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
async def test_the_largest_page_is_admitted(tmp_path: Path, page: str, query: str) -> None:
    """A page of 500 records with twenty plain fields is within the limit, as items or as edges, with lists in them."""
    async with asked(CATALOG, tmp_path, RECORD) as ask:
        found = await ask.data(f"{{ wideByFirst({page}) {{ {query.replace('FIELDS', TWENTY)} }} }}")
        assert len(found["wideByFirst"]) >= 1


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
    """Cost is one for each field, and for each object of each list as often as it can come; one less is refused."""
    name = "B" if query.startswith("query A") else None
    async with asked(CATALOG, tmp_path, limits=replace(LIMITS, cost=cost)) as ask:
        assert (await ask.answer(query, variables, name=name)).executed
        if cost > 1:
            error = await _refused(asking(ask.db, limits=replace(LIMITS, cost=cost - 1)), query, variables)
            assert error["extensions"] == {"code": "QUERY_TOO_COSTLY", "limit": cost - 1, "found": cost}


async def test_a_costly_query_makes_no_call_of_the_store(tmp_path: Path) -> None:
    """A query over the default limit is refused with both numbers, by literals and by variables, without any read."""
    query = (
        "query ($n: Int) { wideByFirst(limit: $n) { items { f1 " + TWENTY + " } edges { node { " + TWENTY + " } } } }"
    )
    async with asked(CATALOG, tmp_path, RECORD) as ask:
        for text, variables in ((query, {"n": 500}), (query.replace("$n)", "500)", 2).replace("($n: Int)", ""), None)):
            error = await _refused(
                ask, text.replace("limit: $n", "limit: 500") if variables is None else text, variables
            )
            assert error["extensions"]["code"] == "QUERY_TOO_COSTLY"
            assert error["extensions"]["found"] > error["extensions"]["limit"] == LIMITS.cost
            assert f"{error['extensions']['found']:,}" in error["message"]


async def test_introspection_is_weighed(tmp_path: Path) -> None:
    """The schema can be read in full as every tool does, and not many times in one operation."""
    whole = get_introspection_query(specified_by_url=True, directive_is_repeatable=True, input_value_deprecation=True)
    async with asked(CATALOG, tmp_path) as ask:
        assert (await ask.data(whole))["__schema"]["queryType"]["name"] == "Query"
        fragments = whole[whole.index("fragment FullType") :]
        many = " ".join(f"a{at}: __schema {{ types {{ ...FullType }} }}" for at in range(10))
        error = await _refused(ask, f"{{ {many} }} {fragments}")
        assert error["extensions"]["code"] == "QUERY_TOO_COSTLY"


# --- time ------------------------------------------------------------------------------------------------------


class SlowStore(WrappedStore):
    """Never answers a read, and remembers how reads ended."""

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
        raise AssertionError("nobody waits for so long")


async def test_deadline(tmp_path: Path) -> None:
    """An operation that does not end in time is refused as retryable, and none of its reads goes on."""
    async with opened(CATALOG, await open_sqlite(tmp_path / "x.db")) as db:
        slow = SlowStore(db.store)
        ask = asking(replace(db, store=slow), limits=replace(LIMITS, deadline=0.1))
        answer = await ask.answer("{ a: wideById { items { f1 } } b: wideByFirst { items { f1 } } }")
        assert (answer.executed, answer.status) == (False, 504)
        (error,) = answer.body["errors"]
        assert error["extensions"] == {"code": "DEADLINE_EXCEEDED", "retryable": True}
        assert (slow.started, slow.cancelled) == (2, 2)


async def test_a_caller_that_leaves(tmp_path: Path) -> None:
    """When the task that waits for an answer is cancelled, so are all of the operation's reads."""
    async with opened(CATALOG, await open_sqlite(tmp_path / "x.db")) as db:
        slow = SlowStore(db.store)
        ask = asking(replace(db, store=slow))
        waiting = asyncio.create_task(ask.answer("{ a: wideById { items { f1 } } b: wideByFirst { items { f1 } } }"))
        await slow.both_started.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (slow.started, slow.cancelled) == (2, 2)
