"""The table of filter operators: each entry is complete, and one entry is enough for a new operator.

Laws compare evaluation with a reference: `tests/laws/test_search_filters.py` after the read and in the engines,
`tests/storage/test_filter_evaluation.py` and `tests/store_contract/test_filters.py` in the engines alone.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from graphql_api import Catalog, Entity, Graph, Id, Index, open_catalog
from graphql_api.codecs import Int64, Text
from graphql_api.errors import InvalidValue
from graphql_api.model import camel_case
from graphql_api.query import filter_operators
from graphql_api.query.filter_operators import (
    OPERATORS,
    PLAIN,
    FilterOperator,
    Operand,
    ValueKind,
    kind_of,
    operators_of,
)
from graphql_api.query.filter_parser import parse_filter
from graphql_api.query.predicate_pushdown import store_filter
from graphql_api.schema.execution.document_executor import DocumentExecutor
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.execution.graphql_operation import Operation
from graphql_api.schema.request_context import Caller
from graphql_api.storage import ATTRIBUTE_OPERATIONS, AttributeTest, filter_matches, keep_supported_tests
from graphql_api.storage.engines.dynamodb.filter_expressions import OPERATIONS as DYNAMODB_OPERATIONS
from tests.laws.test_search_filters import OPERATIONS as OPERATIONS_OF_LAWS
from tests.storage.test_dynamodb_filters import TEXTS
from tests.store_contract.filter_samples import OPERATIONS as OPERATIONS_OF_CONTRACT


class Place(BaseModel):
    """A nested value."""

    town: str


class Sample(Entity):
    """A record with a property of each kind."""

    key: Id[str]
    text: str | None = None
    flag: bool | None = None
    number: int | None = None
    tags: list[str] | None = None
    place: Place | None = None

    by_text = Index(sort="text", projection="KEYS_ONLY")


CATALOG = Catalog(Sample)
SPEC = CATALOG.entity("Sample")
PROPERTIES = {
    ValueKind.TEXT: "text",
    ValueKind.BOOLEAN: "flag",
    ValueKind.SCALAR: "number",
    ValueKind.LIST: "tags",
    ValueKind.NESTED: "place",
}
INPUT_TYPES = {
    ValueKind.TEXT: "StringFilter",
    ValueKind.BOOLEAN: "BooleanFilter",
    ValueKind.SCALAR: "BigIntFilter",
    ValueKind.LIST: "StringListFilter",
    ValueKind.NESTED: "ValueFilter",
}
VALUES: dict[ValueKind, Any] = {ValueKind.TEXT: "ab", ValueKind.BOOLEAN: True, ValueKind.SCALAR: 7, ValueKind.LIST: "x"}
STORED: dict[ValueKind, Any] = {**VALUES, ValueKind.LIST: ["x"], ValueKind.NESTED: {"town": "Rom"}}
NEGATIVE = {"ne", "lt", "gt"}
"""operators that do not match the value itself"""

ENTRIES = [(kind, operator) for operator in OPERATORS for kind in ValueKind if kind in operator.applies_to]
each_entry = pytest.mark.parametrize(
    ("kind", "operator"), ENTRIES, ids=[f"{operator.name} on {kind.name}" for kind, operator in ENTRIES]
)

SAME_LENGTH = FilterOperator(
    name="same_length",
    description="Has as many characters as this text.",
    operand=Operand.VALUE,
    applies_to=frozenset({ValueKind.TEXT}),
    matches=lambda value, operands: len(value) == len(operands[0]),
)


def operand_of(operator: FilterOperator, kind: ValueKind) -> Any:
    """An operand of the operator's shape, with the value of the record."""
    value = VALUES.get(kind)
    shapes = {Operand.VALUE: value, Operand.VALUES: [value], Operand.RANGE: [value, value], Operand.BOOLEAN: True}
    return shapes[operator.operand]


# --- entries ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["name", "description", "operand", "applies_to", "matches"])
def test_an_operator_is_complete(part: str) -> None:
    """An operator without one of its parts is refused, with a message that names the part."""
    complete: dict[str, Any] = {
        "name": "like",
        "description": "Like this text.",
        "operand": Operand.VALUE,
        "applies_to": PLAIN,
        "matches": lambda value, operands: value == operands[0],
    }
    FilterOperator(**complete)
    with pytest.raises(TypeError, match=f"'{part}'"):
        FilterOperator(**{name: value for name, value in complete.items() if name != part})
    empty: Any = frozenset() if part == "applies_to" else None if part in ("operand", "matches") else ""
    with pytest.raises(ValueError, match=f"has no {part}"):
        FilterOperator(**{**complete, part: empty})


def test_a_kind_of_values_has_one_operator_of_a_name() -> None:
    """No two operators of one name apply to the same kind of values, and each kind has operators."""
    for kind in ValueKind:
        names = [operator.name for operator in OPERATORS if kind in operator.applies_to]
        assert len(names) == len(set(names)) > 0


def test_every_kind_of_property_is_known() -> None:
    """The kind of a property follows from its codec, or from the codec of its elements."""
    kinds = {kind_of(part.codec, Text() if part.name == "tags" else None) for part in SPEC.properties.values()}
    assert kinds == set(ValueKind)
    assert kind_of(Int64()) is ValueKind.SCALAR


@each_entry
def test_an_operator_is_parsed_and_evaluated(kind: ValueKind, operator: FilterOperator) -> None:
    """Each operator of a kind is accepted from Python, and decides on a value and on a missing value."""
    filter = parse_filter(SPEC, {PROPERTIES[kind]: {operator.name: operand_of(operator, kind)}})
    assert filter is not None
    assert filter.matches(lambda part: STORED[kind]) is (operator.name not in NEGATIVE)
    assert filter.matches(lambda part: None) is (operator.name == "ne")
    assert filter.properties == {PROPERTIES[kind]}


@each_entry
def test_an_operator_is_described(kind: ValueKind, operator: FilterOperator) -> None:
    """Explain output and page tokens name each operator."""
    filter = parse_filter(SPEC, {PROPERTIES[kind]: {operator.name: operand_of(operator, kind)}})
    assert filter is not None
    assert operator.name in filter.describe()
    assert filter.identity()[:2] == (PROPERTIES[kind], operator.name)


@pytest.mark.parametrize("kind", ValueKind)
def test_operators_in_the_schema(kind: ValueKind) -> None:
    """The input type of a kind offers its operators in the order of the table. `Connection` describes each once."""
    types = Graph(CATALOG).schema._schema.type_map
    offered = [operator for operator in OPERATORS if operator.in_schema_for(kind)]
    assert [*types[INPUT_TYPES[kind]].fields] == [camel_case(operator.name) for operator in offered]  # type: ignore[attr-defined]
    for operator in offered:
        text = f"- `{camel_case(operator.name)}`: {operator.description}\n"
        assert f"{types['Connection'].description}\n".count(text) == 1


@pytest.mark.parametrize("kind", ValueKind)
def test_operators_of_other_kinds(kind: ValueKind) -> None:
    """An operator that does not apply to a property is refused; the message names what does."""
    for name in operators_of().keys() - operators_of(kind):
        with pytest.raises(InvalidValue, match="applies"):
            parse_filter(SPEC, {PROPERTIES[kind]: {name: "x"}})


def test_operators_in_the_documentation() -> None:
    """The reference of GraphQL documents each operator in its table of comparisons."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "graphql.md").read_text(encoding="utf-8")
    rows = page.partition("| Comparison |")[2].partition("\n\n")[0].splitlines()[2:]
    documented = {name for row in rows for name in re.findall(r"`(\w+)", row.split("|")[1])}
    assert documented == {camel_case(name) for name in operators_of()}


# --- engines ---------------------------------------------------------------------------------------------------


def test_laws_cover_every_operator() -> None:
    """The laws of searches draw every operator, and the contract of engines every operation of the port."""
    assert {*OPERATIONS_OF_LAWS} == operators_of().keys()
    assert {*OPERATIONS_OF_CONTRACT} == ATTRIBUTE_OPERATIONS.keys()


def test_operations_of_engines_are_defined_by_the_port() -> None:
    """An engine evaluates only operations that the port defines, and tests compare each of its expressions."""
    tested = {filter.operation for filter, _ in TEXTS.values() if isinstance(filter, AttributeTest)}
    assert DYNAMODB_OPERATIONS.keys() == tested
    assert DYNAMODB_OPERATIONS.keys() <= ATTRIBUTE_OPERATIONS.keys()


@each_entry
def test_pushed_operators_agree_with_the_port(kind: ValueKind, operator: FilterOperator) -> None:
    """An operator is sent to engines only if the port defines it, and the port then gives the same result."""
    filter = parse_filter(SPEC, {PROPERTIES[kind]: {operator.name: operand_of(operator, kind)}})
    assert filter is not None
    pushed = store_filter(SPEC, [filter])
    assert pushed is None or operator.name in ATTRIBUTE_OPERATIONS
    if pushed is not None:
        item = {PROPERTIES[kind]: STORED[kind]}
        assert filter_matches(pushed, item) is filter.matches(lambda part: STORED[kind])


@pytest.mark.parametrize("operation", [*ATTRIBUTE_OPERATIONS, "same_length"])
def test_engines_receive_only_their_own_operations(operation: str) -> None:
    """A test with an operation that an engine does not declare is dropped before the engine evaluates it."""
    test = AttributeTest("text", operation, ("x",), or_missing=False)
    others = ATTRIBUTE_OPERATIONS.keys() - {operation}
    assert keep_supported_tests(test, others, lambda test: True) is None
    assert keep_supported_tests(test, {operation}, lambda test: True) == test


# --- a new operator --------------------------------------------------------------------------------------------


async def test_one_entry_is_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A new operator of texts works in searches, explain output and the schema, evaluated after the read."""
    monkeypatch.setattr(filter_operators, "OPERATORS", (*OPERATORS, SAME_LENGTH))
    async with open_catalog(CATALOG, f"sqlite:///{tmp_path}/samples.db") as db:
        for key, text in (("a", "Ann"), ("b", "Bo"), ("c", None), ("d", "Jan")):
            await db.put(Sample(key=key, text=text))
        for filter, keys in (
            ({"text": {"same_length": "xyz"}}, "ad"),
            ({"text": {"same_length": ""}}, ""),
            ({"text": {"same_length": "xyz", "prefix": "J"}}, "d"),
            ({"not": {"text": {"same_length": "xyz"}}}, "bc"),
        ):
            page = await db.search(Sample.by_id, filter=filter)
            assert sorted(record.key for record in page.items) == [*keys], filter
        page = await db.search(Sample.by_text, filter={"text": {"same_length": "xyz"}})
        assert [record.key for record in page.items] == ["a", "d"]
        assert page.explain["filter"]["conditions"] == "text same_length 'xyz'"
        with pytest.raises(InvalidValue, match="same_length applies only to texts"):
            await db.search(Sample.by_id, filter={"number": {"same_length": 1}})
        graph = Graph(CATALOG)
        query = '{ sampleByText(filter: {text: {sameLength: "xyz"}}) { items { key } } }'
        result = await DocumentExecutor(graph.schema, Limits()).run(Operation(query), db, Caller("1"))
        assert result.body["data"] == {"sampleByText": {"items": [{"key": "a"}, {"key": "d"}]}}
    description = graph.schema._schema.type_map["Connection"].description
    assert "- `sameLength`: Has as many characters as this text." in str(description).splitlines()
