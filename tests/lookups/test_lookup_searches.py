"""Searches by lookups: what they find, what they read, and what they do while records change."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Lookup, Shards
from graphql_api.connection import Secrets, open_catalog
from graphql_api.database import Database
from graphql_api.errors import ConflictingArguments, InvalidValue, MissingArgument, ShardQLError, TokenMismatch
from graphql_api.storage import Delete, Key, Put
from graphql_api.writes import item_key
from tests.lookups.phone_book import NOW, Call, House, Note, Person, check_mappings, counted, opened
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.support.store_doubles import CountingStore, InterleavingStore, all_items


class Member(Entity, shards=Shards(150)):
    """A member of a club, over 150 shards."""

    member_id: Id[str]
    name: str
    phone: str | None = None

    by_phone = Lookup("phone")


CLUB = Catalog(Member)
SECRETS = Secrets.generate()


@pytest.fixture(params=["sqlite", "dynamodb"])
async def club(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Database, CountingStore]]:
    """A club on each engine, with forty members who have one of two phones, or none."""
    url = f"sqlite:///{tmp_path}/club.db"
    if request.param == "dynamodb":
        server: Server = request.getfixturevalue("dynamodb")
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        url = f"dynamodb://club-{abs(hash(tmp_path))}?endpoint={server.endpoint}&region={REGION}"
    async with open_catalog(CLUB, url, secrets=SECRETS, clock=lambda: NOW, create_table=True) as db:
        people = [Member(member_id=f"m{n:02}", name=f"n{n}", phone=(None, "1", "2")[n % 3]) for n in range(40)]
        assert await db.put_many(people) == [None] * 40
        yield counted(db)


async def test_a_search_reads_the_answer_and_its_mapping(club: tuple[Database, CountingStore]) -> None:
    """At 150 shards a search reads one range of mapping items and their records, by two calls."""
    db, store = club
    page = await db.search(Member.by_phone, phone="1", limit=50)
    assert [member.member_id for member in page.items] == [f"m{n:02}" for n in range(40) if n % 3 == 1]
    answer = len(page.items)
    assert store.counts.hash_keys == ["member~lookup.phone!|phone#1"]
    assert (store.counts.rounds, store.counts.reads) == (1, 1)
    assert (store.counts.records_read, store.counts.gets) == (answer, answer)


async def test_pages_read_one_more_to_know_whether_another_page_follows(club: tuple[Database, CountingStore]) -> None:
    """A page reads at most one mapping item and one record more than it returns."""
    db, store = club
    token, found = None, []
    while True:
        page = await db.search(Member.by_phone, phone="2", limit=3, next_token=token)
        assert store.counts.records_read <= len(page.items) + 1
        assert store.counts.gets <= len(page.items) + 1
        store.counts.records_read = store.counts.gets = 0
        found += [member.member_id for member in page.items]
        token = page.next_token
        if token is None:
            break
    assert found == [f"m{n:02}" for n in range(40) if n % 3 == 2]


async def test_a_search_finds_a_write_at_once(club: tuple[Database, CountingStore]) -> None:
    """A search by a lookup is consistent: it sees every write that was acknowledged."""
    db, _ = club
    for number in range(10):
        await db.update(Member, "m00", phone=f"new{number}")
        page = await db.search(Member.by_phone, phone=f"new{number}")
        assert [member.member_id for member in page.items] == ["m00"]
        if number:
            assert (await db.search(Member.by_phone, phone=f"new{number - 1}")).items == []


async def test_pages_in_both_directions(tmp_path: Path) -> None:
    """Pages continue in either direction from any cursor, in the order of the record keys."""
    async with opened(tmp_path) as db:
        for number in range(9):
            await db.create(Person, person_id=f"p{number}", created=5 + number * 400, name="N", phone="1")
        ids = [f"p{number}" for number in range(9)]
        page = await db.search(Person.by_phone, phone="1", first=4)
        assert [person.person_id for person in page.items] == ids[:4]
        after = await db.search(Person.by_phone, phone="1", first=4, after=page.cursors[1])
        assert [person.person_id for person in after.items] == ids[2:6]
        before = await db.search(Person.by_phone, phone="1", last=2, before=after.cursors[1])
        assert [person.person_id for person in before.items] == ids[1:3]
        last = await db.search(Person.by_phone, phone="1", last=3)
        assert [person.person_id for person in last.items] == ids[6:]
        reverse = await db.search(Person.by_phone, phone="1", reverse=True, limit=3)
        assert [person.person_id for person in reverse.items] == ids[:5:-1]
        with pytest.raises(TokenMismatch):
            await db.search(Person.by_phone, phone="2", next_token=page.next_token)


async def test_several_values_and_several_properties(tmp_path: Path) -> None:
    """A search takes one value of each property, or a list of values of one of them."""
    async with opened(tmp_path) as db:
        for number in range(6):
            house = f"h{number % 2}"
            await db.put(House(house_id=house))
            await db.create(
                Person, person_id=f"p{number}", created=5, name=f"n{number}", phone=f"{number % 3}", house_id=house
            )
        page = await db.search(Person.by_phone, phone_in=["0", "2", "none"])
        assert [person.person_id for person in page.items] == ["p0", "p2", "p3", "p5"]
        page = await db.search(Person.by_house_and_name, house_id="h1", name="n3")
        assert [person.person_id for person in page.items] == ["p3"]
        page = await db.search(Person.by_house_and_name, house_id="h0", name_in=["n0", "n1", "n2"])
        assert [person.person_id for person in page.items] == ["p0", "p2"]
        with pytest.raises(MissingArgument):
            await db.search(Person.by_house_and_name, house_id="h1")
        with pytest.raises(ConflictingArguments):
            await db.search(Person.by_phone, phone="1", phone_in=["1"])
        with pytest.raises(ShardQLError):
            await db.search(Person.by_phone, phone="")
        with pytest.raises(InvalidValue):
            await db.search(Person.by_phone, phone=17)


async def test_arguments_are_derived_like_stored_values(tmp_path: Path) -> None:
    """The argument of a lookup of a derived property is converted by its function."""
    async with opened(tmp_path) as db:
        await db.create(Person, person_id="a", created=5, name="José Núñez")
        page = await db.search(Person.by_name, name_canonical="JOSE NUNEZ")
        assert [person.person_id for person in page.items] == ["a"]


async def test_filters_counts_and_limits(tmp_path: Path) -> None:
    """Filters are evaluated on the records, pages are filled, and counts are exact."""
    async with opened(tmp_path) as db:
        for number in range(30):
            await db.create(Person, person_id=f"p{number:02}", created=5, name=f"n{number % 5}", phone="1")
        matching = [f"p{number:02}" for number in range(30) if number % 5 == 3]
        search: dict[str, Any] = {"phone": "1", "filter": {"name": {"eq": "n3"}}}
        page = await db.search(Person.by_phone, **search, limit=4)
        assert [person.person_id for person in page.items] == matching[:4]
        page = await db.search(Person.by_phone, **search, limit=4, next_token=page.next_token)
        assert [person.person_id for person in page.items] == matching[4:]
        assert page.next_token is None
        count = await db.count(Person.by_phone, **search)
        assert (count.value, count.exact) == (len(matching), True)


async def test_histories(tmp_path: Path) -> None:
    """A search finds entries and current records, as an index does; `history` selects one of them."""
    async with opened(tmp_path) as db:
        for call, number in (("a", "1"), ("b", "1"), ("a", "2")):
            await db.put(Call(call_id=call, at=f"v{number}", created=5, number=number))
        await db.put(Note(note_id="n", at=3, phone="1"))

        async def found(**arguments: Any) -> list[tuple[str, str]]:
            page = await db.search(Call.by_number, **arguments)
            return [(call.call_id, call.at) for call in page.items]

        assert await found(number="1") == [("a", "v1"), ("b", "v1"), ("b", "~current")]
        assert await found(number="1", history="PAST") == [("a", "v1"), ("b", "v1")]
        assert await found(number="1", history="CURRENT") == [("b", "~current")]
        assert await found(number="2", history="CURRENT") == [("a", "~current")]
        assert [note.at for note in (await db.search(Note.by_phone, phone="1")).items] == [3]


async def test_tenants_do_not_share_mapping_items(tmp_path: Path) -> None:
    """A search finds only records of its tenant."""
    async with opened(tmp_path) as db:
        one, two = db.scoped(tenant="one"), db.scoped(tenant="two")
        await one.create(Person, person_id="a", created=5, name="A", phone="1")
        await two.create(Person, person_id="b", created=5, name="B", phone="1")
        assert [person.person_id for person in (await two.search(Person.by_phone, phone="1")).items] == ["b"]
        assert (await db.search(Person.by_phone, phone="1")).items == []
        assert await check_mappings(db.store) == 4


@pytest.mark.parametrize("limit", [1, 2, 50])
async def test_records_that_change_between_mapping_and_record(tmp_path: Path, limit: int) -> None:
    """A record that is deleted or gets another value after its mapping item was read is left out."""
    async with opened(tmp_path) as db:
        for number in range(6):
            await db.create(Person, person_id=f"p{number}", created=5, name="N", phone="1")
        store = InterleavingStore(db.store)
        reader, found, token = replace(db, store=store), list[str](), None

        async def change() -> None:
            await db.update(Person, "p0", phone="2")
            await db.delete(Person, "p3")

        store.action = change
        while True:
            page = await reader.search(Person.by_phone, phone="1", limit=limit, next_token=token)
            found += [person.person_id for person in page.items]
            token = page.next_token
            if token is None:
                break
            assert len(page.items) == limit
        assert found == ["p1", "p2", "p4", "p5"]


async def test_mapping_items_of_no_record_are_skipped(tmp_path: Path) -> None:
    """A mapping item whose record does not exist, has another value or is none of the entity finds nothing."""
    async with opened(tmp_path) as db:
        for number in range(4):
            await db.create(Person, person_id=f"p{number}", created=5, name="N", phone="1")
        items = await all_items(db.store)
        (mapping,) = [one for one in items if one["hashKey"].endswith("phone#1") and one["rangeKey"].endswith("p1")]
        (house,) = [item_key(one) for one in items if one["hashKey"].startswith("person!") and "p2" in one["rangeKey"]]
        void = [
            {**mapping, "rangeKey": "personId#p00", "_owner": [mapping["_owner"][0], "personId#p00"]},
            {**mapping, "rangeKey": "personId#p11", "_owner": [*house]},
            {**mapping, "rangeKey": "personId#p12", "_owner": "nobody"},
            {**mapping, "rangeKey": "personId#p13", "_owner": [mapping["hashKey"], "personId#p13"]},
            {**mapping, "hashKey": mapping["hashKey"].replace("phone#1", "phone#9")},
        ]
        assert not any(await db.store.write([Put(item) for item in void]))
        for limit in (1, 2, 10):
            found, token = list[str](), None
            while True:
                page = await db.search(Person.by_phone, phone="1", limit=limit, next_token=token)
                found += [person.person_id for person in page.items]
                token = page.next_token
                if token is None:
                    break
                assert len(page.items) == limit
            assert found == ["p0", "p1", "p2", "p3"]
        assert (await db.search(Person.by_phone, phone="9")).items == []
        (count,) = [await db.count(Person.by_phone, phone="1")]
        assert (count.value, count.exact) == (4, True)
        await db.store.write([Delete(Key(house.hash, house.range))])
        page = await db.search(Person.by_phone, phone="1", reverse=True)
        assert [person.person_id for person in page.items] == ["p3", "p1", "p0"]


async def test_explain_shows_the_lookup(tmp_path: Path) -> None:
    """Explain output names the lookup and the hash key of its mapping items, and what was read."""
    async with opened(tmp_path) as db:
        await db.create(Person, person_id="a", created=5, name="A", phone="1")
        explain = (await db.search(Person.by_phone, phone="1")).explain
        assert (explain["index"], explain["physicalIndex"], explain["lookup"]) == ("phone", None, "phone")
        assert explain["hashKeys"] == ["person~lookup.phone!|phone#1"]
        assert explain["order"] == ["personId"]
        assert explain["fetchesRecords"]
        assert (explain["read"]["recordsRead"], explain["read"]["fetched"]) == (1, 1)
        assert explain["estimate"]["least"] == 1.0


async def test_a_capacity_ceiling_ends_a_page_early(tmp_path: Path) -> None:
    """Under a ceiling a page ends at an exact position, and the next one continues there."""
    async with opened(tmp_path) as db:
        for number in range(12):
            await db.create(Person, person_id=f"p{number:02}", created=5, name="N", phone="1")
        found, token = list[str](), None
        for _ in range(50):
            page = await db.limited(700).search(Person.by_phone, phone="1", limit=12, next_token=token)
            found += [person.person_id for person in page.items]
            token = page.next_token
            if token is None:
                break
        assert found == [f"p{number:02}" for number in range(12)]
