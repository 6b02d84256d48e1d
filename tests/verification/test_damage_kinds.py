"""Damage of every kind, planted on each engine: what is found, and what a repair restores."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from graphql_api import open_catalog
from graphql_api.storage import Item, Key, Put, Store
from graphql_api.storage.engines import opened_store
from graphql_api.verification import Damage, Finding, VerificationResult, VerificationSettings, verify_table
from graphql_api.writes import item_key
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.support.run_depth import is_deep
from tests.support.store_doubles import all_items
from tests.verification.damage_kinds import KINDS
from tests.verification.damaged_tables import CATALOG, NOW, SECRETS, Tenant, write_records

HEALTHY = "healthy"
SETTINGS = VerificationSettings(clock=lambda: NOW)


@dataclass
class Outcome:
    """What verifications of a table with all kinds of damage have found, each kind in a tenant of its own."""

    found: VerificationResult
    repaired: VerificationResult
    after: VerificationResult
    tenants: Mapping[str, Tenant]
    subjects: Mapping[str, Key]
    damaged: Mapping[str, Mapping[Key, Item]] = field(default_factory=dict)
    repaired_items: Mapping[str, Mapping[Key, Item]] = field(default_factory=dict)

    def findings(self, kind: str, result: VerificationResult) -> list[Finding]:
        """Returns the findings in the tenant of a kind."""
        return [one for one in result.findings if one.record.hash.startswith(f"{kind}|")]


async def items_by_tenant(store: Store) -> dict[str, dict[Key, Item]]:
    """Returns all items, but those that the table keeps about itself."""
    found: dict[str, dict[Key, Item]] = {}
    for item in await all_items(store):
        tenant, separator, _ = item["hashKey"].partition("|")
        if separator:
            found.setdefault(tenant, {})[item_key(item)] = item
    return found


def copied(value: Any, tenant: str) -> Any:
    """Returns an item of the healthy tenant as another tenant has it."""
    if isinstance(value, dict):
        return {name: copied(part, tenant) for name, part in value.items()}
    if isinstance(value, list):
        return [copied(part, tenant) for part in value]
    return value.replace(f"{HEALTHY}|", f"{tenant}|") if isinstance(value, str) else value


async def damage_and_repair(url: str, kinds: Sequence[str]) -> Outcome:
    """Plants each kind of damage in a tenant of its own, verifies the table, repairs it, and verifies it again."""
    async with open_catalog(CATALOG, url, secrets=SECRETS, clock=lambda: NOW, create_table=True) as db:
        await write_records(db.scoped(tenant=HEALTHY))
    async with opened_store(url) as store:
        healthy = (await items_by_tenant(store))[HEALTHY].values()
        for tenant in kinds:
            assert not any(await store.write([Put(copied(item, tenant)) for item in healthy]))
        stored = await items_by_tenant(store)
        tenants = {name: Tenant(store, name, stored[name]) for name in kinds}
        subjects = {name: await KINDS[name].plant(tenant) for name, tenant in tenants.items()}
        damaged = await items_by_tenant(store)
        found = await verify_table(store, CATALOG, SETTINGS)
        assert await items_by_tenant(store) == damaged, "a verification changes nothing"
        repaired = await verify_table(store, CATALOG, VerificationSettings(clock=lambda: NOW, repair=True))
        repaired_items = await items_by_tenant(store)
        after = await verify_table(store, CATALOG, SETTINGS)
    return Outcome(found, repaired, after, tenants, subjects, damaged, repaired_items)


def without_write_ids(items: Mapping[Key, Item], ignored: set[Key]) -> dict[Key, Item]:
    """Returns items without what every write changes."""
    return {
        key: {name: value for name, value in item.items() if name != "_w"}
        for key, item in items.items()
        if key not in ignored
    }


def problems_of(outcome: Outcome, name: str) -> Iterator[str]:
    """Yields what is wrong with the findings and the repair of one kind of damage."""
    kind, subject, findings = KINDS[name], outcome.subjects[name], outcome.findings(name, outcome.found)
    main = [one for one in findings if one.damage is kind.damage and one.record == subject]
    if [(one.is_derivable, one.is_repaired) for one in main] != [(kind.is_derivable, False)]:
        yield f"it is not found once: {findings}"
    if not {one.damage for one in findings} <= {kind.damage, *kind.also}:
        yield f"more is found: {findings}"
    yield from _derived_problems(outcome, name) if kind.is_derivable else _left_problems(outcome, name)


def _derived_problems(outcome: Outcome, name: str) -> Iterator[str]:
    """Yields what is wrong with the repair of damage that can be derived: the items are as they were before."""
    if outcome.findings(name, outcome.after):
        yield f"something is found after the repair: {outcome.findings(name, outcome.after)}"
    if not all(one.is_repaired for one in outcome.findings(name, outcome.repaired)):
        yield f"something is not repaired: {outcome.findings(name, outcome.repaired)}"
    tenant = outcome.tenants[name]
    if without_write_ids(outcome.repaired_items[name], set()) != without_write_ids(tenant.items, tenant.removed):
        yield "the repaired items differ from those before the damage"


def _left_problems(outcome: Outcome, name: str) -> Iterator[str]:
    """Yields what is wrong with the repair of damage that cannot be derived: it is reported, and nothing changes."""
    kind, subject = KINDS[name], outcome.subjects[name]
    left = [one for one in outcome.findings(name, outcome.repaired) if one.record == subject]
    if [one.is_repaired for one in left if one.damage is kind.damage] != [False]:
        yield f"it is not reported by the repair: {left}"
    if outcome.repaired_items[name].get(subject) != outcome.damaged[name].get(subject):
        yield "the repair has changed it"
    if subject not in {one.record for one in outcome.findings(name, outcome.after)}:
        yield "it is not found after the repair"
    if not kind.damage.remedy:
        yield "it has no remedy"


def assert_all_found_and_repaired(outcome: Outcome) -> None:
    """Checks every kind of damage in a table, and that nothing is reported of healthy records."""
    assert outcome.found.left_out == []
    for result in (outcome.found, outcome.repaired, outcome.after):
        assert outcome.findings(HEALTHY, result) == []
    problems = {name: [*problems_of(outcome, name)] for name in outcome.subjects}
    assert {name: found for name, found in problems.items() if found} == {}


def test_damage_is_found_and_repaired(tmp_path: Path) -> None:
    """Each kind of damage is found. A repair restores what can be derived, and leaves and reports the rest."""
    assert_all_found_and_repaired(asyncio.run(damage_and_repair(f"sqlite:///{tmp_path / 'table.db'}", [*KINDS])))


def test_damage_is_found_and_repaired_on_dynamodb(dynamodb: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds on DynamoDB. A quick run plants a share of the kinds."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    url = f"dynamodb://damage-{uuid4().hex}?endpoint={dynamodb.endpoint}&region={REGION}&deadline=60&read_seconds=30"
    kinds = [*KINDS][:: 1 if is_deep() else 4]
    assert_all_found_and_repaired(asyncio.run(damage_and_repair(url, kinds)))


def test_enough_kinds() -> None:
    """At least 40 kinds are planted, and each kind of damage is among them, but that of the table's own record."""
    assert len(KINDS) >= 40
    assert {kind.damage for kind in KINDS.values()} == {*Damage} - {Damage.TABLE_RECORD}
