"""Versions of entities: a replay builds one, servers of two releases switch to it, and the one before is dropped."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api import Catalog, Delete, Entity, ForeignKey, Graph, Id, Secrets, Set, Shards, open_catalog, projection
from graphql_api.database import Database
from graphql_api.errors import CatalogBehind, ForeignKeyBroken, InvalidCatalog, NotReady, TokenMismatch, WrongTable
from graphql_api.evolution import (
    MigrationSettings,
    RecordedElement,
    read_record,
    run_migration,
    save_record,
    served_version,
    version_element,
)
from graphql_api.model import versioned_name
from graphql_api.projections import EventSource, ProjectionRun, ReplayResult, StreamProjector, parse_envelope, replay
from graphql_api.projections.stream_projector import APPLY_RETRIES
from graphql_api.verification import verify_table
from tests.projections import account_projections as before
from tests.projections import second_version as after
from tests.projections.event_histories import deliver
from tests.projections.read_models import chunks_of
from tests.projections.test_killed_projectors import projector, until_done, write_lines
from tests.projections.test_replays import answers, dead_letters, found_by_index, in_cents, on_both_stores
from tests.support.run_depth import depth
from tests.support.store_doubles import all_items

SECRETS = Secrets.generate()
OLD_BANK, BANK, STRICT_BANK = (graph.sources["bank"] for graph in (before.GRAPH, after.GRAPH, after.STRICT))
Opener = Callable[[Catalog], AbstractAsyncContextManager[Database]]


@pytest.fixture
def opened(store_url: str) -> Opener:
    """Opens the table of a test with a catalog."""
    times: dict[str, Any] = {"lease_seconds": 1.0, "lease_margin_seconds": 0.1, "request_life_seconds": 0.1}
    return lambda catalog: open_catalog(catalog, store_url, secrets=SECRETS, create_table=True, **times)


async def replayed(
    opened: Opener, lines: Sequence[bytes], graph: Graph = after.GRAPH, **options: Any
) -> ReplayResult | None:
    """Replays the events of the bank."""
    options |= {"settings": MigrationSettings(margin_seconds=0.1, life_seconds=0.1), "others": graph.sources.values()}
    return await replay(opened, graph.catalog, graph.sources["bank"], lambda: chunks_of(lines), **options)


def event(stream: str, seq: int, **data: Any) -> bytes:
    """An event that opens an account, or moves money."""
    kind = {"type": "Moved", "data": {"accountId": stream, "at": f"{seq}", **data}}
    if "balance" not in data:
        kind = {"type": "Opened", "data": {"accountId": stream, "owner": "ann", "at": f"{seq}", **data}}
    return json.dumps({"stream": stream, "seq": seq, **kind}).encode()


async def run(database: Database, source: EventSource, lines: Iterable[bytes]) -> None:
    """Applies lines by all projections of a source."""
    await ProjectionRun(database, source).run(chunks_of(lines))


@on_both_stores
async def test_servers_of_two_releases_switch_together(opened: Opener, random: Random) -> None:
    """Before the switch both answer from the old records, and after it from the new ones; so do joins and searches."""
    delivery = deliver(random, depth(quick=5, deep=40), depth(quick=80, deep=4_000))
    lines, half = delivery.lines, len(delivery.lines) // 2
    async with opened(before.CATALOG) as old, opened(after.CATALOG) as new:
        await run(old, OLD_BANK, lines[:half])
        await run(new, BANK, lines[half:])
        await run(new, BANK, lines)
        for server, model in ((old, before.Account), (new, after.Account)):
            assert await answers(server, model) == delivery.expected.accounts
        result = await replayed(opened, lines)
        assert result is not None
        assert (result.is_switched, result.versions, result.not_compared) == (True, {"account": 2}, [])
        expected = in_cents(delivery.expected.accounts)
        for server, model in ((new, after.Account), (old, before.Account)):
            assert await answers(server, model) == expected
            for owner in sorted({account[0] for account in expected.values()})[:3]:
                ids = {id for id, account in expected.items() if account[0] == owner}
                assert await found_by_index(server, model.by_owner, owner) == ids
        assert await dead_letters(new, BANK, "accounts@2") == delivery.expected.dead["accounts"]
        await run(new, BANK, lines)
        assert await answers(new, after.Account) == expected
        for catalog in (before.CATALOG, after.CATALOG):
            verified = await verify_table(old.store, catalog)
            assert not verified.findings
            assert any("a later version has replaced it" in line for line in verified.left_out)
        assert await replayed(opened, lines) is None, "nothing is left to replay"


async def test_events_go_to_a_server_that_has_their_function(opened: Opener) -> None:
    """Without `previous=`, the next release refuses events until the switch, and the release before after it."""
    lines = [event("a", 1), event("a", 2, balance=5)]
    first, second = (parse_envelope(json.loads(line)) for line in lines)
    async with opened(before.CATALOG) as old, opened(after.CATALOG) as new:
        await StreamProjector(old, before.accounts).apply("a", [first])
        with pytest.raises(NotReady, match=r"account\.2, which is not built yet.*--replay"):
            await StreamProjector(new, after.strict_accounts).apply("a", [second])
        assert (await StreamProjector(new, after.accounts).apply("a", [second])).applied == 1
        assert await answers(new, after.Account) == {"a": ("ann", 5, 2, None)}
        assert await replayed(opened, lines) is not None
        with pytest.raises(CatalogBehind, match=r"account\.2"):
            await apply(old, "a", event("a", 3, balance=7))
        assert (await StreamProjector(new, after.accounts).apply("a", [second])).repeated == 1
        assert await answers(old, before.Account) == {"a": ("ann", 500, 2, None)}


async def test_servers_are_not_switched_while_events_are_missing(opened: Opener) -> None:
    """A replay names each stream that lacks events, also those of other tenants, and servers go on."""
    lines = [event("a", 1), event("a", 2, balance=5), event("b", 1)]
    async with opened(before.CATALOG) as old, opened(after.CATALOG) as new:
        await run(old, OLD_BANK, lines)
        await run(old.scoped(tenant="acme"), OLD_BANK, lines[2:])
        result = await replayed(opened, lines[:1])
        assert result is not None
        assert not result.is_switched
        assert [*map(str, result.missing)] == [
            "accounts: a lacks the events 2 to 2.",
            "accounts: b lacks the events 1 to 1.",
            "accounts: b of the tenant acme lacks the events 1 to 1.",
        ]
        assert await answers(new, after.Account) == {"a": ("ann", 5, 2, None), "b": ("ann", 0, 1, None)}
        await run(new, BANK, [event("b", 2, balance=1)])
        rest = [*lines, event("b", 2, balance=1)]
        result = await replayed(opened, rest)
        assert result is not None
        assert [one.tenant for one in result.missing] == ["acme"]
        result = await replayed(opened, lines[2:], tenant="acme")
        assert result is not None
        assert result.is_switched
        assert await answers(new, after.Account) == {"a": ("ann", 500, 2, None), "b": ("ann", 100, 2, None)}
        assert await answers(new.scoped(tenant="acme"), after.Account) == {"b": ("ann", 0, 1, None)}


async def test_writes_wait_for_the_switch_and_reads_do_not(opened: Opener) -> None:
    """While a version is `switching`, writes of the entity and its events are refused, and searches answer."""
    lines = [event("a", 1), event("a", 2, balance=5)]
    async with opened(before.CATALOG) as old:
        await run(old, OLD_BANK, lines)
        record = await read_record(old.store)
        assert record is not None
        switching = RecordedElement(version_element("account", 2), "switching", 0)
        assert await save_record(old.store, record, record.changed(switching))
        refused: list[Callable[[], Awaitable[Any]]] = [
            lambda: old.update(before.Account, "a", balance=1),
            lambda: old.delete(before.Account, "a"),
            lambda: apply(old, "a", event("a", 3, balance=7)),
            lambda: apply(old, "a", json.dumps({"stream": "a", "seq": 3, "type": "Unknown", "data": {}}).encode()),
            lambda: apply(old, "a", event("a", 3, balance=13)),
        ]
        for write in refused:
            with pytest.raises(NotReady, match=r"account\.2, which is about to replace"):
                await write()
        assert await answers(old, before.Account) == {"a": ("ann", 5, 2, None)}


async def apply(database: Database, stream: str, line: bytes) -> None:
    """Applies one event to the accounts, without retries."""
    projector = StreamProjector(database, before.accounts, retries=replace(APPLY_RETRIES, max_attempts=1))
    await projector.apply(stream, [parse_envelope(json.loads(line))])


async def test_ids_stay_valid_and_page_tokens_do_not(opened: Opener) -> None:
    """The key of a record finds it in the new version too; a page token of the old version is refused."""
    lines = [event(stream, 1) for stream in "abc"]
    async with opened(before.CATALOG) as old, opened(after.CATALOG) as new:
        await run(old, OLD_BANK, lines)
        by_id = await old.search(before.Account.by_id, limit=1)
        by_owner = await old.search(before.Account.by_owner, owner="ann", limit=1)
        sealed = old.seal_key(by_id.items[0])
        assert await replayed(opened, lines) is not None
        for server, model in ((old, before.Account), (new, after.Account)):
            with pytest.raises(TokenMismatch):
                await server.search(model.by_id, limit=1, next_token=by_id.next_token)
            with pytest.raises(TokenMismatch):
                await server.search(model.by_owner, owner="ann", limit=1, next_token=by_owner.next_token)
            found = await server.get(model, server.open_key(sealed, model))
            assert found is not None
            assert server.seal_key(found) == sealed


@on_both_stores
async def test_the_version_before_is_dropped(opened: Opener, random: Random) -> None:
    """`migrate --drop` removes its records, unique and mapping items, positions and dead letters, and nothing else."""
    delivery = deliver(random, 4, 60)
    async with opened(before.CATALOG) as old:
        await run(old, OLD_BANK, delivery.lines)
        assert await replayed(opened, delivery.lines) is not None
        settings = MigrationSettings(drop=True, margin_seconds=0.1, life_seconds=0.1)
        assert not (await run_migration(old.store, before.CATALOG, settings)).dropped, "its own version is kept"
        kept = [item for item in await all_items(old.store) if not _is_of_first_version(item)]
        result = await run_migration(old.store, after.CATALOG, settings)
        assert {"account entity version 1", "account index owner", "account unique iban"} <= {*result.dropped}
        left = await all_items(old.store)
        assert not [*filter(_is_of_first_version, left)]
        assert len(left) == len(kept)
        assert await answers(old, before.Account) == in_cents(delivery.expected.accounts)
        assert not (await verify_table(old.store, after.CATALOG)).findings


def _is_of_first_version(item: Any) -> bool:
    key = item["hashKey"]
    is_own = key.partition("!")[0].split("~")[0] == "account"
    return bool(is_own or key.endswith("projection#accounts") or item["rangeKey"].startswith("projection#accounts\x01"))


async def test_a_replay_that_is_given_up_is_dropped(opened: Opener) -> None:
    """After a rollback, the release before removes what a replay has built."""
    lines = [event("a", 1), event("b", 1)]
    async with opened(before.CATALOG) as old:
        await run(old, OLD_BANK, lines)
        result = await replayed(opened, lines[:1])
        assert result is not None
        assert not result.is_switched
        count = len(await all_items(old.store))
        settings = MigrationSettings(drop=True, margin_seconds=0.1, life_seconds=0.1)
        assert "account entity version 2" in (await run_migration(old.store, before.CATALOG, settings)).dropped
        assert len(await all_items(old.store)) == count - 2, "a record, and its position"
        assert {*await answers(old, before.Account)} == {"a", "b"}


class Third(before.Account, name="account", version=3):
    """The third version."""


@projection(Third, source="bank", name="accounts")
def third_accounts(event: before.Opened) -> list[Set]:
    """The owners alone."""
    return [Set(Third(account_id=event.account_id, owner=event.owner.upper()))]


THIRD = Graph(Catalog(Third, before.Statement, before.Branch), projections=[third_accounts])


async def test_versions_follow_each_other(opened: Opener) -> None:
    """A table without the entity begins with the declared version, and a later release replays the next one."""
    lines = [event("a", 1)]
    async with opened(after.CATALOG) as second:
        await run(second, STRICT_BANK, lines)
        assert {item["hashKey"].split("!")[0] for item in await all_items(second.store)} >= {"account@2"}
        result = await replayed(opened, lines, THIRD)
        assert result is not None
        assert (result.is_switched, result.versions) == (True, {"account": 3})
        assert (await answers(second, after.Account))["a"][0] == "ANN"
        record = await read_record(second.store)
        assert record is not None
        assert served_version(record, "account") == 3
        with pytest.raises(CatalogBehind):
            await replayed(opened, lines)


async def test_a_killed_replay_resumes_while_events_arrive(tmp_path: Path, random: Random) -> None:
    """After kill -9, two replays at once build the version, while a projector of the release before goes on."""
    delivery = deliver(random, depth(quick=10, deep=500), depth(quick=160, deep=100_000))
    file, url = tmp_path / "events.jsonl", f"sqlite:///{tmp_path / 'events.db'}"
    half = len(delivery.lines) // 2
    write_lines(file, delivery.lines[:half])
    options = (str(file), "--store", url)
    graph = "tests.projections.second_version:GRAPH"
    async with open_catalog(before.CATALOG, url) as server:
        with projector(*options, "--watch") as live:
            await until_done(server, delivery.events // 2, live)
            with projector(*options, "--replay", graph=graph) as killed:
                await until_done(server, random.randrange(delivery.events // 2, 2 * delivery.events), killed)
                killed.kill()
            write_lines(file, delivery.lines[half:])
            with (
                projector(*options, "--replay", graph=graph) as one,
                projector(*options, "--replay", graph=graph) as two,
            ):
                outputs = [await asyncio.to_thread(each.communicate) for each in (one, two)]
            live.terminate()
            await asyncio.to_thread(live.communicate)
        with projector(*options, "--replay", graph=graph) as last:
            await asyncio.to_thread(last.communicate)
        with projector(*options, graph=graph) as rest:
            await asyncio.to_thread(rest.communicate)
        record = await read_record(server.store)
        assert record is not None
        assert served_version(record, "account") == 2, outputs
        assert await answers(server, before.Account) == in_cents(delivery.expected.accounts)
        assert not (await verify_table(server.store, after.CATALOG)).findings


class Parent(Entity):
    """An entity that others refer to."""

    parent_id: Id[str]


class Child(Entity):
    """An entity with a foreign key."""

    child_id: Id[str]
    parent_id: str

    of_parent = ForeignKey("Parent", by="parent_id")


NEXT_PARENT = type("Parent", (Parent,), {"__doc__": "Its next version.", "__module__": __name__}, version=2)


class NextChild(Child, name="child", version=2):
    """The next version of an entity with a foreign key."""

    of_parent = ForeignKey("Parent", by="parent_id")


class WiderChild(NextChild, name="child", version=2, shards=Shards(4)):
    """The same with other shards."""


def graph_of(*models: type[Entity], source: str = "bank") -> Graph:
    """A graph with a projection that writes the last model."""

    @projection(models[-1], source=source, name="family")
    def family(event: before.Closed) -> list[Set]:
        model: Any = models[-1]
        is_child = issubclass(model, Child)
        return [Set(model(child_id=event.account_id, parent_id="p") if is_child else model(parent_id="p"))]

    return Graph(Catalog(*models), projections=[family])


async def test_entities_with_foreign_keys(opened: Opener) -> None:
    """The foreign keys of a new version are enforced and dropped with it; what others refer to is not replayed."""
    lines = [json.dumps({"stream": "c", "seq": 1, "type": "Closed", "data": {"accountId": "c"}}).encode()]
    older, newer, wider = graph_of(Parent, Child), graph_of(Parent, NextChild), graph_of(Parent, WiderChild)
    async with opened(older.catalog) as old, opened(newer.catalog) as new:
        await old.put(Parent(parent_id="p"))
        await run(old, older.sources["bank"], lines)
        with pytest.raises(WrongTable, match="other ids or shards"):
            await replayed(opened, lines, wider)
        await run_migration(old.store, older.catalog, MigrationSettings(drop=True))
        result = await replayed(opened, lines, newer)
        assert result is not None
        assert result.is_switched
        await run_migration(new.store, newer.catalog, MigrationSettings(drop=True))
        with pytest.raises(ForeignKeyBroken):
            await new.delete(Parent, "p")
        await new.delete(NextChild, "c")
        await old.delete(Parent, "p")
        assert not (await verify_table(new.store, newer.catalog)).findings
        with pytest.raises(WrongTable, match="refers to it"):
            await replayed(opened, lines, graph_of(NextChild, NEXT_PARENT))


async def test_records_that_no_projection_has_written_are_not_left_out(opened: Opener) -> None:
    """A replay is refused if clients, or a projection of another name, have written the records."""
    lines = [event("a", 1)]
    async with opened(before.CATALOG) as old:
        await old.put(before.Account(account_id="a", owner="ann"))
        for file in ([], lines):
            with pytest.raises(WrongTable, match="records of account that no projection of bank has written"):
                await replayed(opened, file)
        assert {*await answers(old, before.Account)} == {"a"}
        await old.delete(before.Account, "a")
        result = await replayed(opened, lines)
        assert result is not None
        assert result.is_switched


async def test_entities_of_two_sources_are_not_replayed(opened: Opener) -> None:
    """One source does not have all events of an entity that two sources write."""

    @projection(after.Account, source="other")
    def others(event: before.Closed) -> list[Delete]:
        return [Delete(after.Account, event.account_id)]

    async with opened(before.CATALOG):
        with pytest.raises(WrongTable, match="the projection others of the source other writes it too"):
            await replayed(opened, [], Graph(after.CATALOG, projections=[after.accounts, others]))


def test_declarations_that_cannot_be_replayed() -> None:
    """Entities of one projection have one version, which is a whole number."""
    with pytest.raises(InvalidCatalog, match="declare different versions"):
        projection(after.Account, before.Statement, source="bank")(after.in_units)
    with pytest.raises(InvalidCatalog, match="has previous=, and its entities declare no version"):
        projection(before.Account, source="bank", previous=after.in_units)(after.in_units)
    with pytest.raises(InvalidCatalog, match="version=0"):
        Catalog(type("Odd", (before.Account,), {"__module__": __name__}, version=0))
    assert versioned_name("account", 1) == "account"
