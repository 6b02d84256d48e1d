"""Projections: their declaration, what they return for events, and the helper for unit tests."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from graphql_api import Catalog, Delete, Entity, Event, Graph, Id, Set, Update, group, owner, projection
from graphql_api.errors import InvalidCatalog, InvalidEvent, ShardQLError
from graphql_api.projections import parse_envelope, project_events, read_envelope
from tests.projections.account_projections import (
    CATALOG,
    Account,
    Branch,
    Closed,
    Copied,
    Moved,
    Opened,
    Statement,
    accounts,
    statements,
)


def envelope(type: str, data: dict[str, Any], seq: int = 1, stream: str = "a") -> dict[str, Any]:
    """An event as its source delivers it."""
    return {"stream": stream, "seq": seq, "type": type, "data": data}


def test_a_projection_is_called_like_its_function() -> None:
    """Calling a projection returns the operations of an event, which are equal if their arguments are."""
    assert accounts(Opened(account_id="a", owner="ann", at="1")) == [Set(Account(account_id="a", owner="ann"))]
    assert accounts(Moved(account_id="a", balance=3, at="1")) == [Update(Account, "a", balance=3)]
    assert accounts(Closed(account_id="a")) == [Delete(Account, "a")]
    assert accounts(Closed(account_id="a")) != [Delete(Account, "b")]


def test_operations_are_readable() -> None:
    """The text of an operation is the call that makes it."""
    assert repr(Update(Account, "a", balance=3)) == "Update(Account, 'a', balance=3)"
    assert (
        repr(Delete(Statement, "a", at="1", expected_version=2)) == "Delete(Statement, 'a', expected_version=2, at='1')"
    )
    assert repr(Set(Branch(branch_id="b"))) == "Set(Branch(branch_id='b'))"


def test_events_have_camel_case_names_in_json() -> None:
    """An event is read by its names in JSON or in Python, and its number is passed to the function that names it."""
    for names in ({"accountId": "a"}, {"account_id": "a"}):
        (operation,) = accounts.operations(parse_envelope(envelope("Moved", {"balance": 2, "at": "1", **names})))
        assert operation == Update(Account, "a", balance=2)
    with pytest.raises(InvalidEvent, match="ValueError: event 7 has an unlucky balance"):
        accounts.operations(parse_envelope(envelope("Moved", {"accountId": "a", "balance": 13, "at": "1"}, seq=7)))


def test_other_events_of_a_source_have_no_operations() -> None:
    """A projection ignores the types of events that it does not name."""
    assert statements.operations(parse_envelope(envelope("Closed", {"accountId": "a"}))) == []


def test_an_event_that_does_not_fit_its_model_is_invalid() -> None:
    """The error names the type and the first problem."""
    with pytest.raises(InvalidEvent, match=r"Moved does not fit its model: balance: Field required, and 1 more\."):
        accounts.operations(parse_envelope(envelope("Moved", {"accountId": "a"})))


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (None, "returned NoneType: return a list of operations"),
        ([3], "returned int in its list"),
        ([Delete(Branch, "b")], "returned an operation on Branch: it may only write Account"),
    ],
)
def test_a_function_that_returns_something_else_is_refused(returned: Any, problem: str) -> None:
    """Whatever is no list of operations on the declared entities is an invalid event."""

    def broken(event: Closed) -> Any:
        return returned

    with pytest.raises(InvalidEvent, match=problem):
        projection(Account, source="bank")(broken).operations(parse_envelope(envelope("Closed", {"accountId": "a"})))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "Input should be a valid dictionary"),
        ({"type": "Closed"}, "seq: Field required"),
        ({"seq": True, "type": "Closed"}, "seq: Input should be a valid integer"),
        ({"seq": -1, "type": "Closed"}, "seq: Input should be greater than or equal to 0"),
        ({"seq": 2**63, "type": "Closed"}, "seq: Input should be less than"),
        ({"seq": 1, "type": ""}, "type: String should have at least 1 character"),
        ({"seq": 1, "type": "Closed", "data": []}, "data: Input should be a valid dictionary"),
        ({"seq": 1, "type": "Closed", "stream": "x" * 513}, "more than 512 bytes"),
        ({"seq": 1, "type": "Closed", "stream": "\0" * 300}, "more than 512 bytes"),
        ({"seq": 1, "type": "Closed", "data": {"x": "y" * 300_000}}, "at most 262,144 are accepted"),
    ],
)
def test_an_invalid_envelope_is_refused(value: Any, problem: str) -> None:
    """An envelope has a number, a type and an object of data."""
    with pytest.raises(InvalidEvent, match=problem):
        parse_envelope(value)


def test_envelopes_keep_every_digit() -> None:
    """The text of an envelope has the digits of its source."""
    text = b'{"seq":1,"type":"Priced","data":{"price":0.12345678901234567890123}}'
    assert read_envelope(text).text == text
    with pytest.raises(InvalidEvent, match="is not JSON"):
        read_envelope(b"{")


# --- declarations ----------------------------------------------------------------------------------------------


class NoType(BaseModel):
    text: str


def declared(function: Any, *models: Any, **options: Any) -> str:
    """The message that refuses a declaration."""
    with pytest.raises(InvalidCatalog) as caught:
        projection(*models, **{"source": "bank", **options})(function)
    return caught.value.message


def test_a_wrong_declaration_is_refused_with_all_problems() -> None:
    """Each problem of a declaration is reported with its remedy."""

    async def slow(event: NoType, order: int) -> None: ...

    message = declared(slow, source="the bank", first_seq=-1, on_dead_letter="wait")
    for problem in (
        "has the source 'the bank'",
        "writes no entity",
        "on_dead_letter='wait'",
        "first_seq=-1",
        "is asynchronous",
        "has the parameter order",
        'Declare a pydantic model with type: Literal["NoType"] = "NoType"',
    ):
        assert problem in message


def test_two_models_of_one_type_are_refused() -> None:
    """The type of an event decides its model."""

    class Shut(Event):
        type: Literal["Closed"] = "Closed"

    def both(event: Any) -> None: ...

    both.__annotations__["event"] = Closed | Shut
    assert "takes two models of the type Closed" in declared(both, Account)

    def nothing() -> None: ...

    assert "takes no event" in declared(nothing, Account)
    assert "Write def orders(event: OrderPlaced" in declared(lambda event: [], Account, name="untyped")


def test_a_graph_knows_its_sources() -> None:
    """A graph groups projections by source, and refuses those that do not fit its catalog."""
    graph = Graph(CATALOG, projections=[accounts, statements], event_rules={"bank": group("Feed")})
    assert graph.sources["bank"].projections == (accounts, statements)
    assert graph.sources["bank"].allow == (group("Feed"),)

    class Other(Entity):
        other_id: Id[str]

    rules: Any = {"shop": [], "bank": [owner("x"), "y"]}
    with pytest.raises(InvalidCatalog) as caught:
        Graph(Catalog(Other), projections=[accounts, accounts], event_rules=rules)
    for problem in (
        "projection accounts: writes Account, which the catalog does not declare",
        "projection accounts: has the name of another projection",
        "event_rules['shop']: is the source of no projection",
        "event_rules['bank']: holds 'y', which is no rule",
        "event_rules['bank']: depends on the owner of a record",
    ):
        assert problem in caught.value.message


# --- the helper for unit tests ---------------------------------------------------------------------------------


async def test_the_helper_returns_operations_records_and_dead_letters() -> None:
    """Given events, a unit test compares operations, records, and the events that were not applied."""
    projected = await project_events(
        CATALOG,
        accounts,
        [
            ("a", Opened(account_id="a", owner="ann", at="1")),
            ("b", Moved(account_id="b", balance=1, at="1")),
            ("a", Moved(account_id="a", balance=5, at="2")),
            {"stream": "a", "seq": 3, "type": "Ignored"},
        ],
    )
    assert projected.operations[2] == [Update(Account, "a", balance=5)]
    assert projected.records == [Account(account_id="a", owner="ann", balance=5, version=2)]
    assert projected.dead_letters == {
        ("b", 1): "operations[0]: Account b does not exist: create it by put, or check its id."
    }


async def test_the_helper_refuses_a_gap() -> None:
    """A unit test that leaves out an event fails, and does not pass with fewer records."""
    with pytest.raises(InvalidEvent, match="The event 1 of the stream 'a' is missing"):
        await project_events(CATALOG, accounts, [envelope("Closed", {"accountId": "a"}, seq=2)])


async def test_an_update_keeps_what_an_event_does_not_carry() -> None:
    """An update of a missing entry copies the entry before it, and the current record follows the latest entry."""
    projected = await project_events(
        CATALOG,
        statements,
        [
            Opened(account_id="a", owner="ann", at="2024-01-01"),
            Moved(account_id="a", balance=5, at="2024-03-01"),
            Moved(account_id="a", balance=4, at="2024-02-01"),
        ],
    )
    assert [(one.at, one.owner, one.balance) for one in projected.records_of(Statement)] == [
        ("2024-01-01", "ann", 0),
        ("2024-02-01", "ann", 4),
        ("2024-03-01", "ann", 5),
        ("~current", "ann", 5),
    ]


async def test_an_update_without_an_entry_before_it_is_a_dead_letter() -> None:
    """An entry after it is not copied, because its values are later."""
    projected = await project_events(
        CATALOG,
        statements,
        [Opened(account_id="a", owner="ann", at="2"), Moved(account_id="a", balance=5, at="1")],
    )
    assert "has no entry before it" in projected.dead_letters["", 2]
    assert [one.at for one in projected.records_of(Statement)] == ["2", "~current"]


async def test_an_event_of_more_than_a_hundred_items_is_a_dead_letter() -> None:
    """An event is one transaction, with the position of its stream; what does not fit is not applied in part."""
    projected = await project_events(
        CATALOG, accounts, [Copied(account_id="a", copies=99), Copied(account_id="b", copies=100)]
    )
    assert len(projected.records) == 99
    assert "need 101 items" in projected.dead_letters["", 2]


def test_errors_of_projections_are_errors_of_shardql() -> None:
    """One base class catches them all."""
    assert issubclass(InvalidEvent, ShardQLError)
