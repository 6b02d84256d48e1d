"""`shardql migrate`: plans and runs changes of a table that holds records."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from graphql_api.cli.common_options import CatalogAddress, JsonOutput, LookupStoreUrl, StoreUrl, option, with_names
from graphql_api.cli.exit_codes import FINDINGS, INTERRUPTED, error_exit, require_file
from graphql_api.cli.terminal_output import counted, fact_grid, migration_status, print_json
from graphql_api.connection import opened_with_lookups
from graphql_api.evolution import (
    MigrationPlan,
    MigrationResult,
    MigrationSettings,
    RecordedElement,
    TableRecord,
    Violation,
    effective_catalog,
    element_of_id,
    is_compared,
    pending_elements,
    plan_migration,
    prepare_table,
    proposed,
    reported_state,
    run_migration,
    wait_times,
)
from graphql_api.model import Catalog, load_catalog
from graphql_api.storage import Store

_SAMPLED_PARTS = 64
"""a table of an engine that bills reads is planned from one of this number of parts, if that part is large enough"""
_MIN_SAMPLED_RECORDS = 1000
_SHOWN_VIOLATIONS = 10


def migrate(
    address: CatalogAddress,
    *,
    store: StoreUrl,
    lookup_store: LookupStoreUrl = None,
    apply: Annotated[bool, typer.Option("--apply", help="Build and verify what is pending.")] = False,
    drop: Annotated[
        bool,
        typer.Option(
            "--drop", help="Also remove what this catalog no longer declares of its entities. Asks before it begins."
        ),
    ] = False,
    rate: Annotated[float | None, option("N", "Process at most N items per second.", min=0.001)] = None,
    report: Annotated[
        Path | None, option("FILE", "File for the records that violate a constraint, as JSON lines.", dir_okay=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Drop without asking.")] = False,
    as_json: JsonOutput = False,
) -> None:
    """Plan a migration: what the catalog changes in a table with records. Change nothing without --apply or --drop.

    The plan lists the pending elements, such as indexes and constraints, with the records to rewrite, the cost, the
    shortest time, and the queries that answer NOT_READY until the end.

    With --apply, all records are read, and those without the attributes of a new element are rewritten. Servers keep
    running. Run the same command again after an interruption: it resumes. Two runs at once are harmless. A record that
    violates a constraint is reported, and the constraint stays `building` until the record is corrected.

    Exit codes: 0 nothing is pending, 1 something is pending or violated, 2 usage, 3 store, 4 catalog.

    Try it:

    ```
    shardql migrate graphql_api.examples.users:catalog --store sqlite:///users.db
    ```
    """
    from graphql_api.server import read_settings  # noqa: PLC0415 - slow import

    if apply and drop:
        raise typer.BadParameter("Choose --apply or --drop: --drop includes --apply.")
    if (report or yes) and not (apply or drop):
        raise typer.BadParameter("--report and --yes need --apply or --drop.")
    require_file(store)
    settings = read_settings(store=store, lookup_store=lookup_store)
    migration = MigrationSettings(
        drop=drop,
        rate=rate,
        margin_seconds=settings.lease_margin_seconds,
        life_seconds=settings.request_life_seconds,
    )
    run = _Run(
        address,
        store,
        settings.lookup_store,
        load_catalog(address),
        migration,
        settings.read_unit_price,
        settings.write_unit_price,
    )
    if not (apply or drop):
        outlook = asyncio.run(run.plan())
        run.print_plan(outlook, as_json=as_json)
        raise typer.Exit(FINDINGS if outlook.plan.pending else 0)
    if drop and not yes:
        run.confirm(asyncio.run(run.undeclared()))
    try:
        result = asyncio.run(run.apply())
    except KeyboardInterrupt:
        raise error_exit("stopped. Run the same command again to resume.", INTERRUPTED) from None
    run.print_result(result, report, as_json=as_json)
    raise typer.Exit(0 if result.is_complete else FINDINGS)


@dataclass(frozen=True, slots=True)
class _Outlook:
    """A plan, and what it needs for its output."""

    plan: MigrationPlan
    undeclared: Sequence[RecordedElement]
    """what --drop would remove"""
    refused: Sequence[str]
    is_billed: bool


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of the command."""

    address: str
    url: str
    lookups: str | None
    """the URL of the store of the lookups"""
    catalog: Catalog
    settings: MigrationSettings
    read_unit_price: float
    write_unit_price: float

    # --- the plan ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[Store, "_Run"]]:
        """Open the store. Yield it, and the run of the catalog whose lookups are where they are kept."""
        async with opened_with_lookups(self.url, self.lookups, self.catalog) as (store, catalog):
            yield store, replace(self, catalog=catalog)

    async def plan(self) -> _Outlook:
        async with self._opened() as (store, run):
            return await run._plan(store)  # noqa: SLF001 - of the same class

    async def _plan(self, store: Store) -> _Outlook:
        record = await self._read_record(store)
        waits = wait_times(store, record, self.settings)
        parts = 1 if is_compared(store) else _SAMPLED_PARTS
        plan = await plan_migration(store, self.catalog, record, waits=waits, rate=self.settings.rate, sample=parts)
        if parts > 1 and plan.records < parts * _MIN_SAMPLED_RECORDS:
            plan = await plan_migration(store, self.catalog, record, waits=waits, rate=self.settings.rate)
        refused = self._refused_queries(record, plan) if plan.pending else []
        return _Outlook(plan, self._undeclared(record), refused, not is_compared(store))

    async def _read_record(self, store: Store) -> TableRecord:
        """Return the table's record, as an opening of the table would leave it."""
        served = await prepare_table(store, self.catalog, create_table=False, read_only=True)
        return served.record

    def _undeclared(self, record: TableRecord) -> Sequence[RecordedElement]:
        return pending_elements(record, self.catalog, drop=True).undeclared

    def _refused_queries(self, record: TableRecord, plan: MigrationPlan) -> list[str]:
        from graphql_api.cli.refused_queries import refused_queries  # noqa: PLC0415 - slow import
        from graphql_api.server import load_graph  # noqa: PLC0415 - slow import

        known = proposed(record, self.catalog)
        building = known.changed(*(replace(one, state="building") for one in plan.pending.announced))
        return refused_queries(effective_catalog(self.catalog, building), load_graph(self.address).names)

    def print_plan(self, outlook: _Outlook, *, as_json: bool) -> None:
        plan = outlook.plan
        cost = (plan.read_units * self.read_unit_price + plan.write_units * self.write_unit_price) / 1_000_000
        if as_json:
            print_json(
                {
                    "pending": [_element_as_json(one) for one in plan.pending.all],
                    "undeclared": [_element_as_json(one) for one in outlook.undeclared],
                    "records": plan.records,
                    "rewritten": plan.rewritten,
                    "unfit": plan.undecodable,
                    "readUnits": plan.read_units if outlook.is_billed else 0,
                    "writeUnits": plan.write_units if outlook.is_billed else 0,
                    "cost": cost if outlook.is_billed else 0,
                    "isExact": plan.is_exact,
                    "seconds": plan.seconds,
                    "notReadyQueries": [*outlook.refused],
                }
            )
            return
        console = Console(highlight=False, markup=False)
        if not plan.pending:
            console.print("Nothing is pending: the table has everything that the catalog declares.")
        else:
            about = "" if plan.is_exact else "about "
            facts = {action: ", ".join(names) for action, names in _by_action(plan).items()}
            facts |= {"items": f"{about}{plan.records:,} to read, {about}{plan.rewritten:,} to write"}
            if plan.undecodable:
                facts["unfit"] = f"{about}{counted(plan.undecodable, 'record')} not fit for the catalog, to be reported"
            if outlook.is_billed:
                units = f"{about}{plan.read_units:,.0f} read units and {plan.write_units:,.0f} write units"
                facts["cost"] = f"{units}, {cost:,.2f} in your currency, and the write units of new indexes"
            facts["time"] = f"at least {_duration(plan.seconds)}"
            facts["not ready"] = ", ".join(outlook.refused) or "no query"
            console.print(fact_grid(facts))
            console.print("The queries under “not ready” answer NOT_READY until the migration ends.")
            console.print(f"Run it with: {self._command('--apply')}", soft_wrap=True)
        if outlook.undeclared:
            names = ", ".join(f"{one.element}" for one in outlook.undeclared)
            console.print(f"No longer declared by this catalog: {names}.", soft_wrap=True)
            console.print(
                f"If no release in use declares them, remove them with: {self._command('--drop')}", soft_wrap=True
            )

    def _command(self, option: str) -> str:
        return with_names(f"shardql migrate MODULE:CATALOG --store URL {option}", self.address, self.url)

    # --- the migration -----------------------------------------------------------------------------------------

    async def undeclared(self) -> Sequence[RecordedElement]:
        async with self._opened() as (store, run):
            return run._undeclared(await run._read_record(store))  # noqa: SLF001 - of the same class

    def confirm(self, undeclared: Sequence[RecordedElement]) -> None:
        """Ask whether elements may be removed, if there are any."""
        if undeclared:
            names = ", ".join(f"{one.element}" for one in undeclared)
            typer.echo(f"To be removed: {names}. Releases that declare them would answer NOT_READY.", err=True)
            if not typer.confirm("Remove them?", err=True):
                raise error_exit("nothing was changed.", FINDINGS)

    async def apply(self) -> MigrationResult:
        async with self._opened() as (store, run):
            with migration_status() as show:
                return await run_migration(store, run.catalog, self.settings, show)

    def print_result(self, result: MigrationResult, report: Path | None, *, as_json: bool) -> None:
        if report is not None:
            lines = (orjson.dumps(_violation_as_json(one)) for one in result.violations)
            report.write_bytes(b"".join(line + b"\n" for line in lines))
        if as_json:
            print_json(
                {
                    "ready": [*map(_name, result.ready)],
                    "dropped": [*map(_name, result.dropped)],
                    "withdrawn": {_name(key): reason for key, reason in result.withdrawn.items()},
                    "violations": [*map(_violation_as_json, result.violations)],
                    "notes": result.notes,
                    "records": result.records,
                    "written": result.written,
                }
            )
            return
        for title, keys in (("Ready", result.ready), ("Removed", result.dropped)):
            if keys:
                typer.echo(f"{title}: {', '.join(map(_name, keys))}.")
        if not (result.ready or result.dropped or result.violations or result.withdrawn):
            typer.echo("Nothing to do: nothing is pending.")
        else:
            typer.echo(f"{counted(result.records, 'item')} read, {result.written:,} written.")
        for message in (*result.withdrawn.values(), *result.notes):
            typer.echo(f"! {message}")
        for violation in result.violations[:_SHOWN_VIOLATIONS]:
            typer.echo(f"! {', '.join(map(_name, violation.elements))}: {violation}")
        if result.violations:
            listed = f"see {report}" if report is not None else "--report FILE lists all of them"
            typer.echo(
                f"{counted(len(result.violations), 'violation')}: {listed}. Correct the records, and run the command "
                "again."
            )


def _by_action(plan: MigrationPlan) -> Mapping[str, Sequence[str]]:
    """Return the pending elements by what the migration does with them."""
    pending = plan.pending
    building = [one for one in pending.verified if one.state == "building"]
    verified = [one for one in pending.verified if one.state != "building"]
    actions = {
        "to build": pending.announced,
        "being built": building,
        "to verify": verified,
        "being removed": (*pending.closing, *pending.dropping),
    }
    return {action: [f"{one.element}" for one in elements] for action, elements in actions.items() if elements}


def _element_as_json(recorded: RecordedElement) -> dict[str, str]:
    return {"element": f"{recorded.element}", "state": reported_state(recorded)}


def _name(id: str) -> str:
    return f"{element_of_id(id)}"


def _violation_as_json(violation: Violation) -> dict[str, Any]:
    other = {} if violation.other is None else {"other": [*violation.other]}
    elements = [*map(_name, violation.elements)]
    return {"record": [*violation.record], "elements": elements, "reason": violation.reason, **other}


def _duration(seconds: float) -> str:
    """Return `2 h 5 min`, `6 min 5 s` or `3 s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
