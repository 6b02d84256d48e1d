"""One record by a unique value in GraphQL: exactly one key, the rules of the record and of the property."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import pytest

from graphql_api import Catalog, Entity, Hidden, Id, Shards, SubId, Unique, UniqueTogether, allow, group, owner
from graphql_api.errors import InvalidCatalog
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from tests.schema.graphql_client import GraphQLClient, open_client


class Guest(Entity, shards=Shards(150), allow=[group("Admin"), owner("user")]):
    """Each caller may read the own guest, and only admins the badge of any."""

    guest_id: Id[str]
    user: str
    email: Unique[str]
    badge: Annotated[Unique[int], allow(group("Admin"))]
    phone: Annotated[Unique[str], allow(owner("user"))]
    code: Hidden[Unique[str | None]] = None


class Seat(Entity):
    """A seat, by its room and number."""

    seat_id: Id[str]
    room: str
    number: int
    place = UniqueTogether("room", "number")


class Visit(Entity, current="latest"):
    """A history with a unique label."""

    visit_id: Id[str]
    at: SubId[str]
    label: Unique[str]


RECORDS = (
    Guest(guest_id="g1", user="ann", email="ann@x", badge=1, phone="11", code="c1"),
    Guest(guest_id="g2", user="bob", email="bob@x", badge=2, phone="22", code="c2"),
    Seat(seat_id="s1", room="Rom", number=4),
    Visit(visit_id="v1", at="1", label="first"),
)
ANN = Caller("c-1", subject="ann")
ADMIN = Caller("c-1", subject="root", groups=frozenset({"Admin"}))


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """A client with the records and zero call counts."""
    async with open_client(Catalog(Guest, Seat, Visit), tmp_path, *RECORDS) as client:
        client.reset_counts()
        yield client


async def test_each_key_names_the_record(client: GraphQLClient) -> None:
    """A unique value, values that are unique together, and the id return the same record, by two reads or one."""
    query = "{ a: seat(placeholder) { seatId } }".replace("placeholder", 'roomNumber: {room: "Rom", number: "4"}')
    assert await client.data(query) == {"a": {"seatId": "s1"}}
    assert client.counts.gets == 2
    data = await client.data('{ guest(email: "bob@x") { guestId badge } }', caller=ADMIN)
    assert data == {"guest": {"guestId": "g2", "badge": "2"}}
    assert (client.counts.gets, client.counts.rounds) == (4, 0)
    assert await client.data('{ visit(label: "first") { visitId at } }') == {"visit": {"visitId": "v1", "at": "latest"}}
    assert await client.data('{ seat(roomNumber: {room: "Rom", number: 5}) { seatId } }') == {"seat": None}


async def test_equal_fields_share_their_reads(client: GraphQLClient) -> None:
    """Two fields of one operation with the same value cost two reads together."""
    await client.data('{ a: guest(email: "bob@x") { guestId } b: guest(email: "bob@x") { user } }', caller=ADMIN)
    assert client.counts.gets == 2


@pytest.mark.parametrize(
    ("field", "code", "text"),
    [
        ("guest { guestId }", "MISSING_ARGUMENT", "provide id or email or badge or phone"),
        ('guest(id: "g1", email: "ann@x") { guestId }', "CONFLICTING_ARGUMENTS", "omit email"),
        ('guest(email: "ann@x", badge: 1) { guestId }', "CONFLICTING_ARGUMENTS", "omit badge"),
        ('visit(label: "first", at: "1") { visitId }', "CONFLICTING_ARGUMENTS", "omit at"),
        ('seat(roomNumber: {room: "Rom"}) { seatId }', "GRAPHQL_VALIDATION_FAILED", "number"),
        ('guest(code: "c1") { guestId }', "GRAPHQL_VALIDATION_FAILED", "code"),
    ],
)
async def test_exactly_one_key_is_required(client: GraphQLClient, field: str, code: str, text: str) -> None:
    """No key, two keys, half a key and a hidden one are refused before anything is read."""
    error = await client.error(f"{{ {field} }}", caller=ADMIN)
    assert error["extensions"]["code"] == code
    assert text in error["message"]
    assert client.counts.gets == 0


@pytest.mark.parametrize("email", ["bob@x", "nobody@x"])
async def test_records_of_others_and_missing_records_are_refused_alike(client: GraphQLClient, email: str) -> None:
    """A caller learns nothing about values of records that the caller may not read."""
    error = await client.error(f'{{ guest(email: "{email}") {{ guestId }} }}', caller=ANN)
    assert error["extensions"]["code"] == "FORBIDDEN"
    assert error["message"] == (await _refusal(client, 'guest(email: "other@x") { guestId }'))["message"]


async def test_owners_find_their_own_records(client: GraphQLClient) -> None:
    """The owner may use a key that only owners may read."""
    assert await client.data('{ guest(email: "ann@x") { guestId } }', caller=ANN) == {"guest": {"guestId": "g1"}}
    assert await client.data('{ guest(phone: "11") { guestId } }', caller=ANN) == {"guest": {"guestId": "g1"}}


async def test_the_rules_of_a_property_apply_to_reads_by_its_value(client: GraphQLClient) -> None:
    """A key that the caller may never read is refused without a read; another owner's value as one that is free."""
    error = await _refusal(client, "guest(badge: 1) { guestId }")
    assert "Guest.badge" in error["message"]
    assert client.counts.gets == 0
    taken, free = [await _refusal(client, f'guest(phone: "{phone}") {{ guestId }}') for phone in ("22", "33")]
    assert taken == free
    error = await client.error('{ guest(phone: "22") { guestId } }', caller=ADMIN)
    assert "Guest.phone" in error["message"]


async def _refusal(client: GraphQLClient, field: str) -> Any:
    error = await client.error(f"{{ {field} }}", caller=ANN)
    assert error["extensions"]["code"] == "FORBIDDEN"
    return error


async def test_explain_shows_the_unique_item_and_both_reads(client: GraphQLClient) -> None:
    """The explain output names the unique item, the reason, the estimate and what was read."""
    caller = Caller("c-1", explain=True)
    response = await client.execute('{ seat(roomNumber: {room: "Rom", number: 4}) { seatId } }', caller=caller)
    (explained,) = response.body["extensions"]["explain"]
    assert explained["keys"] == [{"hashKey": "seat~unique!|room#Rom|number#09223372036854775812", "rangeKey": "place"}]
    assert explained["why"] == "seat reads one record by a unique value."
    assert explained["read"]["fetched"] == 2
    assert explained["read"]["returned"] == 1


def test_two_keys_with_one_name_are_refused() -> None:
    """Constraints whose arguments would share a name are a violation of the catalog."""

    class Clash(Entity):
        """A property with the name that the values of a constraint have together."""

        clash_id: Id[str]
        room: str
        number: int
        room_number: Unique[str]
        place = UniqueTogether("room", "number")

    with pytest.raises(InvalidCatalog, match="becomes the argument 'roomNumber'"):
        Graph(Catalog(Clash))
