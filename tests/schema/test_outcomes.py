"""Mutations of which nobody knows whether they were carried out: what a client may send again as it is."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import strawberry

from graphql_api import Catalog, Entity, Id, Int32, Ref, Version, generated
from graphql_api.errors import StoreUnavailable, Throttled
from graphql_api.schema.graph import Graph
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.values import Delete, Item, Key, Put, TransactionWrite
from tests.schema.asking import LIMITS, Asked, asking, opened
from tests.stores import WrappedStore


class Door(Entity):
    """What a badge opens."""

    door_id: Id[str]


class Badge(Entity):
    """Who may come in."""

    badge_id: Id[str] = generated()
    level: Int32 = 0
    version: Version[Int32]
    door_id: str | None = None

    door = Ref("Door", by="door_id")


CATALOG = Catalog(Badge, Door)
GRAPH = Graph(CATALOG)


@GRAPH.mutation
@strawberry.type
class Own:
    """A mutation of one's own."""

    @strawberry.mutation
    async def send_mail(self) -> bool:
        """Does what nobody can take back, and takes long for it."""
        await asyncio.sleep(3_600)
        return True

    @strawberry.mutation
    async def beep(self, fails: bool = False) -> bool:
        """Is heard by everybody, or says by itself that it was not."""
        if fails:
            raise Throttled("Not so loud.")
        return True


class Late(WrappedStore):
    """Carries out transactions of badges, and never says so, or says that it does not know."""

    is_silent = False
    is_lost = False
    is_closed = False
    """doors are not to be read, and badges not to be removed"""

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        if self.is_closed and any(key.hash.startswith("door!") for key in keys):
            raise StoreUnavailable("The doors do not answer.")
        return await super().get_many(keys, consistent)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        if self.is_closed and any(isinstance(one, Delete) for one in writes):
            raise Throttled("Not so fast.")
        await super().write_together(writes, token)
        if any(isinstance(one, Put) and one.item.get("level") == 9 for one in writes):
            return
        if self.is_silent:
            await asyncio.sleep(3_600)
        if self.is_lost:
            raise StoreUnavailable("The table badges-7 does not answer.")


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asked]:
    """A database whose store never answers a write, asked by who does not wait for long."""
    late = Late(await open_sqlite(tmp_path / "x.db"))
    async with opened(CATALOG, late, Badge(badge_id="b", version=1)) as db:
        late.is_silent = True
        yield asking(db, graph=GRAPH, limits=replace(LIMITS, deadline=0.1))


QUICK = "quick: createBadge(input: {level: 9}) { badge { badgeId } }"
SAFE = [
    'createBadge(input: {}, idempotencyKey: "k") { badge { badgeId } }',
    'createBadges(inputs: [{}, {}], idempotencyKey: "k") { results { error { code } } }',
    'updateBadge(input: {id: "b", level: 1}) { badge { level } }',
    'updateBadge(input: {id: "b", level: 1}, expectedVersion: 1, idempotencyKey: "k") { badge { level } }',
    'updateBadges(inputs: [{id: "b", level: 1}]) { results { error { code } } }',
    'putBadge(input: {badgeId: "b"}) { badge { level } }',
    'deleteBadge(id: "b", expectedVersion: 1) { deletedId }',
    f'first: deleteBadge(id: "b") {{ deletedId }} {QUICK}',
]
UNSAFE = [
    ("createBadge(input: {}) { badge { badgeId } }", "createBadge was"),
    ("other: createBadge(input: {}, idempotencyKey: null) { badge { badgeId } }", "createBadge was"),
    ("createBadges(inputs: [{}, {}]) { results { error { code } } }", "createBadges was"),
    ('updateBadge(input: {id: "b", level: 1}, expectedVersion: 1) { badge { level } }', "updateBadge was"),
    ('updateBadges(inputs: [{id: "b"}, {id: "c", expectedVersion: 1}]) { results { error { code } } }', "updateBadges"),
    ('putBadge(input: {badgeId: "b"}, expectedVersion: 1) { badge { level } }', "putBadge was"),
    (f'{QUICK} deleteBadge(id: "b") {{ deletedId }}', "createBadge was"),
    ("__typename sendMail", "sendMail was"),
    ("... on Mutation { ...Mail } createBadge(input: {}) { badge { badgeId } }", "sendMail was"),
]


@pytest.mark.parametrize("fields", SAFE)
async def test_what_may_be_sent_again(ask: Asked, fields: str) -> None:
    """A mutation that is stopped says that it may be sent again where that comes to the same."""
    answer = await ask.answer(f"mutation {{ {fields} }}")
    assert (answer.executed, answer.status) == (False, 504)
    (error,) = answer.body["errors"]
    assert error["extensions"] == {"code": "DEADLINE_EXCEEDED", "retryable": True}


@pytest.mark.parametrize(("fields", "named"), UNSAFE)
async def test_what_must_not_be_sent_again(ask: Asked, fields: str, named: str) -> None:
    """A mutation that is stopped and may be carried out by then is not to be sent again, and says which field it is."""
    text = f"mutation {{ {fields} }} fragment Mail on Mutation {{ sendMail }}"
    answer = await ask.answer(text if "...Mail" in fields else text.partition(" fragment")[0])
    assert (answer.executed, answer.status) == (False, 504)
    (error,) = answer.body["errors"]
    assert error["extensions"] == {"code": "OUTCOME_UNKNOWN"}
    assert f"it is unknown whether {named}" in error["message"]


async def test_a_client_that_sends_again(ask: Asked) -> None:
    """Whoever goes by what errors say never makes two records by one creation, and under a key always one."""
    assert isinstance(ask.store.inner, Late)
    calm = asking(ask.db, graph=GRAPH)
    create = "mutation ($key: String) { createBadge(input: {}, idempotencyKey: $key) { badge { badgeId } } }"
    for key in ("k", None):
        ask.store.inner.is_silent = True
        before = len((await calm.data("{ badgeById { items { badgeId } } }"))["badgeById"]["items"])
        told = await ask.error(create, {"key": key})
        ask.store.inner.is_silent = False
        if told["extensions"].get("retryable"):
            await calm.data(create, {"key": key})
        after = len((await calm.data("{ badgeById { items { badgeId } } }"))["badgeById"]["items"])
        assert after - before in ((1,) if key else (0, 1))


# --- a store that does not answer ------------------------------------------------------------------------------


@pytest.mark.parametrize("details", [True, False])
async def test_what_the_store_does_not_say(tmp_path: Path, details: bool) -> None:
    """Fields and rows say the same of a write whose answer is lost, in production without the store's own words."""
    late = Late(await open_sqlite(tmp_path / "x.db"))
    async with opened(CATALOG, late, Badge(badge_id="b", version=1)) as db:
        ask = asking(db, graph=GRAPH, details=details)
        late.is_lost = True
        create = "mutation { createBadge(input: {}) { badge { badgeId } } }"
        rows = "mutation { createBadges(inputs: [{}]) { results { error { code message retryable } } } }"
        field = await ask.error(create)
        (row,) = (await ask.data(rows))["createBadges"]["results"]
        assert field["extensions"] == {"code": "OUTCOME_UNKNOWN"}
        assert (row["error"]["code"], row["error"]["retryable"]) == ("OUTCOME_UNKNOWN", False)
        for message in (field["message"], row["error"]["message"]):
            assert message.startswith("It is unknown whether ")
            assert " Read the current state before you send it again" in message
            assert ("badges-7" in message) is details
        update = 'mutation { updateBadge(input: {id: "b", level: 1}) { badge { level } } }'
        again: Any = await ask.error(update)
        assert again["extensions"] == {"code": "STORE_UNAVAILABLE", "retryable": True}


# --- a part of an operation fails ------------------------------------------------------------------------------

BESIDE = 'deleteBadge(id: "b") { deletedId }'
DOOR = "{ badge { door { doorId } } }"
IN_PART = [
    (f'createBadge(input: {{doorId: "d"}}) {DOOR}', False),
    (f'createBadge(input: {{doorId: "d"}}, idempotencyKey: "k") {DOOR}', True),
    (f'createBadges(inputs: [{{doorId: "d"}}, {{}}]) {{ results {DOOR} }}', False),
    (f'createBadges(inputs: [{{doorId: "d"}}, {{}}], idempotencyKey: "k") {{ results {DOOR} }}', True),
    (f'updateBadge(input: {{id: "b", doorId: "d"}}) {DOOR}', True),
    (f'updateBadge(input: {{id: "b", doorId: "d"}}, expectedVersion: 1) {DOOR}', False),
    (f'createBadge(input: {{badgeId: "c"}}) {{ badge {{ level }} }} {BESIDE}', False),
    (f'{BESIDE} createBadge(input: {{badgeId: "c"}}) {{ badge {{ level }} }}', False),
    (f'createBadge(input: {{badgeId: "c"}}, idempotencyKey: "k") {{ badge {{ level }} }} {BESIDE}', True),
    (f'createBadge(input: {{badgeId: "b"}}) {{ badge {{ level }} }} {BESIDE}', True),
    (f"{BESIDE} own: beep", False),
    (f"{BESIDE} own: beep(fails: true)", True),
    ("own: beep(fails: true)", True),
    (f"... on Mutation {{ beep }} {BESIDE}", False),
]


@pytest.mark.parametrize("details", [True, False])
@pytest.mark.parametrize(("fields", "retryable"), IN_PART)
async def test_a_part_that_fails(tmp_path: Path, fields: str, details: bool, retryable: bool) -> None:
    """An error says that the operation may be sent again only where nothing of it was done that must be done once."""
    late = Late(await open_sqlite(tmp_path / "x.db"))
    async with opened(CATALOG, late, Badge(badge_id="b", version=1)) as db:
        late.is_closed = True
        errors = await asking(db, graph=GRAPH, details=details).errors(f"mutation {{ {fields} }}")
        passing = [error for error in errors if error["extensions"]["code"] in ("STORE_UNAVAILABLE", "THROTTLED")]
        assert passing
        for error in passing:
            assert error["extensions"].get("retryable", False) is retryable
            assert retryable or details or "Try again" not in error["message"]
        late.is_lost = True
        create = "createBadge(input: {level: 1}) { badge { level } }"
        unknown, beside = await asking(db, graph=GRAPH, details=details).errors(f"mutation {{ {create} {BESIDE} }}")
        assert [one["extensions"] for one in (unknown, beside)] == [{"code": "OUTCOME_UNKNOWN"}, {"code": "THROTTLED"}]
