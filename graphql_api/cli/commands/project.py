"""`shardql project`: applies events from a file by the projections of a graph, and handles dead letters."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Column
from rich.text import Text

from graphql_api.cli.common_options import STORE_URLS, JsonOutput, LookupStoreUrl, option
from graphql_api.cli.exit_codes import FINDINGS, INTERRUPTED, error_exit
from graphql_api.cli.process.stop_signals import stop_signal, until_stopped
from graphql_api.cli.terminal_output import (
    counted,
    describe_progress,
    event_bar,
    new_table,
    opened_with_status,
    print_json,
)
from graphql_api.database import Database
from graphql_api.errors import EventGap, InvalidEvent, NotFound
from graphql_api.evolution import MigrationProgress, MigrationSettings
from graphql_api.model import Catalog
from graphql_api.projections import (
    DeadLetter,
    DeadLetters,
    EventFile,
    EventSource,
    LetterOutcome,
    LetterResult,
    ProjectionRun,
    ReplayResult,
    RunProgress,
    find_source,
    in_order,
    read_envelope,
    replay,
)

if TYPE_CHECKING:
    from graphql_api.server import Settings

MAX_NAMED = 10
"""streams that lack events, in the output of a replay"""


class LetterAction(StrEnum):
    """What to do with dead letters."""

    LIST = "list"
    RETRY = "retry"
    DROP = "drop"


OpenDatabase = Callable[[Catalog], AbstractAsyncContextManager[Database]]


def project(
    address: Annotated[
        str,
        typer.Argument(metavar="MODULE:GRAPH", help="The graph, for example graphql_api.examples.order_events:graph."),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="File with one event per line, as JSON.", exists=True, dir_okay=False),
    ] = None,
    *,
    source: Annotated[str, option("NAME", "Source of the events, whose projections apply them.")],
    store: Annotated[
        str | None, option("URL", f"Target store: {STORE_URLS}. By default that of shardql serve.")
    ] = None,
    lookup_store: LookupStoreUrl = None,
    tenant: Annotated[str | None, option("NAME", "Tenant that the events belong to.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on with what is added to the file, until Ctrl-C or SIGTERM.")
    ] = False,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Build the declared version= of the records from all events, and switch to it."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the operations of each event. Open no store, and change nothing.")
    ] = False,
    dead_letters: Annotated[
        LetterAction | None, option("ACTION", "List, retry or drop the events that could not be applied.")
    ] = None,
    letter: Annotated[
        list[str] | None, option("ID", "Dead letter to retry or drop; by default all. Repeat it for several.")
    ] = None,
    late: Annotated[
        bool, typer.Option("--late", help="Retry although later events were applied: it may overwrite newer values.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Drop dead letters without asking.")] = False,
    as_json: JsonOutput = False,
) -> None:
    """Apply events from a file by the projections of a source. Each event is applied exactly once.

    The table holds the position of each stream, so the same command resumes after an interruption, and skips what was
    applied. An event waits while one before it is missing in its stream. An event that cannot be applied becomes a
    dead letter in the table.

    A replay builds a new version of the records while servers use the old one, and then lets servers switch to it.
    `shardql migrate --drop` removes the version before.

    Exit codes: 0 everything applied, 1 dead letters or missing events, 2 usage, 3 store, 4 catalog.

    Try it:

    ```
    python -m graphql_api.examples.order_events 1000 > events.jsonl
    shardql project graphql_api.examples.order_events:graph events.jsonl --source orders --store sqlite:///orders.db
    ```
    """
    from graphql_api.server import load_graph, open_server_database, read_settings  # noqa: PLC0415 - slow import

    _check_options(file, dead_letters, watch=watch, dry_run=dry_run, replay=replay, letter=letter, late=late, yes=yes)
    graph = load_graph(address)
    try:
        chosen = find_source(graph.sources, source)
    except NotFound as problem:
        raise typer.BadParameter(problem.message, param_hint="--source") from problem
    if dry_run and file is not None:
        raise typer.Exit(FINDINGS if asyncio.run(_print_operations(chosen, file, as_json=as_json)) else 0)
    settings = read_settings(store=store, lookup_store=lookup_store, read_only=False)

    def open_store(catalog: Catalog) -> AbstractAsyncContextManager[Database]:
        # A replay may need a physical index that no server uses yet.
        own = settings.model_copy(update={"create_table": True}) if catalog.pinned else settings
        return opened_with_status(partial(open_server_database, catalog, own, None))

    command = _Command(
        open_store,
        graph.catalog,
        chosen,
        [*graph.sources.values()],
        tenant,
        as_json,
    )
    try:
        if dead_letters is not None:
            findings = asyncio.run(command.handle_letters(dead_letters, letter or [], late=late, asks=not yes))
        else:
            assert file is not None, "the options were checked"
            run = command.replay(file, _waits(settings)) if replay else command.apply(file, watch=watch)
            findings = asyncio.run(run)
    except EventGap as problem:
        raise error_exit(problem.message, FINDINGS) from problem
    except KeyboardInterrupt:
        raise error_exit("stopped. Run the same command again to resume.", INTERRUPTED) from None
    if findings:
        raise typer.Exit(FINDINGS)


def _check_options(file: Path | None, action: LetterAction | None, **given: Any) -> None:
    """Refuse options that do not belong together."""
    if (file is None) == (action is None):
        raise typer.BadParameter("Provide FILE or --dead-letters.")
    needed = {"letter": "retry or drop", "late": "retry", "yes": "drop"}
    for name, actions in needed.items():
        if given[name] and (action is None or action.value not in actions):
            raise typer.BadParameter(f"--{name} needs --dead-letters {actions}.")
    for name in ("watch", "replay", "dry_run"):
        if given[name] and file is None:
            raise typer.BadParameter(f"--{name.replace('_', '-')} needs FILE.")
    modes = [f"--{name.replace('_', '-')}" for name in ("watch", "replay", "dry_run") if given[name]]
    if len(modes) > 1:
        raise typer.BadParameter(f"Choose {' or '.join(modes)}.")


# --- operations ------------------------------------------------------------------------------------------------


async def _print_operations(source: EventSource, file: Path, *, as_json: bool) -> bool:
    """Print the operations of each event. Return whether an event cannot have any."""
    has_problems = False
    async for lines in EventFile(file).chunks():
        for line in lines:
            for described in _describe_event(source, line):
                has_problems |= "problem" in described
                typer.echo(orjson.dumps(described) if as_json else _event_text(described))
    return has_problems


def _describe_event(source: EventSource, line: bytes) -> Iterator[dict[str, Any]]:
    """Yield what each projection makes of an event."""
    try:
        envelope = read_envelope(line)
    except InvalidEvent as problem:
        yield {"problem": problem.message, "text": line[:200].decode(errors="replace")}
        return
    event = {"stream": envelope.stream, "seq": envelope.seq, "type": envelope.type}
    for one in source.projections:
        try:
            yield {**event, "projection": one.name, "operations": [*map(repr, one.operations(envelope))]}
        except InvalidEvent as problem:
            yield {**event, "projection": one.name, "problem": problem.message}


def _event_text(described: dict[str, Any]) -> str:
    if "type" not in described:
        return f"! {described['problem']}\n    {described['text']}"
    head = f"{described['stream'] or '(log)'} {described['seq']} {described['type']}, {described['projection']}:"
    if "problem" in described:
        return f"{head}\n  ! {described['problem']}"
    return "\n  ".join([head, *(described["operations"] or ["nothing"])])


# --- with a store ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Command:
    """One run of the command on a store."""

    open_store: OpenDatabase
    catalog: Catalog
    source: EventSource
    sources: Sequence[EventSource]
    tenant: str | None
    as_json: bool

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Database]:
        async with self.open_store(self.catalog) as database:
            yield database.scoped(tenant=self.tenant)

    async def apply(self, file: Path, *, watch: bool) -> bool:
        """Apply the events of a file. Return whether some could not be applied."""
        events = EventFile(file, watch=watch)
        async with self._opened() as database:
            run = ProjectionRun(database, self.source)
            with event_bar(file, lambda: events.offset) as show:
                if watch:
                    async with stop_signal() as stop:
                        await until_stopped(stop, self._watch(run, events, show))
                else:
                    await run.run(events.chunks(), show)
        if self.as_json:
            print_json(run.progress.as_json())
        else:
            _print_progress(run.progress)
        return run.progress.has_findings

    async def _watch(self, run: ProjectionRun, events: EventFile, show: Callable[[RunProgress], None]) -> None:
        """Follow a file. Print what holds up streams, once the file has not grown for a moment."""
        typer.echo("Press Ctrl-C to stop.", err=True)
        printed: set[str] = set()
        events_before = 0

        def watch(progress: RunProgress) -> None:
            nonlocal events_before
            show(progress)
            is_idle, events_before = progress.events == events_before, progress.events
            current = {*_problem_lines(progress)} if is_idle else printed
            for line in sorted(current - printed):
                typer.echo(line, err=True)
            printed.intersection_update(current)
            printed.update(current)

        await run.run(events.chunks(), watch)

    # --- replays -----------------------------------------------------------------------------------------------

    async def replay(self, file: Path, waits: MigrationSettings) -> bool:
        """Build the declared versions from the events of a file. Return whether servers could not switch to them."""
        events = EventFile(file)
        steps: dict[str, None] = {}

        def show_step(progress: MigrationProgress) -> None:
            if progress.step not in steps:
                typer.echo(f"{describe_progress(progress)}.", err=True)
            steps[progress.step] = None

        def chunks() -> AsyncIterator[Sequence[bytes]]:
            nonlocal events
            events = EventFile(file)
            return events.chunks()

        with event_bar(file, lambda: events.offset) as show:
            result = await replay(
                self.open_store,
                self.catalog,
                self.source,
                chunks,
                others=self.sources,
                tenant=self.tenant,
                settings=waits,
                on_step=show_step,
                on_progress=show,
            )
        if self.as_json:
            print_json(None if result is None else result.as_json())
        else:
            _print_replay(result)
        return result is not None and (result.run.has_findings or not result.is_switched)

    # --- dead letters ------------------------------------------------------------------------------------------

    async def handle_letters(self, action: LetterAction, ids: Sequence[str], *, late: bool, asks: bool) -> bool:
        """List, retry or drop dead letters. Return whether some remain of those that were chosen."""
        async with self._opened() as database:
            letters = DeadLetters(database, self.source)
            chosen = in_order(await letters.find(ids) if ids else await letters.all())
            if action is LetterAction.LIST:
                self._print_letters(chosen)
                return bool(chosen)
            if action is LetterAction.DROP and asks and chosen:
                question = f"Drop {counted(len(chosen), 'dead letter')}? Their events will never be applied."
                if not typer.confirm(question, err=True):
                    raise error_exit("nothing was changed.", FINDINGS)
            results = [
                await (letters.retry(one, late=late) if action is LetterAction.RETRY else letters.drop(one))
                for one in chosen
            ]
        self._print_results(results)
        return any(one.outcome not in {LetterOutcome.APPLIED, LetterOutcome.DROPPED} for one in results)

    def _print_letters(self, letters: Iterable[DeadLetter]) -> None:
        listed = [letter.as_json() for letter in letters]
        if self.as_json:
            print_json(listed)
        elif not listed:
            typer.echo("There are no dead letters.")
        else:
            rows = [[Text(str(one[name])) for name in ("id", "code", "reason", "attempts")] for one in listed]
            columns: list[Column | str] = ["id", "code", Column("reason", overflow="fold"), "attempts"]
            Console(highlight=False, markup=False).print(new_table(columns, rows))

    def _print_results(self, results: Sequence[LetterResult]) -> None:
        if self.as_json:
            print_json([one.as_json() for one in results])
            return
        for one in results:
            reason = f": {one.reason}" if one.reason else ""
            typer.echo(f"{one.letter.id}: {one.outcome.value}{reason}")
        if any(one.outcome is LetterOutcome.LATE for one in results):
            typer.echo("--late applies events although later ones of their streams were applied.")
        if not results:
            typer.echo("There are no dead letters.")


def _waits(settings: "Settings") -> MigrationSettings:
    return MigrationSettings(margin_seconds=settings.lease_margin_seconds, life_seconds=settings.request_life_seconds)


def _print_replay(result: ReplayResult | None) -> None:
    """Print what a replay has done."""
    if result is None:
        typer.echo("There is nothing to replay: servers use the declared version= of all entities of the source.")
        return
    _print_progress(result.run)
    versions = ", ".join(f"version {version} of {entity}" for entity, version in result.versions.items())
    if result.not_compared:
        names = ", ".join(result.not_compared)
        typer.echo(f"! The table has positions of {names}, which the graph does not declare: they were not compared.")
    if result.is_switched:
        typer.echo(f"Servers use {versions} now. Remove the version before with: shardql migrate … --drop")
        return
    typer.echo(f"Servers do not use {versions} yet: their version has events that FILE lacks.")
    for missing in result.missing[:MAX_NAMED]:
        typer.echo(f"! {missing}")
    if len(result.missing) > MAX_NAMED:
        typer.echo(f"! {len(result.missing) - MAX_NAMED:,} further streams lack events.")
    typer.echo("Add the events to FILE, and run the command again.")


def _print_progress(progress: RunProgress) -> None:
    """Print the outcomes of a run."""
    unreadable = f", {counted(progress.unreadable, 'line')} that are no events" if progress.unreadable else ""
    typer.echo(f"{counted(progress.events, 'event')} read{unreadable}.")
    for name, one in progress.projections.items():
        typer.echo(
            f"{name}: {one.applied:,} applied, {one.repeated:,} applied before, {counted(one.dead, 'dead letter')}"
        )
    for line in _problem_lines(progress):
        typer.echo(line)
    if progress.unreadable or any(one.dead or one.stopped for one in progress.projections.values()):
        typer.echo("--dead-letters list shows why events could not be applied.")


def _problem_lines(progress: RunProgress) -> Iterator[str]:
    """Yield a line for each stream that waits for a missing event, or has stopped."""
    for name, one in progress.projections.items():
        for stream, seq in one.gaps:
            count = counted(len(one.waiting[stream]), "event")
            yield f"! {name}: the event {seq} of {stream or 'the log'} is missing: {count} after it waited."
        for stream, seq in sorted(one.stopped.items()):
            yield f"! {name}: {stream or 'the log'} has stopped at the dead letter of the event {seq}."
