"""Deletions of entries keep the current record correct."""

from pathlib import Path

import pytest

from graphql_api import Catalog, Entity, ForeignKey, Id, SubId, Unique, open_catalog
from graphql_api.errors import ForeignKeyBroken, InvalidRecord, MissingArgument, NotUnique
from tests.writes.histories.order_history import CURRENT, CallRecordingStore, Entry, Order, Shop, order


async def test_deleting_the_last_entry(shop: Shop) -> None:
    """Deleting the last entry makes the previous one current. Deleting the only entry deletes the current record."""
    await shop.db.put_many([order("o", f"v{at}", total=at) for at in (1, 2, 3)])
    for left in (["v1", "v2"], ["v1"]):
        await shop.db.delete(Order, "o", version=f"v{len(left) + 1}")
        assert await shop.histories() == {"o": left}
        assert (await shop.state("o"))["total"] == len(left)
    await shop.db.delete(Order, "o", version="v1")
    assert await shop.items() == []
    assert await shop.db.get(Order, "o") is None


async def test_deleting_an_older_entry(shop: Shop) -> None:
    """Deleting an older entry does not change the current record."""
    await shop.db.put_many([order("o", f"v{at}", total=at) for at in (1, 2, 3)])
    await shop.db.delete(Order, "o", version="v2")
    assert await shop.histories() == {"o": ["v1", "v3"]}
    assert (await shop.state("o"))["total"] == 3


async def test_the_current_record_cannot_be_deleted(shop: Shop) -> None:
    """Deleting the current record itself is refused, and so is a deletion without sub id."""
    await shop.db.put(order("o", "v1"))
    with pytest.raises(InvalidRecord, match="follows the entries"):
        await shop.db.delete(Order, "o", version=CURRENT)
    with pytest.raises(MissingArgument, match="provide version too"):
        await shop.db.delete(Order, "o")
    assert await shop.histories() == {"o": ["v1"]}


async def test_deleting_a_missing_entry(shop: Shop) -> None:
    """Deleting a missing entry writes nothing."""
    await shop.db.put(order("o", "v1"))
    store = CallRecordingStore(shop.store)
    for order_id, version in (("o", "v2"), ("p", "v1")):
        await shop.through(store).delete(Order, order_id, version=version)
    assert "write_together" not in store.calls
    assert await shop.histories() == {"o": ["v1"]}


async def test_an_expired_previous_entry(shop: Shop) -> None:
    """An expired entry does not become current again."""
    await shop.db.put_many([order("o", "v1"), order("o", "v2", expires=50), order("o", "v3")])
    await shop.db.delete(Order, "o", version="v3")
    assert (await shop.state("o"))["status"] == "new"
    (current,) = [item for item in await shop.items() if item["version"] == CURRENT]
    assert current["_of"] == "v1"


async def test_a_history_without_current_records(shop: Shop) -> None:
    """In a history without current records a deletion removes only the entry."""
    await shop.db.put(Entry(order_id="o", part=1, at="a", line=1))
    await shop.db.delete(Entry, "o/1", at="a", line=1)
    assert await shop.items() == []


class Team(Entity):
    """A team."""

    team_id: Id[str]


class Member(Entity, current="~current"):
    """The states of a member, with a badge that no other member has now."""

    member_id: Id[str]
    at: SubId[str]
    badge: Unique[str | None] = None
    team_id: str | None = None

    of_team = ForeignKey("Team", by="team_id")


async def test_an_entry_that_can_not_become_current(tmp_path: Path) -> None:
    """An entry is not deleted if the entry before it has values that are taken, or references a missing record."""
    async with open_catalog(Catalog(Team, Member), f"sqlite:///{tmp_path}/x.db") as db:
        await db.put(Team(team_id="red"))
        await db.put(Member(member_id="ann", at="1", badge="b1"))
        await db.put(Member(member_id="ann", at="2", badge="b2", team_id="red"))
        await db.put(Member(member_id="ann", at="3", badge="b3"))
        await db.put(Member(member_id="bob", at="1", badge="b2"))
        with pytest.raises(NotUnique) as taken:
            await db.delete(Member, "ann", at="3")
        assert taken.value.message == (
            "Deleting Member ann/3 would make the entry before it current. Member.badge: another Member already has "
            "'b2'. Choose another value, or change that record. Or delete earlier entries first."
        )
        await db.update(Member, "bob", at="1", badge="b4")
        await db.delete(Team, "red")
        with pytest.raises(ForeignKeyBroken, match=r"Deleting Member ann/3 would make .* Team red, which does not"):
            await db.delete(Member, "ann", at="3")
        current = await db.get(Member, "ann")
        assert current is not None
        assert current.badge == "b3"
        await db.delete(Member, "ann", at="2")
        await db.delete(Member, "ann", at="3")
        current = await db.get(Member, "ann")
        assert current is not None
        assert current.badge == "b1"
