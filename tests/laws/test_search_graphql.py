"""The laws of search through GraphQL: each field returns the page or error that the same search returns in Python."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from graphql import get_named_type
from hypothesis import assume, given, note
from hypothesis import strategies as st

from graphql_api.codecs.scalar_codec import Codec
from graphql_api.database import Database
from graphql_api.errors import InvalidValue, ShardQLError
from graphql_api.model.markers import IndexRef
from graphql_api.model.naming import camel_case
from graphql_api.model.specs import EntitySpec, IndexSpec, PropertySpec
from graphql_api.query.filter_operators import Operand, ValueKind, kind_of, operators_of
from graphql_api.query.filter_parser import filter_property_name
from graphql_api.query.search_request import CONDITION_ARGUMENTS, PAGING_ARGUMENTS
from graphql_api.schema.fields.search_fields import available_orders, indexes_by_hash
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from tests.laws.search_catalogs import (
    IDS,
    NOW,
    POOLS,
    Case,
    DrawnCatalog,
    Record,
    build,
    draw_case,
    new_tenant,
    records,
    seen,
    shapes,
)
from tests.laws.test_search import SEAL, check_changes, check_pages, no_index_lag, put_records, run_in_batches
from tests.schema.graphql_database import GraphQLDatabase, OperationFailed, Schema, execute, schema_of
from tests.schema.graphql_text import (
    EnumName,
    argument_value,
    document_with_literals,
    needed_arguments,
    page_selection,
)
from tests.support.distributed_store import KeyOrderedStore
from tests.support.run_depth import examples

CLASSES = ["same page", "same error", "tokens", "both styles", "PARTIAL", "id", "filters"]
"""classes of cases: a run fails unless it has drawn each of them"""


@dataclass
class Engine:
    """A store shared by all cases; each case has its own tenant, and so its own hash keys."""

    runner: asyncio.Runner
    store: Store

    def database(self, drawn: DrawnCatalog) -> Database:
        """Returns an empty database for a catalog."""
        self.runner.run(self.store.ensure_table(drawn.catalog.table_definition()))
        return Database(drawn.catalog, self.store, SEAL, clock=lambda: NOW, tenant=new_tenant())

    def graphql_database(self, drawn: DrawnCatalog, *, literals: bool) -> GraphQLDatabase:
        """Returns an empty database that is searched through GraphQL."""
        db = self.database(drawn)
        return GraphQLDatabase(db.catalog, db.store, db.seal, db.clock, db.tenant, literals=literals)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A store whose ties are in the order of their keys, so that Hypothesis can replay a case."""
    path: Path = tmp_path_factory.mktemp("laws") / "x.db"
    with asyncio.Runner() as runner:
        store = KeyOrderedStore(runner.run(open_sqlite(path)))
        yield Engine(runner, store)
        runner.run(store.close())


def draw_graphql_case(data: st.DataObject) -> Case:
    """Draws a case that GraphQL can express: it has no ranges of booleans."""
    case = draw_case(data)
    name, kind, *_ = case.search.last or ("", "")
    assume(kind != "between" or not any(column.name == name and column.type is bool for column in case.search.order))
    return case


def test_every_page_is_a_slice_of_the_sorted_result(engine: Engine, request: pytest.FixtureRequest) -> None:
    """From any cursor, in either direction and with any size, a page is exactly a slice of the reference result."""

    @examples(10, deep=1_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_graphql_case(data)
        db = engine.graphql_database(case.drawn, literals=data.draw(st.booleans(), label="literals"))
        engine.runner.run(check_pages(data, db, no_index_lag, case))

    run_in_batches(law, request)


def test_changes_between_pages_do_not_affect_other_records(engine: Engine, request: pytest.FixtureRequest) -> None:
    """While records are inserted, deleted or moved and shards added, every other record is returned once, in order."""

    @examples(6, deep=500)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_graphql_case(data)
        engine.runner.run(check_changes(data, engine.graphql_database(case.drawn, literals=False), no_index_lag, case))

    run_in_batches(law, request)


def test_graphql_and_python_return_the_same_page(engine: Engine, request: pytest.FixtureRequest) -> None:
    """Any combination of the arguments of a field returns the same page or error in GraphQL and Python."""

    @examples(20, deep=4_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        drawn = build(data.draw(shapes(), label="shape"))
        some = data.draw(records(drawn.shape), label="records")
        engine.runner.run(_check_same(data, engine.database(drawn), drawn, some))

    run_in_batches(law, request, CLASSES)


def test_list_fields_return_the_pages_of_their_indexes(engine: Engine, request: pytest.FixtureRequest) -> None:
    """Each order of a list field returns the pages of its index and direction in Python."""

    @examples(6, deep=500)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        drawn = build(data.draw(shapes(), label="shape"))
        some = data.draw(records(drawn.shape), label="records")
        engine.runner.run(_check_lists(data, engine.database(drawn), drawn, some))

    run_in_batches(law, request)


async def _check_same(data: st.DataObject, db: Database, drawn: DrawnCatalog, some: list[Record]) -> None:
    await put_records(db, drawn, some)
    schema, entity = schema_of(db.catalog), db.catalog.entity(drawn.thing)
    index = data.draw(st.sampled_from([*entity.indexes.values()]), label="index")
    ref, arguments = IndexRef(drawn.thing, index.attribute), data.draw(_Arguments(schema, entity, index, some).all())
    for _ in range(data.draw(st.integers(1, 3), label="pages")):
        note(repr(arguments))
        expected = await _outcome(db, ref, {name: value for name, (value, _) in arguments.items()})
        query = document_with_literals(
            schema.graph.names.search_field(entity, index),
            {_graphql_name(schema, name): text for name, (_, text) in arguments.items()},
            page_selection([schema.graph.names.naming.property_name(name) for name in entity.properties]),
        )
        if isinstance(expected, str):
            with pytest.raises(OperationFailed) as caught:
                await execute(db, query)
            assert caught.value.codes == [expected]
            seen["same error"] += 1
            return
        page = (await execute(db, query))["answer"]
        seen["same page"] += 1
        assert [item["key"] for item in page["items"]] == [item.key for item in expected.items]
        assert page["nextToken"] == expected.next_token
        assert [edge["cursor"] for edge in page["edges"]] == expected.cursors
        assert page["pageInfo"]["startCursor"] == expected.start_cursor
        assert page["pageInfo"]["endCursor"] == expected.end_cursor
        tokens = [token for token in (page["nextToken"], *(edge["cursor"] for edge in page["edges"])) if token]
        if not tokens:
            return
        token = data.draw(st.sampled_from(tokens), label="token")
        name = data.draw(st.sampled_from(["next_token", "after", "before"]), label="as")
        sizes = {"next_token": ["limit"], "after": ["first"], "before": ["last"]}[name]
        kept = {
            key: value
            for key, value in arguments.items()
            if key not in {"limit", "first", "last", "after", "before", "next_token"} or key in sizes
        }
        arguments = {**kept, name: (token, token)}
        seen["tokens"] += 1


async def _outcome(db: Database, index: IndexRef, arguments: Mapping[str, Any]) -> Any:
    """Returns the page, or the code of the error."""
    try:
        return await db.search(index, **arguments)
    except ShardQLError as problem:
        return problem.code


def _graphql_name(schema: Schema, name: str) -> str:
    naming = schema.graph.names.naming
    if name in PAGING_ARGUMENTS or name in CONDITION_ARGUMENTS:
        return naming.common_argument(name)
    return name if name in ("id", "filter") else naming.property_argument(name)


@dataclass(frozen=True)
class _Arguments:
    """Strategies for arguments, each with its Python value and its GraphQL value."""

    schema: Schema
    entity: EntitySpec
    index: IndexSpec
    records: list[Record]

    def all(self) -> st.SearchStrategy[dict[str, tuple[Any, Any]]]:
        """Draws any arguments of the field, always including those that it needs."""
        types = self.schema.arguments_of(self.schema.graph.names.search_field(self.entity, self.index))
        python_names = {
            _graphql_name(self.schema, name): name
            for name in (*PAGING_ARGUMENTS, *CONDITION_ARGUMENTS, *self.entity.properties, "id", "filter")
        }
        python_names |= {_graphql_name(self.schema, f"{part.name}_in"): f"{part.name}_in" for part in self.index.hash}
        required = {python_names[word]: self._one(python_names[word]) for word in needed_arguments(types)}
        rest = {
            python_names[word]: self._one(python_names[word]) for word in types if python_names[word] not in required
        }
        names = st.sets(st.sampled_from(sorted(rest)), max_size=3)
        return names.flatmap(lambda some: st.fixed_dictionaries({**required, **{name: rest[name] for name in some}}))

    def _one(self, name: str) -> st.SearchStrategy[tuple[Any, Any]]:
        if name in ("limit", "first", "last"):
            return st.sampled_from([1, 2, 3, 50, 500, 501, 0, -1]).map(lambda size: (size, size))
        if name in ("next_token", "after", "before"):
            seen["both styles"] += 1
            return st.sampled_from(["", "x", "A" * 90, "é"]).map(lambda token: (token, token))
        if name == "reverse":
            return st.booleans().map(lambda value: (value, value))
        if name == "on_shard_failure":
            seen["PARTIAL"] += 1
            return st.sampled_from(["FAIL", "PARTIAL"]).map(lambda value: (value, EnumName(value)))
        if name == "id":
            seen["id"] += 1
            return self._ids().map(lambda value: (value, value))
        if name == "filter":
            seen["filters"] += 1
            return self._filters()
        if name in CONDITION_ARGUMENTS:
            return self._flat(name)
        if name in {f"{part.name}_in" for part in self.index.hash}:
            part = name.removesuffix("_in")
            values = st.lists(self._value(part), max_size=3)
            return values.map(lambda many: (many, [self._graphql_value(part, value) for value in many]))
        if name in {part.name for part in self.index.hash}:
            return self._value(name).map(lambda value: (value, self._graphql_value(name, value)))
        return st.one_of(self._conditions(name))

    def _ids(self) -> st.SearchStrategy[str]:
        texts = st.sampled_from([*IDS, "", *(record["key"] for record in self.records)])
        parts = len(self.entity.ids)
        if parts == 1:
            return texts
        return st.tuples(texts, st.sampled_from(["0", "1", "-1", "x", ""])).map(
            lambda both: "/".join((both[0].replace("%", "%25").replace("/", "%2F"), both[1]))
        )

    def _flat(self, name: str) -> st.SearchStrategy[tuple[Any, Any]]:
        first = self.index.sort[0].property.name
        if self.index.physical is None and len(self.index.sort) > 1:
            return st.sampled_from(["", "a", "a/", "a/1", "ab/-10", "a/1/2", "/", "b%2F/0"]).map(
                lambda text: (text, text)
            )
        if name == "prefix":
            return st.sampled_from(["", "a", "ab", "\x00"]).map(lambda text: (text, text))
        return self._value(first).map(lambda value: (value, self._graphql_value(first, value)))

    def _conditions(self, name: str) -> list[st.SearchStrategy[tuple[Any, Any]]]:
        value = self._value(name)

        def one(kind: str) -> st.SearchStrategy[tuple[Any, Any]]:
            return value.map(lambda found: ({kind: found}, {kind: self._graphql_value(name, found)}))

        both = st.tuples(value, value).map(
            lambda pair: (
                {"from": pair[0], "to": pair[1]},
                {"between": {"from": self._graphql_value(name, pair[0]), "to": self._graphql_value(name, pair[1])}},
            )
        )
        kinds = get_named_type(
            self.schema.arguments_of(self.schema.graph.names.search_field(self.entity, self.index))[
                _graphql_name(self.schema, name)
            ]
        ).fields
        found = [one(kind) for kind in ("eq", "from", "to") if kind in kinds]
        if "between" in kinds:
            found.append(both)
        if "prefix" in kinds:
            found.append(st.sampled_from(["", "a", "an"]).map(lambda text: ({"prefix": text}, {"prefix": text})))
        return found

    def _filters(self) -> st.SearchStrategy[tuple[Any, Any]]:
        """Draws a comparison, its negation, or a combination of two."""
        one = st.one_of([self._comparison(name, part) for name, part in self.entity.properties.items() if part.codec])
        several = st.tuples(st.sampled_from(["and", "or"]), one, one)
        return (
            one
            | one.map(lambda test: ({"not": test[0]}, {"not": test[1]}))
            | several.map(lambda parts: _both(lambda way: {parts[0]: [parts[1][way], parts[2][way]]}))
        )

    def _comparison(self, name: str, part: PropertySpec) -> st.SearchStrategy[tuple[Any, Any]]:
        """Draws any comparison that the GraphQL type of a property offers."""
        types = get_named_type(
            self.schema.arguments_of(self.schema.graph.names.search_field(self.entity, self.index))["filter"]
        )
        word = filter_property_name(self.schema.graph.names.naming, name)
        value = self._value(name).map(lambda found: (found, self._graphql_value(name, found)))
        texts = st.sampled_from(["", "a", "an", "\x00"]).map(lambda text: (text, text))
        operands: dict[Operand, st.SearchStrategy[tuple[Any, Any]]] = {
            Operand.VALUE: value,
            Operand.VALUES: st.lists(value, max_size=3).map(lambda some: _both(lambda way: [one[way] for one in some])),
            Operand.RANGE: st.tuples(value, value).map(
                lambda pair: _both(lambda way: {"from": pair[0][way], "to": pair[1][way]})
            ),
            Operand.BOOLEAN: st.booleans().map(lambda there: (there, there)),
        }
        operators = {camel_case(operator.name): operator for operator in operators_of(kind_of(part.codec)).values()}

        def comparison(kind: str) -> st.SearchStrategy[tuple[Any, Any]]:
            operator = operators[kind]
            operand = texts if operator.applies_to == {ValueKind.TEXT} else operands[operator.operand]
            return operand.map(lambda both: ({name: {operator.name: both[0]}}, {word: {kind: both[1]}}))

        offered = get_named_type(types.fields[word].type).fields
        return st.sampled_from([*offered]).flatmap(comparison)

    def _value(self, name: str) -> st.SearchStrategy[Any]:
        """Draws a value of a record, or any other value of the property's type."""
        codec = self.entity.properties[name].column.codec
        stored = [record[name] for record in self.records if record.get(name) is not None]
        return st.sampled_from([*stored, *(value for pool in POOLS.values() for value in pool if _fits(codec, value))])

    def _graphql_value(self, name: str, value: Any) -> Any:
        return argument_value(self.entity.properties[name].column.codec, value)


def _both(make: Callable[[int], Any]) -> tuple[Any, Any]:
    """Returns the Python form and the GraphQL form."""
    return make(0), make(1)


def _fits(codec: Codec[Any], value: Any) -> bool:
    try:
        return bool(codec.check(value) == value)
    except InvalidValue:
        return False


async def _check_lists(data: st.DataObject, db: Database, drawn: DrawnCatalog, some: list[Record]) -> None:
    await put_records(db, drawn, some)
    names, entity = schema_of(db.catalog).graph.names, db.catalog.entity(drawn.thing)
    groups = indexes_by_hash(entity)
    number = data.draw(st.integers(0, len(groups) - 1), label="list")
    group = groups[number]
    orders = available_orders(group)
    order = data.draw(st.sampled_from([*orders]), label="order")
    index, reverse = orders[order]
    exact: dict[str, Any] = {
        part.name: data.draw(st.sampled_from(["g", "h|", "o", "o1"]), label=part.name) for part in group[0].hash
    }
    limit = data.draw(st.sampled_from([1, 3, 500]), label="limit")
    token, further = None, True
    while further:
        page = await db.search(
            IndexRef(drawn.thing, index.attribute), **exact, reverse=reverse, limit=limit, next_token=token
        )
        given: dict[str, Any] = {names.naming.property_argument(name): value for name, value in exact.items()}
        given |= {"orderBy": EnumName(order), "limit": limit} | ({"nextToken": token} if token else {})
        field = names.list_field(entity, group[0].hash, first=number == 0)
        found = (await execute(db, document_with_literals(field, given, "{ items { key } nextToken }")))["answer"]
        assert [item["key"] for item in found["items"]] == [item.key for item in page.items]
        assert found["nextToken"] == page.next_token
        token, further = page.next_token, page.next_token is not None
