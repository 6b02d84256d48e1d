"""Prints JSON, tables, labelled lines, pages of searches with their explain output, and progress bars."""

import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import orjson
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from graphql_api.database import Database
from graphql_api.evolution import MigrationProgress, ProgressCallback
from graphql_api.model import EntitySpec, PropertySpec
from graphql_api.ops import LoadProgress
from graphql_api.projections import RunProgress
from graphql_api.query.execution import Page


def replace_unencodable_output() -> None:
    """Print question marks for characters that the encoding of the terminal lacks, instead of failing."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def print_json(value: Any) -> None:
    """Print a value as indented JSON. Decimals are whole numbers."""
    typer.echo(orjson.dumps(value, default=int, option=orjson.OPT_INDENT_2))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 record`, `2,000 records`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def elapsed(started: float) -> str:
    """Return the seconds since a moment of the monotonic clock."""
    return f"{time.monotonic() - started:,.1f} s"


def new_table(
    columns: Iterable[Column | str], rows: Iterable[Iterable[str | Text]], *, show_footer: bool = False
) -> Table:
    """Return a table without borders."""
    table = Table(*columns, box=SIMPLE_HEAD, pad_edge=False, show_footer=show_footer)
    for row in rows:
        table.add_row(*row)
    return table


def fact_grid(facts: Mapping[str, str]) -> Table:
    """Return labelled lines."""
    grid = Table.grid(Column(style="dim", no_wrap=True), Column(overflow="fold"), padding=(0, 2))
    for name, value in facts.items():
        grid.add_row(name, Text(value))
    return grid


def print_group(console: Console, title: str, *parts: RenderableType) -> None:
    """Print tables and texts with a title, and an empty line."""
    console.print(Group(Text(title, style="bold"), *parts, ""))


def print_page(console: Console, title: str, entity: EntitySpec, columns: Sequence[str], page: Page[Any]) -> None:
    """Print a page with a title, these properties, and its explain output."""
    properties = [entity.properties[name] for name in columns]
    rows = [[Text(_cell(part, getattr(record, part.name))) for part in properties] for record in page.items]
    table = new_table([Column(part.stored, no_wrap=True) for part in properties], rows)
    read = page.explain["read"]
    facts = {
        **plan_facts(page.explain),
        "work": f"rounds {read['rounds']}, reads {read['reads']}, records read {read['recordsRead']}, "
        f"fetched {read['fetched']}, returned {read['returned']}",
        "nextToken": page.next_token or "null: this is the last page",
    }
    print_group(console, title, table, fact_grid(facts))


def _cell(part: PropertySpec, value: Any) -> str:
    if value is None:
        return "–"
    return str(value) if part.codec is None else part.codec.display(value)


def plan_facts(plan: Mapping[str, Any]) -> dict[str, str]:
    """Return a plan as labelled lines: indexes, key ranges, shards, and how rows are filtered, sorted and fetched."""
    facts = {"why": plan["why"]} if "why" in plan else {}
    members = plan.get("indexes", [plan])
    for number, member in enumerate(members, 1):
        suffix = f" {number}" if len(members) > 1 else ""
        bounds = member["range"]
        physical = "mapping items" if "lookup" in member else member["physicalIndex"] or "the table itself"
        direction = ", reversed" if plan["reverse"] else ""
        facts[f"index{suffix}"] = f"{member['index']} ({physical}), by {', '.join(member['order'])}{direction}"
        facts[f"range{suffix}"] = f"{bounds['from'] or 'the beginning'}  …  {bounds['to'] or 'the end'}"
    keys = plan["hashKeys"]
    listed = ", ".join(keys) if len(keys) <= 4 else f"{', '.join(keys[:3])} … {keys[-1]}"
    facts["shards"] = f"{plan['shards']}: {listed}"
    if "filter" in plan:
        tested = plan["filter"]
        late = f"; on whole records: {'; '.join(tested['testedOnRecords'])}" if tested["testedOnRecords"] else ""
        facts["filter"] = f"{tested['conditions']}{late}"
    if "sortedBy" in plan:
        facts["sorted by"] = plan["sortedBy"]
    if "fetchesRecords" in plan:
        is_lookup = "lookup" in plan
        reason = "which the mapping items name" if is_lookup else "since the index is not covering"
        facts["fetches"] = f"the records by key, {reason}"
    return facts


# --- progress bars: on the error stream, and only on a terminal -------------------------------------------------


@contextmanager
def file_bar(file: Path) -> Iterator[Callable[[LoadProgress], None]]:
    """Show the bytes read of a file, the records per second and the number of rejected lines."""
    counts = "{task.fields[records]:,} records, {task.fields[rate]:,.0f}/s, {task.fields[rejected]:,} rejected"
    columns = (BarColumn(), DownloadColumn(), TextColumn(counts), TimeRemainingColumn())
    written_before = -1
    with _bar(file.name, file.stat().st_size, *columns) as update:

        def show(progress: LoadProgress) -> None:
            nonlocal written_before
            if written_before < 0:
                written_before = progress.written  # Written by an earlier load that was stopped.
            update(progress.offset, progress.written - written_before, progress.written, progress.rejected)

        yield show


@contextmanager
def record_bar(title: str) -> Iterator[Callable[[int], None]]:
    """Show the number of records written, and the records per second."""
    columns = BarColumn(), TextColumn("{task.completed:,.0f} records, {task.fields[rate]:,.0f}/s")
    with _bar(title, None, *columns) as update:
        yield lambda written: update(written, written)


@contextmanager
def event_bar(file: Path, offset: Callable[[], int]) -> Iterator[Callable[[RunProgress], None]]:
    """Show the bytes read of a file of events, the events per second, and the dead letters."""
    counts = "{task.fields[records]:,} events, {task.fields[rate]:,.0f}/s, {task.fields[rejected]:,} dead letters"
    columns = (BarColumn(), DownloadColumn(), TextColumn(counts), TimeRemainingColumn())
    with _bar(file.name, file.stat().st_size, *columns) as update:

        def show(progress: RunProgress) -> None:
            dead = progress.unreadable + sum(one.dead for one in progress.projections.values())
            update(offset(), progress.events, progress.events, dead)

        yield show


_LINE_SECONDS = 10.0
"""between two lines on a step, where there is no terminal"""


@contextmanager
def step_status(title: str, delay: float = 0.0) -> Iterator[Callable[[str, str], None]]:
    """Show the step of a long task, once it has taken longer than a delay. Without a terminal, print lines.

    The yielded function takes the step, and the step with what was done so far.
    """
    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    started = time.monotonic()
    printed_step, printed_at = "", started
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, visible=False)

        def show(step: str, text: str) -> None:
            nonlocal printed_step, printed_at
            now = time.monotonic()
            if now - started < delay:
                return
            bar.update(task, description=text, visible=True)
            is_due = step != printed_step or now - printed_at >= _LINE_SECONDS
            if is_due and not console.is_terminal:
                printed_step, printed_at = step, now
                typer.echo(f"{title}: {text}", err=True)

        yield show


@contextmanager
def migration_status(delay: float = 0.0) -> Iterator[Callable[[MigrationProgress], None]]:
    """Show the step of a migration, once it has taken longer than a delay."""
    with step_status("migrating the table", delay) as show:
        yield lambda progress: show(progress.step, describe_progress(progress))


@asynccontextmanager
async def opened_with_status(
    open_database: Callable[[ProgressCallback], AbstractAsyncContextManager[Database]],
) -> AsyncIterator[Database]:
    """Open a database, and show the migration of its table if that takes longer than a second."""
    with ExitStack() as status:
        show = status.enter_context(migration_status(delay=1.0))
        async with open_database(show) as database:
            status.close()
            yield database


def describe_progress(progress: MigrationProgress) -> str:
    """Return the step of a migration, with its counts or the time that is left."""
    if progress.seconds_left is not None:
        return f"{progress.step}, {progress.seconds_left:,.0f} s left"
    percent = "" if progress.percent is None else f", {progress.percent} %"
    counts = f", {counted(progress.records, 'item')} read, {progress.written:,} written"
    return f"{progress.step}{percent}{counts if progress.records else ''}"


@contextmanager
def _bar(title: str, total: int | None, *columns: ProgressColumn) -> Iterator[Callable[..., None]]:
    """Show a bar. The yielded function sets its position, the records that were timed, and the counts shown."""
    console = Console(stderr=True)
    description = TextColumn("{task.description}", markup=False)
    with Progress(description, *columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total, rate=0, records=0, rejected=0)
        started = time.monotonic()

        def update(completed: int, timed: int, records: int = 0, rejected: int = 0) -> None:
            rate = timed / max(time.monotonic() - started, 0.001)
            bar.update(task, completed=completed, rate=rate, records=records, rejected=rejected)

        yield update
