"""One run of `scripts/bench`: measures the chosen groups of rows and reports them."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks import (
    bench_sizes,
    depth_workloads,
    dynamodb_workloads,
    join_workloads,
    page_workloads,
    report,
    resource_workloads,
    search_workloads,
    startup_workloads,
    write_workloads,
)
from tests.benchmarks.bench_sizes import Sizes
from tests.benchmarks.contestants import Contestants, make_contestants
from tests.benchmarks.measurement import Row
from tests.benchmarks.pictures import draw_pictures

Workload = Callable[[Contestants, Sizes], list[Row]]

WORKLOADS: Mapping[str, Workload] = {
    "sqlite-pages": page_workloads.sqlite_pages,
    "sqlite-shards": page_workloads.sqlite_shards,
    "depth": depth_workloads.page_depths,
    "search": search_workloads.searches,
    "execution": search_workloads.executions,
    "http": search_workloads.http_added,
    "load": write_workloads.loads,
    "create": write_workloads.creates,
    "joins": join_workloads.joins,
    "start": startup_workloads.starts,
    "schema": startup_workloads.schemas,
    "memory": resource_workloads.idle_memory,
    "dynamodb-pages": dynamodb_workloads.dynamodb_pages,
    "dynamodb-query": dynamodb_workloads.dynamodb_query,
}

"""in the order of the report"""
LONG_WORKLOADS: Mapping[str, Workload] = {"concurrency": resource_workloads.concurrent_pages}
"""only with `--full`, or if they are named"""


def chosen_sizes(*, full: bool, tiny: bool) -> Sizes:
    """Return the sizes of a run."""
    if tiny:
        return bench_sizes.TINY
    return bench_sizes.FULL if full else bench_sizes.QUICK


def chosen_workloads(words: Sequence[str], *, full: bool) -> dict[str, Workload]:
    """Return the groups of a run."""
    everything = {**WORKLOADS, **LONG_WORKLOADS}
    if words:
        return {name: each for name, each in everything.items() if any(word in name for word in words)}
    return everything if full else {**WORKLOADS}


def run(words: Sequence[str], sizes: Sizes, *, full: bool, json: Path | None, pictures: bool) -> int:
    """Measure the groups whose names contain a word, and print their rows."""
    with TemporaryDirectory(prefix="shardql-bench-") as folder:
        contestants = make_contestants(Path(folder))
        settings = report.settings(contestants, sizes)
        print(report.format_settings(settings))
        printed = _print_skipped(contestants, 0)
        print(f"\n{report.HEADER}", flush=True)
        rows: list[Row] = []
        for name, measure in chosen_workloads(words, full=full).items():
            started = time.monotonic()
            try:
                with contestants.stage():
                    found = measure(contestants, sizes)
            except BaseException:
                _print_logs(Path(folder))
                raise
            rows += found
            printed = _print_skipped(contestants, printed)
            for row in found:
                print(report.format_row(row), flush=True)
            print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        figures = draw_pictures(contestants, sizes) if pictures else None
    print(f"\n{report.summary(rows)}")
    if json is not None:
        json.write_text(report.to_json(settings, rows, contestants.skipped, figures), encoding="utf-8")
    return 0


def _print_skipped(contestants: Contestants, printed: int) -> int:
    """Print what has been skipped since a number of lines. Return the new number."""
    for reason in contestants.skipped[printed:]:
        print(f"skipped: {reason}", flush=True)
    return len(contestants.skipped)


def _print_logs(folder: Path) -> None:
    for log in sorted(folder.glob("*.log")):
        text = log.read_text(encoding="utf-8")[-3_000:]
        if text:
            print(f"--- {log.name}", text, sep="\n", file=sys.stderr)
