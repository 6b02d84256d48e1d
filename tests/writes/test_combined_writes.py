"""All-or-none writes in Python: what operations see of each other, and what a failed write leaves."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from graphql_api import (
    Catalog,
    Create,
    Delete,
    Entity,
    ForeignKey,
    Id,
    Index,
    Int32,
    Put,
    SubId,
    Unique,
    Update,
    Version,
    counter,
    open_catalog,
)
from graphql_api.database import Database
from graphql_api.errors import (
    AlreadyExists,
    Conflict,
    ForeignKeyBroken,
    IdempotencyMismatch,
    InvalidLimit,
    InvalidRecord,
    ItemTooLarge,
    MissingArgument,
    NotUnique,
    OutcomeUnknown,
    RecordNotFound,
    ShardQLError,
    StoreUnavailable,
    TransactionTooLarge,
    VersionConflict,
)
from graphql_api.storage import ForwardingStore, Item, MeteredStore, StoreCall
from graphql_api.writes import DELETE_INTENT, WRITE_ID
from tests.support.store_doubles import all_items


class Team(Entity):
    """A team."""

    team_id: Id[str]
    name: str = "-"


class Member(Entity):
    """A member of a team."""

    member_id: Id[str]
    team_id: str
    email: Unique[str] | None = None
    num: Int32 = counter("team_id")
    version: Version[Int32]

    of_team = ForeignKey("Team", by="team_id")
    by_num = Index(hash="team_id", sort="num", name="memberNum")


class Step(Entity, current="latest"):
    """A history with current records."""

    task: Id[str]
    number: SubId[str]
    text: str = "-"


CATALOG = Catalog(Team, Member, Step)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    """A database with a team that has a member."""
    async with open_catalog(CATALOG, f"sqlite:///{tmp_path / 'table.db'}") as opened:
        await opened.create(Team, team_id="t")
        await opened.create(Member, member_id="m", team_id="t", email="m@x")
        yield opened


async def refused(db: Database, *operations: Any, **options: Any) -> ShardQLError:
    """Return the error of a write, which changes nothing in the table but counters."""
    before = await stored(db)
    with pytest.raises(ShardQLError) as caught:
        await db.write(operations, **options)
    assert await stored(db) == before
    return caught.value


async def stored(db: Database) -> list[Item]:
    """Return all items of records, without what identifies their last write."""
    items = [
        item for item in await all_items(db.store) if not item["hashKey"].startswith(("shardql", "member~counter"))
    ]
    return [{name: value for name, value in item.items() if name != WRITE_ID} for item in items]


async def test_operations_see_those_before_them(db: Database) -> None:
    """A record may reference one that the same write creates, and an update changes it."""
    results = await db.write(
        [
            Create(Team, team_id="new"),
            Create(Member, member_id="a", team_id="new"),
            Put(Member(member_id="b", team_id="new", num=7, version=1)),
            Update(Member, "a", email="a@x"),
            Put(Team(team_id="new", name="renamed")),
        ]
    )
    members = [await db.get(Member, "a"), await db.get(Member, "b")]
    assert [(one.num, one.version, one.email) for one in members if one] == [(1, 2, "a@x"), (7, 1, None)]
    assert await db.get(Team, "new") == results[4]
    assert results[3] == members[0]
    page = await db.search(Member.by_num, team_id="new")
    assert [one.member_id for one in page.items] == ["a", "b"]


async def test_unique_values_are_swapped(db: Database) -> None:
    """A unique value that an earlier operation frees can be used by a later one."""
    await db.create(Member, member_id="n", team_id="t", email="n@x")
    await db.write(
        [Update(Member, "m", email=None), Update(Member, "n", email="m@x"), Update(Member, "m", email="n@x")]
    )
    swapped = [await db.get(Member, id) for id in "mn"]
    assert [one.email for one in swapped if one] == ["n@x", "m@x"]
    assert isinstance(await refused(db, Create(Member, member_id="z", team_id="t", email="m@x")), NotUnique)


async def test_a_parent_is_deleted_after_its_children(db: Database) -> None:
    """A write may delete a record that only records reference which it deletes first."""
    error = await refused(db, Delete(Team, "t"), Delete(Member, "m"))
    assert isinstance(error, ForeignKeyBroken)
    deleted, _ = await db.write([Delete(Member, "m"), Delete(Team, "t")])
    assert isinstance(deleted, Member)
    assert await stored(db) == []


async def test_delete_intents_are_withdrawn(db: Database) -> None:
    """A write that fails after it has begun to delete a record leaves it without a delete intent."""
    await db.create(Team, team_id="empty")
    for later in (Create(Team, team_id="t"), Create(Member, member_id="a", team_id="empty")):
        await refused(db, Delete(Team, "empty"), later)
    assert not [item for item in await all_items(db.store) if DELETE_INTENT in item]
    await db.create(Member, member_id="a", team_id="empty")


async def test_a_record_is_created_and_deleted(db: Database) -> None:
    """A record that a write creates, changes and deletes leaves nothing; its number is skipped."""
    before = await stored(db)
    created, changed, deleted = await db.write(
        [Create(Member, member_id="a", team_id="t", email="e"), Update(Member, "a", email="f"), Delete(Member, "a")]
    )
    assert isinstance(created, Member)
    assert changed == deleted
    assert await stored(db) == before
    assert (await db.create(Member, member_id="a", team_id="t", email="f")).num == created.num + 1


async def test_two_creates_of_one_record(db: Database) -> None:
    """The second of two creates with one id is refused, as if the first were stored."""
    error = await refused(db, Create(Team, team_id="x"), Create(Team, team_id="x"))
    assert isinstance(error, AlreadyExists)
    assert [index for index, _ in error.operations] == [1]


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (Create(Team, team_id="t"), AlreadyExists),
        (Create(Member, member_id="a", team_id="none"), ForeignKeyBroken),
        (Create(Member, member_id="a", team_id="t", email="m@x"), NotUnique),
        (Update(Team, "none", name="x"), RecordNotFound),
        (Update(Member, "m", expected_version=7, email=None), VersionConflict),
        (Put(Member(member_id="m", team_id="t", num=1, version=1), expected_version=3), VersionConflict),
        (Delete(Member, "m", expected_version=9), VersionConflict),
        (Create(Team, team_id=1), InvalidRecord),
        (Update(Team), MissingArgument),
        (Put(Team(team_id="big", name="x" * 500_000)), ItemTooLarge),
    ],
)
async def test_an_error_names_its_operation(db: Database, operation: Any, kind: type[ShardQLError]) -> None:
    """If an operation fails, nothing is written, and the error has the position of the operation and its code."""
    error = await refused(db, Create(Team, team_id="new"), operation, Delete(Member, "m"))
    assert isinstance(error, kind)
    assert error.message.startswith("operations[1]: ")
    ((index, problem),) = error.operations
    assert (index, problem.code) == (1, error.code)
    (listed,) = error.extensions["operations"]
    assert (listed["index"], listed["code"], listed["message"]) == (1, error.code, problem.message)


async def test_invalid_operations_are_listed_together(db: Database) -> None:
    """Operations that cannot be converted are reported at once."""
    error = await refused(db, Update(Team), Create(Team, team_id="a"), Delete(Member))
    assert [index for index, _ in error.operations] == [0, 2]


async def test_limits(db: Database) -> None:
    """A write has 1 to 25 operations, and the items and bytes of one transaction."""
    assert isinstance(await refused(db), InvalidLimit)
    creates = [Create(Team, team_id=f"{number}") for number in range(26)]
    assert isinstance(await refused(db, *creates), InvalidLimit)
    assert len(await db.write(creates[:25])) == 25
    # Each member has an item, a unique item and a reference item, and checks its own team.
    members = [Create(Member, member_id=f"m{number}", team_id=f"{number}", email=f"{number}") for number in range(25)]
    await db.write(members[:24])
    await db.write(members[24:])
    large = [Put(Team(team_id=f"large{number}", name="x" * 390_000)) for number in range(11)]
    error = await refused(db, *large)
    assert isinstance(error, TransactionTooLarge)
    assert error.argument == "operations"


async def test_too_many_items(db: Database) -> None:
    """A write that needs more items than a transaction holds is refused before it is sent."""
    steps = [Create(Member, member_id=f"m{number}", team_id="t", email=f"{number}") for number in range(25)]
    moves = [Update(Member, f"m{number}", email=f"new{number}") for number in range(25)]
    await db.write(steps)
    assert len(await db.write(moves)) == 25
    for number in range(25):
        await db.create(Team, team_id=f"t{number}")
    both = [Update(Member, f"m{number}", team_id=f"t{number}", email=f"newer{number}") for number in range(25)]
    assert isinstance(await refused(db, *both), TransactionTooLarge)


async def test_a_repeated_write_returns_the_first_results(db: Database) -> None:
    """A write with an idempotency key is executed once. Other writes under its key are refused."""
    operations = [Create(Member, member_id="a", team_id="t"), Delete(Member, "m"), Delete(Member, "none")]
    first = await db.write(operations, idempotency_key="k")
    assert await db.write(operations, idempotency_key="k") == first
    assert first[2] is None
    for other in (operations[:2], [*reversed(operations)]):
        assert isinstance(await refused(db, *other, idempotency_key="k"), IdempotencyMismatch)
    with pytest.raises(IdempotencyMismatch):
        await db.create(Member, member_id="a", team_id="t", idempotency_key="k")
    await db.create(Team, team_id="x", idempotency_key="single")
    assert isinstance(await refused(db, Create(Team, team_id="x"), idempotency_key="single"), IdempotencyMismatch)


async def test_entries_of_a_history(db: Database) -> None:
    """Entries of one history in one write leave the current record of the last entry."""
    await db.write(
        [
            Create(Step, task="t", number="2", text="two"),
            Create(Step, task="t", number="1", text="one"),
            Update(Step, "t", number="3", text="three"),
        ]
    )
    assert (await db.get(Step, "t")).text == "three"  # type: ignore[union-attr]
    await db.write([Delete(Step, "t", number="3"), Update(Step, "t", number="2", text="again")])
    assert (await db.get(Step, "t")).text == "again"  # type: ignore[union-attr]
    await db.write([Delete(Step, "t", number="2"), Delete(Step, "t", number="1")])
    assert await db.get(Step, "t") is None


async def test_a_write_is_one_transaction(db: Database) -> None:
    """However many operations a write has, it sends one transaction."""
    calls: list[StoreCall] = []
    counted = Database(db.catalog, MeteredStore(db.store, calls.append), db.seal)
    await counted.write([Create(Team, team_id="a"), Create(Step, task="a", number="1"), Update(Team, "t", name="x")])
    assert [call.name for call in calls if call.name.startswith("write")] == ["write_together"]


class Interfering(ForwardingStore):
    """Changes a record between the reads of a write and its transaction, a number of times."""

    def __init__(self, inner: Database, times: int) -> None:
        super().__init__(inner.store)
        self.db = inner
        self.times = times

    async def write_together(self, writes: Any, token: str) -> None:
        if self.times:
            self.times -= 1
            await self.db.update(Team, "t", name=f"{self.times}")
        await self.inner.write_together(writes, token)


async def test_interference(db: Database) -> None:
    """A write whose records change is repeated, and given up with CONFLICT after many attempts."""
    write = [Update(Team, "t", name="mine"), Create(Team, team_id="new")]
    await Database(db.catalog, Interfering(db, 2), db.seal).write(write)
    assert (await db.get(Team, "t")).name == "mine"  # type: ignore[union-attr]
    with pytest.raises(Conflict):
        await Database(db.catalog, Interfering(db, 1000), db.seal).write([Update(Team, "t"), Delete(Team, "new")])
    assert await db.get(Team, "new") is not None


class Losing(ForwardingStore):
    """Loses the replies of transactions."""

    async def write_together(self, writes: Any, token: str) -> None:
        await self.inner.write_together(writes, token)
        raise StoreUnavailable("lost")


async def test_an_unknown_outcome(db: Database) -> None:
    """If all replies are lost, a write with a key finds its response, and one without has an unknown outcome."""
    losing = Database(db.catalog, Losing(db.store), db.seal)
    write = [Create(Team, team_id="a"), Create(Team, team_id="b")]
    assert await losing.write(write, idempotency_key="k") == [await db.get(Team, "a"), await db.get(Team, "b")]
    with pytest.raises(OutcomeUnknown):
        await losing.write([Create(Team, team_id="c")])
    assert await db.get(Team, "c") is not None
