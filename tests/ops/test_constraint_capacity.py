"""Sizes of constraint items and costs of transactions: expected values, and the counts of DynamoDB Local."""

from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import pytest

from graphql_api import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    Id,
    Immutable,
    Index,
    Int32,
    Shards,
    SubId,
    Timestamp,
    Ttl,
    Unique,
    UniqueTogether,
    counter,
)
from graphql_api.database import Database
from graphql_api.ops.item_capacity import ConstraintItemCapacity, TransactionUnits
from graphql_api.ops.record_capacity import EntityCapacity, entity_capacity
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.dynamodb import DynamoStore
from graphql_api.writes.commands import Command, Create, Remove, Update
from tests.support.dynamodb_servers import Server

WRITE = 2 + 16
"""the size of the write id `_w`"""


class Town(Entity):
    """The entity that `Person` references."""

    town_id: Id[str]
    text: str = ""


class Person(Entity):
    """An entity with a constraint of every kind."""

    person_id: Id[str]
    mail: Unique[str]
    town_id: str
    num: Int32 = counter("town_id")
    code: Immutable[str] = "-"

    by_town = Index(hash="town_id", sort="num")
    by_mail = Index(hash="mail", projection="KEYS_ONLY")
    unique_num = UniqueTogether("town_id", "num")
    unique_code = UniqueTogether("code", "person_id")
    in_town = ForeignKey("Town", by="town_id")


class Order(Entity, shards=Shards(1).then(4, since=1_000), current="~current"):
    """A history with current records, over two shard generations."""

    order_id: Id[str]
    step: SubId[str]
    created: Created[Timestamp]
    card: Unique[str | None] = None
    text: str = ""

    by_card = Index(hash="card", sort="step")


class Ticket(Entity):
    """An entity with a time to live."""

    ticket_id: Id[str]
    door: Unique[str]
    until: Ttl[Timestamp]


class Plain(Entity):
    """An entity without constraints."""

    plain_id: Id[str]
    text: str = ""


CATALOG = Catalog(Town, Person, Order, Ticket, Plain)
ANN = Person(person_id="p1", mail="a@b.c", town_id="ulm", num=7, code="x")


def measured(kind: type[Entity], *records: Entity, **more: Any) -> EntityCapacity:
    """The capacity report for these records."""
    return entity_capacity(CATALOG, CATALOG.entity(kind), records, "a test", **more)


def constraint_items(found: EntityCapacity) -> dict[tuple[str, str], ConstraintItemCapacity]:
    """The constraint items of a report, by kind and name."""
    return {(one.kind, one.name): one for one in found.constraint_items}


# --- expected values ---------------------------------------------------------------------------------------------


def test_constraint_item_sizes() -> None:
    """Each constraint and counter has its own item, whose size is its keys plus the keys of its owner."""
    found = constraint_items(measured(Person, ANN))
    owner = 6 + 3 + (1 + len("person!")) + (1 + len("personId#p1"))
    keys = 7 + 8
    unique = len("person~unique!|")
    assert {key: one.bytes for key, one in found.items()} == {
        ("unique value", "mail"): keys + unique + len("mail#a@b.c") + len("mail") + owner + WRITE,
        ("unique value", "unique_num"): keys + unique + 10 + 1 + (4 + 20) + len("uniqueNum") + owner + WRITE,
        ("unique value", "unique_code"): keys + unique + 6 + 1 + 11 + len("uniqueCode") + owner + WRITE,
        ("foreign key", "inTown"): keys + len("town~refs!|townId#ulm") + len("person.inTown") + 2 + 11 + owner + WRITE,
        ("counter", "num"): keys + len("person~counter!|townId#ulm") + len("counter#num") + (5 + 2) + WRITE,
        ("kept answer", ""): keys + len("shardql~once!0") + (8 + 64) + (8 + 32) + 7 + 3 + 43 + 2 * 6 + 5 + 6 + WRITE,
    }
    assert {name: one.write_units for (kind, name), one in found.items() if kind == "counter"} == {"num": 1}
    assert all(one.write_units == 2 for (kind, _), one in found.items() if kind != "counter")
    assert [one.share for one in found.values()] == [1, 1, 1, 1, 1, None]


def test_transaction_units() -> None:
    """A transaction costs twice its parts: record, index entries, constraint items, and parent checks."""
    # A record, an entry with all attributes, one with keys only; three unique items, a reference item, a parent check.
    create, update = 2 * ((1 + 1 + 1) + 3 + (1 + 1)), 2 * (1 + 1)
    # Both entries move, and so do two of the unique items; the reference item moves too.
    move, remove = 2 * ((1 + 2 * 2) + 2 * 2 + (2 + 1)), 2 * ((1 + 1 + 1) + 3 + 1)
    counter = 1  # The counter is not part of the transaction. A move to another group may count too.
    create, move = create + counter, move + counter
    assert measured(Person, ANN).transaction == TransactionUnits(create, update, move, remove, key=2)
    large = measured(Person, ANN, parent_bytes={"town": 3_000.0}).transaction
    assert (large.create, large.move) == (create + 2 * 2, move + 2 * 2)
    assert measured(Town, Town(town_id="ulm")).transaction == TransactionUnits(2, 2, 2, 2 + 2, key=2)
    assert measured(Plain, Plain(plain_id="p", text="x" * 1_500)).transaction == TransactionUnits(4, 4, 4, 4, key=4)


def test_current_records() -> None:
    """A history has one current record for each id, with its own index entries. Creates check the other generations."""
    first, second = (Order(order_id="o", step=step, created=2_000, card="c") for step in "12")
    one, two = measured(Order, first), measured(Order, first, second)
    entry, current, value, look = 1 + 1, 1 + 1, 1, 1
    assert one.transaction == TransactionUnits(
        create=2 * (entry + current + value + look),
        update=2 * (entry + current),
        move=2 * ((1 + 2) + (1 + 2) + 2 * value),
        remove=2 * (entry + current + value + look),
        key=2,
    )
    found = constraint_items(two)["current record", "~current"]
    assert found.share == constraint_items(two)["unique value", "card"].share == 0.5
    # Sizes differ by the sub id in property, range key and index key, and by the name of the equal entry.
    longer = 3 * (len("~current") - len("1")) + len("_of") + len("2")
    assert found.bytes == two.bytes + longer
    (index,) = two.indexes
    assert found.stored_bytes == found.bytes + 100 + (index.bytes + longer) + 100
    value_bytes = constraint_items(two)["unique value", "card"].bytes
    assert two.storage.all_bytes == pytest.approx(
        two.bytes + 100 + index.bytes + 100 + (found.stored_bytes + value_bytes + 100) / 2
    )
    planned = measured(Order, first, second, records=80_000_000, design_bytes=500)
    # 120 million records with their current records, 20 million in each shard.
    assert planned.shards_needed == 6


def test_constraint_items_of_expiring_records() -> None:
    """A constraint item of a record with a time to live is rewritten with each write. Missing values cost nothing."""
    door = Ticket(ticket_id="p", door="d", until=2_000_000_000)
    assert measured(Ticket, door).transaction == TransactionUnits(4, 4, 6, 4, key=2)
    bare = measured(Order, Order(order_id="o", step="1", created=2_000))
    assert ("unique value", "card") not in constraint_items(bare)
    assert bare.transaction.create == 2 * (1 + 1 + 1)


def test_plain_writes() -> None:
    """Only records without constraints are written outside of transactions."""
    samples = (Town(town_id="t"), ANN, Order(order_id="o", step="1", created=1), Plain(plain_id="p"))
    found = [measured(type(one), one).is_put_plainly for one in samples]
    assert found == [True, False, False, True]


# --- counts of the engine ----------------------------------------------------------------------------------------


@pytest.fixture
async def counted(dynamodb: Server) -> AsyncIterator[tuple[Database, Callable[[], float]]]:
    """A database on DynamoDB Local, and a function that returns the capacity consumed since its last call."""
    store = await dynamodb.open(f"t-{uuid4().hex}")
    await store.ensure_table(CATALOG.table_definition())
    consumed: list[float] = []
    record_consumption(store, consumed)

    def consumed_since() -> float:
        total = sum(consumed)
        consumed.clear()
        return total

    yield Database(CATALOG, store, TokenSeal([b"a secret of thirty-two bytes only"])), consumed_since
    await store.close()


def record_consumption(store: DynamoStore, consumed: list[float]) -> None:
    """Records the consumed capacity of each transaction and each single put.

    The parts of a transaction are sent separately, because DynamoDB Local counts parts of equal cost only once.
    """
    transport = store._api._transport
    send = transport.send

    async def recorded(operation: str, request: dict[str, Any]) -> Any:
        answer: Any = None
        if operation != "TransactWriteItems":
            answer = await send(operation, request)
            if operation == "PutItem":
                consumed.append(answer["ConsumedCapacity"]["CapacityUnits"])
            return answer
        for part in request["TransactItems"]:
            answer = await send(operation, {"TransactItems": [part], "ReturnConsumedCapacity": "TOTAL"})
            consumed.extend(each["CapacityUnits"] for each in answer["ConsumedCapacity"])
        return answer

    transport.send = recorded  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("record", "changed", "moved"),
    [
        (ANN, {"person_id": "p1"}, {"mail": "b@b.c", "town_id": "bonn"}),
        (Town(town_id="rom", text="x" * 1_100), {"text": "y" * 1_100}, None),
        (Order(order_id="o", step="1", created=2_000, card="c"), {"text": ""}, {"card": "d"}),
        (Ticket(ticket_id="p", door="d", until=2_000_000_000), {"until": 2_000_000_000}, {"door": "e"}),
        (Plain(plain_id="p", text="x" * 3_000), {"text": "y" * 3_000}, None),
    ],
)
async def test_predicted_units_match_the_engine(
    counted: tuple[Database, Callable[[], float]], record: Entity, changed: dict[str, Any], moved: dict[str, Any] | None
) -> None:
    """Each write of a record consumes the predicted capacity, with and without an idempotency key."""
    db, consumed_since = counted
    for name in ("ulm", "bonn"):
        await db.create(Town(town_id=name))
    spec = CATALOG.entity(type(record))
    values = {part.name: getattr(record, part.name) for part in spec.properties.values() if part.counter_group is None}
    key = [values[part.name] for part in spec.primary_key]
    predicted = measured(type(record), record).transaction
    consumed_since()
    found = []
    writes: list[Command] = [
        Create(spec, values),
        Update(spec, key, changed),
        *([Update(spec, key, moved)] if moved else []),
    ]
    for command in (*writes, Remove(spec, key)):
        await db.apply(command)
        found.append(consumed_since())
    assert found == [predicted.create, predicted.update, *([predicted.move] if moved else []), predicted.remove]
    await db.apply(Create(spec, values))
    consumed_since()
    await db.apply(Update(spec, key, changed, idempotency_key="k"))
    assert consumed_since() == predicted.update + predicted.key
