"""Progress bars on the error stream, shown only on a terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from graphql_api.ops import LoadProgress


@contextmanager
def file_bar(file: Path) -> Iterator[Callable[[LoadProgress], None]]:
    """Show the bytes read of a file, the records per second and the number of rejected lines."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[records]:,} records, {task.fields[rate]:,.0f}/s, {task.fields[rejected]:,} rejected"),
        TimeRemainingColumn(),
    )
    with _bar(*columns) as bar:
        task = bar.add_task(file.name, total=file.stat().st_size, records=0, rate=0, rejected=0)
        started = time.monotonic()
        written_before = -1

        def show(progress: LoadProgress) -> None:
            nonlocal written_before
            if written_before < 0:
                written_before = progress.written  # Written by an earlier load that was stopped.
            bar.update(
                task,
                completed=progress.offset,
                records=progress.written,
                rate=(progress.written - written_before) / max(time.monotonic() - started, 0.001),
                rejected=progress.rejected,
            )

        yield show


@contextmanager
def sample_bar() -> Iterator[Callable[[int], None]]:
    """Show the number of records written, and the records per second."""
    columns = (
        TextColumn("sample data"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} records, {task.fields[rate]:,.0f}/s"),
    )
    with _bar(*columns) as bar:
        task = bar.add_task("", total=None, rate=0)
        started = time.monotonic()

        def show(written: int) -> None:
            bar.update(task, completed=written, rate=written / max(time.monotonic() - started, 0.001))

        yield show


def _bar(*columns: ProgressColumn) -> Progress:
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
