"""`shardql verify`: verifies what a store holds, once or again and again, or compares two stores."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from logging import INFO, WARNING, getLogger
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from graphql_api.cli.common_options import CatalogAddress, JsonOutput, LookupStoreUrl, StoreUrl, option, with_names
from graphql_api.cli.exit_codes import FINDINGS, INTERRUPTED, error_exit
from graphql_api.cli.terminal_output import print_json, step_status
from graphql_api.cli.verification_output import ComparisonOutcome, Outcome, VerificationOutcome
from graphql_api.connection import opened_with_lookups
from graphql_api.errors import WrongTable, nearest
from graphql_api.evolution import CREATE_TABLE_REMEDY, prepare_table
from graphql_api.model import Catalog, load_catalog
from graphql_api.storage import Store
from graphql_api.storage.engines import store_file
from graphql_api.verification import (
    SETTLE_SECONDS,
    ComparisonSettings,
    Damage,
    DifferenceKind,
    VerificationSettings,
    compare_stores,
    verify_table,
)

log = getLogger("shardql")

_METRICS_ADDRESS = "127.0.0.1:9464"
_DAMAGE_BY_LABEL = {damage.label: damage for damage in Damage}


def verify(
    address: CatalogAddress,
    *,
    store: StoreUrl,
    lookup_store: LookupStoreUrl = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Restore what other data determines. Report what it does not.")
    ] = False,
    against: Annotated[str | None, option("URL", "Compare the store with this one, instead of verifying it.")] = None,
    sample: Annotated[
        int | None, option("N", "Verify about N records, at even distances in every shard.", min=1)
    ] = None,
    tenant: Annotated[
        list[str] | None, option("NAME", "Tenant whose records a sample contains. Repeat it for several.")
    ] = None,
    ignore: Annotated[
        list[str] | None, option("KIND", "Kind of damage to ignore, such as expired. Repeat it for several.")
    ] = None,
    rate: Annotated[float | None, option("N", "Read at most N items per second.", min=0.001)] = None,
    report: Annotated[Path | None, option("FILE", "File for all findings, as JSON lines.", dir_okay=False)] = None,
    resume: Annotated[
        Path | None,
        option("FILE", "File for the progress of a comparison, to resume it after an interruption.", dir_okay=False),
    ] = None,
    settle: Annotated[
        float | None,
        option(
            "SECONDS", "Time that a write needs to reach both stores: the pause of a comparison, by default 2.", min=0
        ),
    ] = None,
    watch: Annotated[
        float | None, option("SECONDS", "Repeat at this interval, until Ctrl-C or SIGTERM.", min=0)
    ] = None,
    metrics: Annotated[
        str | None, option("HOST:PORT", f"Address of the metrics of --watch, by default {_METRICS_ADDRESS}.")
    ] = None,
    as_json: JsonOutput = False,
) -> None:
    """Verify that stored items are what the table's elements derive from the records. Change nothing without --repair.

    Every item is read: index keys, derived properties, unique and reference items, current records, counters, shards.
    What seems wrong is read again until it holds still, so servers may keep writing. Elements that are not ready are
    named, and not verified.

    With --against, two stores are compared: also of different engines, and also while the same writes reach both.

    Exit codes: 0 nothing is wrong or all was repaired, 1 findings or unsettled items, 2 usage, 3 store, 4 catalog.

    Try it:

    ```
    shardql verify graphql_api.examples.users:catalog --store sqlite:///users.db
    ```
    """
    _check_options(
        "--against", is_given=against is not None,
        excludes={
            "--repair": repair, "--sample": sample, "--tenant": tenant, "--ignore": ignore,
            "--lookup-store": lookup_store,
        },
        needed_by={"--resume": resume, "--settle": settle is not None},
    )  # fmt: skip
    _check_options(
        "--watch", is_given=watch is not None, excludes={"--resume": resume}, needed_by={"--metrics": metrics}
    )
    _check_options("--sample", is_given=sample is not None, needed_by={"--tenant": tenant})
    settings = VerificationSettings(
        repair=repair,
        sample=sample,
        tenants=tenant or (None,),
        ignored=frozenset(map(_parse_damage, ignore or ())),
        rate=rate,
    )
    stores = (store,) if against is None else (store, against)
    pause = SETTLE_SECONDS if settle is None else settle
    comparison = ComparisonSettings(progress_file=resume, rate=rate, settle_seconds=pause)
    run = _Run(address, load_catalog(address), stores, lookup_store, settings, comparison, report, as_json)
    if watch is not None:
        run.watch(watch, metrics or _METRICS_ADDRESS)
        return
    try:
        outcome = asyncio.run(run.once())
    except KeyboardInterrupt:
        remedy = "" if resume is None else " Run the same command again to resume."
        raise error_exit(f"stopped.{remedy}", INTERRUPTED) from None
    raise typer.Exit(FINDINGS if outcome.remaining or outcome.unsettled else 0)


def _check_options(
    name: str, *, is_given: bool, excludes: Mapping[str, Any] | None = None, needed_by: Mapping[str, Any]
) -> None:
    """Refuse options that another one excludes, or that are without effect if it is missing."""
    for other, value in (excludes or {}).items():
        if is_given and value:
            raise typer.BadParameter(f"Choose {name} or {other}.")
    for other, value in needed_by.items():
        if value and not is_given:
            raise typer.BadParameter(f"{other} needs {name}.")


def _parse_damage(text: str) -> Damage:
    damage = _DAMAGE_BY_LABEL.get(text)
    if damage is None:
        raise typer.BadParameter(f"{text!r} is no kind of damage.{nearest(text, [*_DAMAGE_BY_LABEL])}")
    return damage


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of the command."""

    address: str
    catalog: Catalog
    urls: tuple[str, ...]
    """of one store, or of two that are compared"""
    lookups: str | None
    """the URL of the store of the lookups"""
    settings: VerificationSettings
    comparison: ComparisonSettings
    report: Path | None
    as_json: bool

    async def once(self) -> Outcome:
        """Verify or compare once. Print the outcome."""
        with step_status("comparing" if len(self.urls) > 1 else "verifying") as show:
            outcome = await self._pass(lambda items: show("", f"{items:,} items read"))
        self._write_report(outcome)
        if self.as_json:
            print_json(outcome.as_json())
        else:
            outcome.print(Console(highlight=False, markup=False), self.report)
        return outcome

    async def _pass(self, on_progress: Callable[[int], None]) -> Outcome:
        """Open the stores, and verify or compare them."""
        for url in self.urls:
            file = store_file(url)
            if file is not None and not file.exists():
                raise self._no_table(url)  # Opening the store would create the file.
        async with AsyncExitStack() as stack:
            openings = [opened_with_lookups(url, self.lookups, self.catalog) for url in self.urls]
            opened = [await stack.enter_async_context(opening) for opening in openings]
            stores, catalog = [store for store, _ in opened], opened[0][1]
            for store, url in zip(stores, self.urls, strict=True):
                await self._check_table(store, catalog, url)
            if len(stores) == 1:
                result = await verify_table(stores[0], catalog, self.settings, lambda result: on_progress(result.items))
                return VerificationOutcome(result)
            names = self.urls[0], self.urls[1]
            compared = await compare_stores(
                (stores[0], stores[1]), self.catalog, names, self.comparison, lambda items: on_progress(sum(items))
            )
            return ComparisonOutcome(compared)

    async def _check_table(self, store: Store, catalog: Catalog, url: str) -> None:
        if await store.describe() is None:
            raise self._no_table(url)
        await prepare_table(store, catalog, read_only=True)

    def _no_table(self, url: str) -> WrongTable:
        return WrongTable(f"There is no table. {with_names(CREATE_TABLE_REMEDY, self.address, url)}")

    def _write_report(self, outcome: Outcome) -> None:
        """Write the report, in place of an earlier one."""
        if self.report is not None:
            written = self.report.with_name(f"{self.report.name}.part")
            written.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in outcome.report_lines()))
            written.replace(self.report)

    # --- again and again ---------------------------------------------------------------------------------------

    def watch(self, seconds: float, address: str) -> None:
        """Verify or compare until a stop signal."""
        from graphql_api.cli.process.log_output import configure_logging  # noqa: PLC0415 - slow import
        from graphql_api.cli.process.verify_watch import (  # noqa: PLC0415 - slow import
            PassSummary,
            WatchMetrics,
            served_metrics,
            watch,
        )
        from graphql_api.server import read_settings  # noqa: PLC0415 - slow import

        log_settings = read_settings(store=self.urls[0])
        configure_logging(log_settings.log_level, log_settings.log_format)
        kinds = [damage.label for damage in Damage] if len(self.urls) == 1 else [kind.value for kind in DifferenceKind]
        metrics = WatchMetrics(tuple(kinds))

        async def run_pass() -> PassSummary:
            counted = 0

            def count(items: int) -> None:
                nonlocal counted
                metrics.count_items(items - counted)
                counted = items

            outcome = await self._pass(count)
            self._write_report(outcome)
            self._log(outcome)
            return PassSummary(outcome.remaining, outcome.repaired, len(outcome.unsettled))

        with served_metrics(metrics, address) as url:
            typer.echo(f"Metrics are served at {url}. Press Ctrl-C to stop.")
            asyncio.run(watch(run_pass, metrics, seconds))

    def _log(self, outcome: Outcome) -> None:
        """Log the findings of a pass; with --json, print them as one line."""
        if self.as_json:
            typer.echo(orjson.dumps(outcome.as_json()))
        else:
            log.log(WARNING if any(outcome.remaining.values()) else INFO, "%s", outcome.summary)
