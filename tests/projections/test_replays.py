"""Replays: a new release builds a read model again under a new name, while servers of the release before are live."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from graphql import build_schema, print_type

from graphql_api import Catalog, Secrets, open_catalog
from graphql_api.database import Database
from graphql_api.errors import InvalidRecordKey, TokenMismatch
from graphql_api.model import IndexRef
from graphql_api.projections import (
    DeadLetters,
    EventSource,
    ProjectionRun,
    RunProgress,
    StreamProjector,
    parse_envelope,
)
from graphql_api.query.execution import Page
from graphql_api.verification import verify_table
from tests.projections import account_projections as before
from tests.projections import next_release as after
from tests.projections.account_projections import Branch, Statement, statements
from tests.projections.event_histories import Delivery, deliver
from tests.projections.read_models import chunks_of
from tests.projections.test_killed_projectors import projector, until_done, write_lines
from tests.support.dynamodb_servers import ENGINE
from tests.support.run_depth import depth

on_both_stores = pytest.mark.parametrize(
    "store_url", ["sqlite", pytest.param(ENGINE, marks=pytest.mark.deep)], indirect=True
)

OLD_BANK, NEW_BANK = before.GRAPH.sources["bank"], after.GRAPH.sources["bank"]

MAX_OWNERS = 20
"""whose accounts are searched by both indexes"""

AnyAccount = type[before.Account | after.Account | after.FormerAccount]
Answers = dict[str, tuple[str, int, int, str | None]]
"""owner, balance, number of writes and IBAN of each account"""


async def answers(database: Database, model: AnyAccount) -> Answers:
    """What a server answers about all accounts."""
    found: Answers = {}
    token = None
    while True:
        page: Page[Any] = await database.search(model.by_id, limit=500, next_token=token)
        found |= {one.account_id: (one.owner, one.balance, one.version, one.iban) for one in page.items}
        token = page.next_token
        if token is None:
            return found


async def found_by_index(database: Database, index: IndexRef, owner: str) -> set[str]:
    """The accounts of an owner."""
    return {one.account_id for one in (await database.search(index, owner=owner, limit=500)).items}


def in_cents(accounts: Answers) -> Answers:
    """What the changed function makes of the same events."""
    return {id: (owner, 100 * balance, writes, iban) for id, (owner, balance, writes, iban) in accounts.items()}


async def dead_letters(database: Database, source: EventSource, projection: str) -> set[tuple[str, int]]:
    """Stream and number of the dead letters of a projection."""
    letters = await DeadLetters(database, source).all()
    return {(one.stream, one.seq) for one in letters if one.projection == projection}


async def apply(database: Database, source: EventSource, lines: Sequence[bytes]) -> RunProgress:
    """Apply lines as a run of their own."""
    return await ProjectionRun(database, source).run(chunks_of(lines))


def applied(runs: Sequence[RunProgress], name: str) -> int:
    """The number of events that runs have applied by one projection."""
    return sum(one.projections[name].applied for one in runs if name in one.projections)


async def check_both_models(old: Database, new: Database, delivery: Delivery) -> None:
    """Both read models are the fold of the events by their own functions, with their own dead letters."""
    expected = delivery.expected
    assert await answers(old, before.Account) == expected.accounts
    assert await answers(new, after.FormerAccount) == expected.accounts
    assert await answers(new, after.Account) == in_cents(expected.accounts)
    for owner in sorted({account[0] for account in expected.accounts.values()})[:MAX_OWNERS]:
        ids = {id for id, account in expected.accounts.items() if account[0] == owner}
        assert await found_by_index(old, before.Account.by_owner, owner) == ids
        assert await found_by_index(new, after.Account.by_owner, owner) == ids
    assert await dead_letters(old, OLD_BANK, "accounts") == expected.dead["accounts"]
    assert await dead_letters(new, NEW_BANK, "accounts_2") == expected.dead["accounts"]
    for catalog in (before.CATALOG, after.CATALOG):
        assert not (await verify_table(old.store, catalog)).findings


@on_both_stores
@pytest.mark.parametrize("one_log", [False, True], ids=["streams", "log"])
async def test_a_replay_leaves_the_answers_of_live_servers_alone(store_url: str, one_log: bool, random: Random) -> None:
    """Between all batches, a server of the release before answers as without a replay. Both models are folds."""
    delivery = deliver(random, depth(quick=5, deep=40), depth(quick=80, deep=4_000), one_log=one_log)
    lines, size = delivery.lines, max(1, len(delivery.lines) // 8)
    batches = [lines[start : start + size] for start in range(0, len(lines), size)]
    async with open_catalog(before.CATALOG, store_url, create_table=True) as server:
        live = ProjectionRun(server, OLD_BANK)
        for batch in batches[:4]:
            await live.run(chunks_of(batch))
        async with open_catalog(after.CATALOG, store_url, create_table=True) as builder:
            replay = ProjectionRun(builder, NEW_BANK)
            for number, batch in enumerate(batches):
                answered = await answers(server, before.Account)
                await replay.run(chunks_of(batch))
                assert await answers(server, before.Account) == answered
                built = await answers(builder, after.Account)
                for arriving in batches[number + 4 : number + 5]:
                    await live.run(chunks_of(arriving))
                assert await answers(builder, after.Account) == built
            await check_both_models(server, builder, delivery)
            assert applied([replay.progress], "accounts_2") == delivery.expected.applied["accounts"]
            assert applied([live.progress, replay.progress], "accounts") == delivery.expected.applied["accounts"]


@on_both_stores
async def test_events_that_either_release_receives_are_applied_once(store_url: str, random: Random) -> None:
    """Servers of both releases receive events in turns; the next run over all events adds what one of them lacks."""
    delivery = deliver(random, depth(quick=5, deep=40), depth(quick=80, deep=4_000))
    lines = delivery.lines
    async with (
        open_catalog(before.CATALOG, store_url, create_table=True) as old,
        open_catalog(after.CATALOG, store_url, create_table=True) as new,
    ):
        runs = []
        for start in range(0, len(lines), 10):
            database, source = random.choice([(old, OLD_BANK), (new, NEW_BANK)])
            runs.append(await apply(database, source, lines[start : start + 10]))
        runs += await asyncio.gather(
            apply(new, NEW_BANK, lines), apply(new, NEW_BANK, lines), apply(old, OLD_BANK, lines)
        )
        await check_both_models(old, new, delivery)
        assert applied(runs, "accounts") == applied(runs, "accounts_2") == delivery.expected.applied["accounts"]


async def test_the_new_release_waits_for_events_that_only_the_old_one_received(store_url: str) -> None:
    """A server of the new release does not pass over an event, and names the one that it needs."""
    data = {"accountId": "a", "owner": "ann", "at": "1"}
    first, second = (parse_envelope({"stream": "a", "seq": seq, "type": "Opened", "data": data}) for seq in (1, 2))
    async with open_catalog(before.CATALOG, store_url) as old, open_catalog(after.CATALOG, store_url) as new:
        await StreamProjector(old, before.accounts).apply("a", [first])
        projector = StreamProjector(new, after.accounts)
        result = await projector.apply("a", [second])
        assert (result.applied, result.expected, result.waiting) == (0, 1, (second,))
        assert (await projector.apply("a", [first, second])).applied == 2


async def test_a_killed_replay_resumes_while_events_arrive(tmp_path: Path, random: Random) -> None:
    """After kill -9, two replays at once finish, while a projector of the release before follows a growing file."""
    delivery = deliver(random, depth(quick=10, deep=500), depth(quick=160, deep=100_000))
    file, url = tmp_path / "events.jsonl", f"sqlite:///{tmp_path / 'events.db'}"
    half = len(delivery.lines) // 2
    write_lines(file, delivery.lines[:half])
    old_events, all_events = 2 * delivery.events, 3 * delivery.events
    replay = {"graph": "tests.projections.next_release:GRAPH"}
    async with open_catalog(before.CATALOG, url) as server, open_catalog(after.CATALOG, url) as builder:
        with projector(str(file), "--watch", "--store", url) as live:
            await until_done(server, old_events // 3, live)
            with projector(str(file), "--store", url, **replay) as killed:
                await until_done(server, random.randrange(old_events // 3, old_events), killed)
                killed.kill()
            write_lines(file, delivery.lines[half:])
            with (
                projector(str(file), "--store", url, **replay) as one,
                projector(str(file), "--store", url, **replay) as other,
            ):
                outputs = [await asyncio.to_thread(each.communicate) for each in (one, other)]
            assert {one.returncode, other.returncode} <= {0, 1}, outputs
            await until_done(server, all_events, live)
            live.terminate()
            await asyncio.to_thread(live.communicate)
        await check_both_models(server, builder, delivery)


async def test_what_refers_to_the_former_records_is_refused(store_url: str) -> None:
    """Page tokens and record keys of the release before are refused by the next one, and ids stay valid."""
    secrets = Secrets.generate()
    opened: list[Any] = [
        {"stream": id, "seq": 1, "type": "Opened", "data": {"accountId": id, "owner": "ann", "at": "1"}} for id in "abc"
    ]
    async with (
        open_catalog(before.CATALOG, store_url, secrets=secrets) as old,
        open_catalog(after.CATALOG, store_url, secrets=secrets) as new,
    ):
        for event in opened:
            await StreamProjector(new, after.former_accounts).apply(event["stream"], [parse_envelope(event)])
            await StreamProjector(new, after.accounts).apply(event["stream"], [parse_envelope(event)])
        by_owner = await old.search(before.Account.by_owner, owner="ann", limit=1)
        with pytest.raises(TokenMismatch):
            await new.search(after.Account.by_owner, owner="ann", limit=1, next_token=by_owner.next_token)
        by_id = await old.search(before.Account.by_id, limit=1)
        with pytest.raises(TokenMismatch):
            await new.search(after.Account.by_id, limit=1, next_token=by_id.next_token)
        key = by_id.items[0].key
        with pytest.raises(InvalidRecordKey, match="account2"):
            await new.get(after.Account, key)
        assert await new.get(after.FormerAccount, key) is not None
        assert await new.get(after.Account, "a") == after.Account(account_id="a", owner="ann")


@on_both_stores
async def test_the_former_records_can_be_deleted(store_url: str, random: Random) -> None:
    """Deleting them leaves the new records, and events after that are applied to the new records alone."""
    delivery = deliver(random, 4, 40)
    async with open_catalog(after.CATALOG, store_url, create_table=True) as both:
        await apply(both, NEW_BANK, delivery.lines[:20])
        while (page := await both.search(after.FormerAccount.by_id, limit=100)).items:
            for account in page.items:
                await both.delete(after.FormerAccount, account.key)
        only = Catalog(after.Account, Statement, Branch)
        async with open_catalog(only, store_url, create_table=True) as last:
            await apply(last, EventSource("bank", (after.accounts, statements), None), delivery.lines)
            assert await answers(last, after.Account) == in_cents(delivery.expected.accounts)
            assert await answers(both, after.FormerAccount) == {}
            for catalog in (only, after.CATALOG):
                assert not (await verify_table(last.store, catalog)).findings


def test_clients_need_no_change() -> None:
    """The next release has all queries of the release before, with their arguments, and the fields of its records."""
    old, new = (build_schema(graph.schema.as_str()).type_map for graph in (before.GRAPH, after.GRAPH))
    for name in ("Account", "AccountFilter", "AccountEdge", "AccountConnection"):
        assert print_type(old[name]).partition("{")[2] == print_type(new[name]).partition("{")[2] != ""
    queries = [{line for line in print_type(types["Query"]).splitlines() if "account" in line} for types in (old, new)]
    assert queries[0] < queries[1]
