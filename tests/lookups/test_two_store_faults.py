"""A fault at each step of the writes to two stores: exactly the outcomes that the order of the steps allows."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.writes import lookup_store as lookup_store_module
from graphql_api.writes import transactions
from tests.lookups.two_stores import (
    Fault,
    Killed,
    User,
    check_consistent,
    found,
    mapped,
    reconcile,
    two_stores,
    with_fault,
)
from tests.support.fake_clock import FakeClock
from tests.support.store_doubles import all_items

OLD, NEW = "1", "2"
STEPS = {
    "insert": ["mapping put", "record write"],
    "update": ["record write", "mapping put", "mapping read", "mapping delete"],
    "delete": ["record write", "mapping read", "mapping delete"],
}
"""the steps of each write, in order"""
KINDS = ["fails", "reply lost", "killed before", "killed after"]

OUTCOMES = """
write  | step           | fault         | caller            | record | by old | by new | mapping items
insert | mapping put    | fails         | STORE_UNAVAILABLE | none   |        |        |
insert | mapping put    | reply lost    | STORE_UNAVAILABLE | none   |        |        | new dangles
insert | mapping put    | killed before | killed            | none   |        |        |
insert | mapping put    | killed after  | killed            | none   |        |        | new dangles
insert | record write   | fails         | OUTCOME_UNKNOWN   | none   |        |        | new dangles
insert | record write   | reply lost    | OUTCOME_UNKNOWN   | new    |        | found  | new
insert | record write   | killed before | killed            | none   |        |        | new dangles
insert | record write   | killed after  | killed            | new    |        | found  | new
insert | none           |               | written           | new    |        | found  | new
update | record write   | fails         | STORE_UNAVAILABLE | old    | found  |        | old
update | record write   | reply lost    | STORE_UNAVAILABLE | new    |        | missed | old dangles
update | record write   | killed before | killed            | old    | found  |        | old
update | record write   | killed after  | killed            | new    |        | missed | old dangles
update | mapping put    | fails         | written           | new    |        | missed | old dangles
update | mapping put    | reply lost    | written           | new    |        | found  | old dangles, new
update | mapping put    | killed before | killed            | new    |        | missed | old dangles
update | mapping put    | killed after  | killed            | new    |        | found  | old dangles, new
update | mapping read   | fails         | written           | new    |        | found  | old dangles, new
update | mapping read   | reply lost    | written           | new    |        | found  | old dangles, new
update | mapping read   | killed before | killed            | new    |        | found  | old dangles, new
update | mapping read   | killed after  | killed            | new    |        | found  | old dangles, new
update | mapping delete | fails         | written           | new    |        | found  | old dangles, new
update | mapping delete | reply lost    | written           | new    |        | found  | new
update | mapping delete | killed before | killed            | new    |        | found  | old dangles, new
update | mapping delete | killed after  | killed            | new    |        | found  | new
update | none           |               | written           | new    |        | found  | new
delete | record write   | fails         | STORE_UNAVAILABLE | old    | found  |        | old
delete | record write   | reply lost    | STORE_UNAVAILABLE | none   |        |        | old dangles
delete | record write   | killed before | killed            | old    | found  |        | old
delete | record write   | killed after  | killed            | none   |        |        | old dangles
delete | mapping read   | fails         | written           | none   |        |        | old dangles
delete | mapping read   | reply lost    | written           | none   |        |        | old dangles
delete | mapping read   | killed before | killed            | none   |        |        | old dangles
delete | mapping read   | killed after  | killed            | none   |        |        | old dangles
delete | mapping delete | fails         | written           | none   |        |        | old dangles
delete | mapping delete | reply lost    | written           | none   |        |        |
delete | mapping delete | killed before | killed            | none   |        |        | old dangles
delete | mapping delete | killed after  | killed            | none   |        |        |
delete | none           |               | written           | none   |        |        |
"""
"""what document 001 lists: an insert never leaves a record without its mapping item, an update may until it is
reconciled, and all else that is left over dangles"""


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries follow at once."""
    for module, name in ((transactions, "OUTCOME_RETRIES"), (lookup_store_module, "REPAIR_RETRIES")):
        monkeypatch.setattr(module, name, replace(getattr(module, name), first_backoff_seconds=0.0))


def _cases() -> Iterator[tuple[str, str, str]]:
    for write, steps in STEPS.items():
        yield from ((write, step, kind) for step in steps for kind in KINDS)
        yield write, "none", ""


async def _write(db: Database, write: str) -> str:
    try:
        match write:
            case "insert":
                await db.create(User, user_id="u", phone=NEW)
            case "update":
                await db.update(User, "u", phone=NEW)
            case _:
                await db.delete(User, "u")
    except ShardQLError as problem:
        return problem.code
    except Killed:
        return "killed"
    return "written"


async def _outcome(db: Database, clock: FakeClock, write: str, fault: Fault) -> str:
    if write != "insert":
        await db.create(User, user_id="u", phone=OLD)
        clock.now += 10_000  # Its mapping item is no longer in flight.
    caller = await _write(with_fault(db, fault), write)
    record = await db.get(User, "u")
    phone = None if record is None else record.phone
    by_old, by_new = await found(db, OLD), await found(db, NEW)
    assert by_old == (["u"] if phone == OLD else []), "no search finds a record without the value"
    assert by_new in ([], ["u"])
    assert by_new == [] or phone == NEW
    names = {OLD: "old", NEW: "new"}
    mappings = ", ".join(
        f"{names[value]}{'' if is_needed else ' dangles'}" for value, is_needed in (await mapped(db, "u")).items()
    )
    state = "none" if record is None else names[f"{phone}"]
    finds = "found" if by_new else "missed" if phone == NEW else ""
    cells = (write, fault.step, fault.kind, caller, state, "found" if by_old else "", finds, mappings)
    widths = (6, 14, 13, 17, 6, 6, 6, 0)
    return " | ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


async def test_a_fault_at_each_step(tmp_path: Path) -> None:
    """Each fault has exactly the outcome of the table, and a reconciliation after the grace age leaves none of it."""
    clock, lines = FakeClock(), [OUTCOMES.strip().splitlines()[0]]
    async with two_stores(tmp_path, clock) as db:
        for number, (write, step, kind) in enumerate(_cases()):
            fault = Fault(step, kind)
            lines.append(await _outcome(db.scoped(tenant=f"t{number}"), clock, write, fault))
            assert step == "none" or step in fault.steps, "the fault has happened"
            assert step != "none" or fault.steps == STEPS[write]
        print("\n".join(["", *lines]))  # noqa: T201 - pytest -s shows the table
        assert lines == OUTCOMES.strip().splitlines()
        before = await all_items(db.store)
        first = await reconcile(db)
        assert await all_items(db.store) == before, "without --apply nothing changes"
        assert first.missing.total() == sum(" missed " in line for line in lines)
        assert first.dangling.total() + first.in_flight.total() == sum("dangles" in line for line in lines)
        clock.now += 10_000
        result = await reconcile(db, apply=True)
        assert (result.remaining, result.in_flight.total()) == (0, 0)
        await check_consistent(db)
        assert (await reconcile(db)).listed == []
