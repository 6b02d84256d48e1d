"""Mutations with an unknown outcome: which errors are safe to retry."""

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
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.values import Delete, Item, Key, Put, TransactionWrite
from tests.schema.graphql_client import LIMITS, GraphQLClient, client_for, open_database


class Door(Entity):
    """A door that a badge opens."""

    door_id: Id[str]


class Badge(Entity):
    """A badge that opens doors."""

    badge_id: Id[str] = generated()
    level: Int32 = 0
    version: Version[Int32]
    door_id: str | None = None

    door = Ref("Door", by="door_id")


CATALOG = Catalog(Badge, Door)
GRAPH = Graph(CATALOG)


@GRAPH.mutation
@strawberry.type
class CustomMutations:
    """Custom mutations."""

    @strawberry.mutation
    async def send_mail(self) -> bool:
        """Has an irreversible effect and exceeds the deadline."""
        await asyncio.sleep(3_600)
        return True

    @strawberry.mutation
    async def beep(self, fails: bool = False) -> bool:
        """Returns immediately, or fails with a retryable error."""
        if fails:
            raise Throttled("Not so loud.")
        return True


class UnresponsiveStore(ForwardingStore):
    """Applies transactions of badges, then hangs or reports that the outcome is unknown."""

    is_hanging = False
    is_reply_lost = False
    is_unavailable = False
    """reads of doors and deletes of badges fail"""

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        if self.is_unavailable and any(key.hash.startswith("door!") for key in keys):
            raise StoreUnavailable("The doors do not answer.")
        return await super().get_many(keys, consistent)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        if self.is_unavailable and any(isinstance(one, Delete) for one in writes):
            raise Throttled("Not so fast.")
        await super().write_together(writes, token)
        if any(isinstance(one, Put) and one.item.get("level") == 9 for one in writes):
            return
        if self.is_hanging:
            await asyncio.sleep(3_600)
        if self.is_reply_lost:
            raise StoreUnavailable("The table badges-7 does not answer.")


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """A client with a short deadline, and a store that never replies to writes."""
    store = UnresponsiveStore(await open_sqlite(tmp_path / "x.db"))
    async with open_database(CATALOG, store, Badge(badge_id="b", version=1)) as db:
        store.is_hanging = True
        yield client_for(db, graph=GRAPH, limits=replace(LIMITS, deadline=0.1))


QUICK = "quick: createBadge(input: {level: 9}) { badge { badgeId } }"
IDEMPOTENT = [
    'createBadge(input: {}, idempotencyKey: "k") { badge { badgeId } }',
    'createBadges(inputs: [{}, {}], idempotencyKey: "k") { results { error { code } } }',
    'updateBadge(input: {id: "b", level: 1}) { badge { level } }',
    'updateBadge(input: {id: "b", level: 1}, expectedVersion: 1, idempotencyKey: "k") { badge { level } }',
    'updateBadges(inputs: [{id: "b", level: 1}]) { results { error { code } } }',
    'putBadge(input: {badgeId: "b"}) { badge { level } }',
    'deleteBadge(id: "b", expectedVersion: 1) { deletedId }',
    f'first: deleteBadge(id: "b") {{ deletedId }} {QUICK}',
]
NOT_IDEMPOTENT = [
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


@pytest.mark.parametrize("fields", IDEMPOTENT)
async def test_idempotent_mutations_are_retryable(client: GraphQLClient, fields: str) -> None:
    """An idempotent mutation that exceeds the deadline is retryable."""
    answer = await client.execute(f"mutation {{ {fields} }}")
    assert (answer.executed, answer.status) == (False, 504)
    (error,) = answer.body["errors"]
    assert error["extensions"] == {"code": "DEADLINE_EXCEEDED", "retryable": True}


@pytest.mark.parametrize(("fields", "named"), NOT_IDEMPOTENT)
async def test_other_mutations_are_in_doubt(client: GraphQLClient, fields: str, named: str) -> None:
    """A non-idempotent mutation that exceeds the deadline is `OUTCOME_UNKNOWN`, and the error names its field."""
    text = f"mutation {{ {fields} }} fragment Mail on Mutation {{ sendMail }}"
    answer = await client.execute(text if "...Mail" in fields else text.partition(" fragment")[0])
    assert (answer.executed, answer.status) == (False, 504)
    (error,) = answer.body["errors"]
    assert error["extensions"] == {"code": "OUTCOME_UNKNOWN"}
    assert f"it is unknown whether {named}" in error["message"]


async def test_retries_create_no_duplicates(client: GraphQLClient) -> None:
    """A client that retries only retryable errors creates at most one record, and exactly one with a key."""
    assert isinstance(client.store.inner, UnresponsiveStore)
    patient_client = client_for(client.db, graph=GRAPH)
    create = "mutation ($key: String) { createBadge(input: {}, idempotencyKey: $key) { badge { badgeId } } }"
    for key in ("k", None):
        client.store.inner.is_hanging = True
        before = len((await patient_client.data("{ badgeById { items { badgeId } } }"))["badgeById"]["items"])
        error = await client.error(create, {"key": key})
        client.store.inner.is_hanging = False
        if error["extensions"].get("retryable"):
            await patient_client.data(create, {"key": key})
        after = len((await patient_client.data("{ badgeById { items { badgeId } } }"))["badgeById"]["items"])
        assert after - before in ((1,) if key else (0, 1))


# --- lost replies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("details", [True, False])
async def test_lost_replies(tmp_path: Path, details: bool) -> None:
    """Fields and rows report a lost reply alike; in production without the message of the store."""
    store = UnresponsiveStore(await open_sqlite(tmp_path / "x.db"))
    async with open_database(CATALOG, store, Badge(badge_id="b", version=1)) as db:
        client = client_for(db, graph=GRAPH, details=details)
        store.is_reply_lost = True
        create = "mutation { createBadge(input: {}) { badge { badgeId } } }"
        rows = "mutation { createBadges(inputs: [{}]) { results { error { code message retryable } } } }"
        field = await client.error(create)
        (row,) = (await client.data(rows))["createBadges"]["results"]
        assert field["extensions"] == {"code": "OUTCOME_UNKNOWN"}
        assert (row["error"]["code"], row["error"]["retryable"]) == ("OUTCOME_UNKNOWN", False)
        for message in (field["message"], row["error"]["message"]):
            assert message.startswith("It is unknown whether ")
            assert " Read the current state before you send it again" in message
            assert ("badges-7" in message) is details
        update = 'mutation { updateBadge(input: {id: "b", level: 1}) { badge { level } } }'
        again: Any = await client.error(update)
        assert again["extensions"] == {"code": "STORE_UNAVAILABLE", "retryable": True}


# --- partial failures ------------------------------------------------------------------------------------------

DELETE = 'deleteBadge(id: "b") { deletedId }'
DOOR = "{ badge { door { doorId } } }"
PARTIAL_FAILURES = [
    (f'createBadge(input: {{doorId: "d"}}) {DOOR}', False),
    (f'createBadge(input: {{doorId: "d"}}, idempotencyKey: "k") {DOOR}', True),
    (f'createBadges(inputs: [{{doorId: "d"}}, {{}}]) {{ results {DOOR} }}', False),
    (f'createBadges(inputs: [{{doorId: "d"}}, {{}}], idempotencyKey: "k") {{ results {DOOR} }}', True),
    (f'updateBadge(input: {{id: "b", doorId: "d"}}) {DOOR}', True),
    (f'updateBadge(input: {{id: "b", doorId: "d"}}, expectedVersion: 1) {DOOR}', False),
    (f'createBadge(input: {{badgeId: "c"}}) {{ badge {{ level }} }} {DELETE}', False),
    (f'{DELETE} createBadge(input: {{badgeId: "c"}}) {{ badge {{ level }} }}', False),
    (f'createBadge(input: {{badgeId: "c"}}, idempotencyKey: "k") {{ badge {{ level }} }} {DELETE}', True),
    (f'createBadge(input: {{badgeId: "b"}}) {{ badge {{ level }} }} {DELETE}', True),
    (f"{DELETE} own: beep", False),
    (f"{DELETE} own: beep(fails: true)", True),
    ("own: beep(fails: true)", True),
    (f"... on Mutation {{ beep }} {DELETE}", False),
]


@pytest.mark.parametrize("details", [True, False])
@pytest.mark.parametrize(("fields", "retryable"), PARTIAL_FAILURES)
async def test_partial_failures(tmp_path: Path, fields: str, details: bool, retryable: bool) -> None:
    """An error is retryable only if no non-idempotent field of the operation may have been carried out."""
    store = UnresponsiveStore(await open_sqlite(tmp_path / "x.db"))
    async with open_database(CATALOG, store, Badge(badge_id="b", version=1)) as db:
        store.is_unavailable = True
        errors = await client_for(db, graph=GRAPH, details=details).errors(f"mutation {{ {fields} }}")
        transient = [error for error in errors if error["extensions"]["code"] in ("STORE_UNAVAILABLE", "THROTTLED")]
        assert transient
        for error in transient:
            assert error["extensions"].get("retryable", False) is retryable
            assert retryable or details or "Try again" not in error["message"]
        store.is_reply_lost = True
        create = "createBadge(input: {level: 1}) { badge { level } }"
        unknown, throttled = await client_for(db, graph=GRAPH, details=details).errors(
            f"mutation {{ {create} {DELETE} }}"
        )
        assert [one["extensions"] for one in (unknown, throttled)] == [
            {"code": "OUTCOME_UNKNOWN"},
            {"code": "THROTTLED"},
        ]
