"""The report of a run: settings, a table of ratios against the targets, and JSON."""

import json
import os
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.benchmarks.bench_sizes import Sizes
from tests.benchmarks.contestants import Contestants
from tests.benchmarks.measurement import THIS_CODE, Row
from tests.benchmarks.release_source import release_commit
from tests.benchmarks.sample_rows import SEED

_PACKAGES = ("strawberry-graphql", "graphql-core", "uvicorn", "aioboto3", "aiohttp", "orjson", "pydantic")


def settings(contestants: Contestants, sizes: Sizes) -> dict[str, Any]:
    """Return what a reader needs to repeat the run."""
    node = {}
    if contestants.packages is not None and contestants.node is not None:
        locked = json.loads((contestants.packages / "node" / "package.json").read_text(encoding="utf-8"))
        node = locked["dependencies"]
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "cores": len(os.sched_getaffinity(0)),
        "sqlite": sqlite3.sqlite_version,
        "seed": SEED,
        "release": release_commit("0.1.0"),
        "sizes": asdict(sizes),
        "packages": {name: _version(name, contestants.packages) for name in (*_PACKAGES, "aiosqlite", "sqlite-utils")},
        "node": node,
    }


def _version(name: str, packages: Path | None) -> str | None:
    if packages is not None:
        found = [*(packages / "python").glob(f"{name.replace('-', '_')}-*.dist-info")]
        if found:
            return found[0].stem.partition("-")[2]
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def format_settings(values: Mapping[str, Any]) -> str:
    """Return the settings as text."""
    lines = []
    for name, value in values.items():
        text = ", ".join(f"{key} {one}" for key, one in value.items()) if isinstance(value, dict) else value
        lines.append(f"{name + ':':10} {text or 'none'}")
    return "\n".join(lines)


def format_row(row: Row) -> str:
    """Return a row with one line for each contestant."""
    lines = [f"{row.name} ({row.unit})"]
    targets = {target.contestant: target for target in row.targets}
    for name in dict.fromkeys([*row.costs, *targets]):
        target = targets.get(name)
        wanted = f">= {target.at_least:<6.3g} {row.verdict(target)}" if target else ""
        if name in row.costs:
            least, greatest = row.spread.get(name, (None, None))
            between = "" if least is None or name == THIS_CODE else f"({least:.2f} to {greatest:.2f})"
            figures = f"{row.costs[name] * row.scale:12,.1f} {row.ratio(name):9.3f}  {between:18}"
        else:
            figures = f"{'n/a':>12} {'':9}  {'':18}"
        lines.append(f"  {name:36} {figures} {wanted}".rstrip())
    lines += [f"  {note}" for note in row.notes]
    return "\n".join(lines)


HEADER = f"  {'':36} {'cost':>12} {'/ ours':>9}  {'in the rounds':18} target"


def summary(rows: Sequence[Row]) -> str:
    """Return how many targets are met."""
    verdicts = [row.verdict(target) for row in rows for target in row.targets]
    counts = ", ".join(f"{verdicts.count(each)} {each}" for each in ("met", "short", "n/a"))
    return f"{len(verdicts)} targets: {counts}"


def to_json(values: Mapping[str, Any], rows: Sequence[Row], skipped: Sequence[str], pictures: Any = None) -> str:
    """Return the whole run as JSON."""
    listed = []
    for row in rows:
        targets = {target.contestant: target for target in row.targets}
        listed.append(
            {
                "name": row.name,
                "unit": row.unit,
                "contestants": [
                    {
                        "name": name,
                        "cost": cost * row.scale,
                        "ratio": row.ratio(name),
                        "rounds": row.spread.get(name),
                        "target": targets[name].at_least if name in targets else None,
                        "verdict": row.verdict(targets[name]) if name in targets else None,
                    }
                    for name, cost in row.costs.items()
                ],
                "missing": [name for name in targets if name not in row.costs],
                "notes": row.notes,
            }
        )
    return json.dumps({"settings": values, "rows": listed, "skipped": [*skipped], "pictures": pictures}, indent=1)
