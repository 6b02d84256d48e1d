"""The pictures of the documents, drawn from measured figures."""

from pathlib import Path

from tests.benchmarks.bench_sizes import Sizes
from tests.benchmarks.charts import line_chart
from tests.benchmarks.contestant_process import ROOT
from tests.benchmarks.contestants import Contestants
from tests.benchmarks.depth_workloads import Curves, depth_curves, shard_curves

FOLDER = ROOT / "docs" / "images"
_COST = "CPU of the server in milliseconds for a page of 20 × 10 (SQLite, over HTTP)"


def draw_pictures(contestants: Contestants, sizes: Sizes, folder: Path = FOLDER) -> dict[str, Curves]:
    """Measure and draw both pictures. Return their figures."""
    with contestants.stage():
        shards = shard_curves(contestants, sizes)
    with contestants.stage():
        depths = depth_curves(contestants, sizes)
    for name, title, label, curves in (
        ("cost-over-shards.svg", "Cost of a page over the number of shards", "shards", shards),
        ("cost-over-page-number.svg", "Cost of a page over its number", "page", depths),
    ):
        series = {contestant: [(at, cost / 1_000) for at, cost in points] for contestant, points in curves.items()}
        (folder / name).write_text(line_chart(title, label, _COST, series), encoding="utf-8")
    return {"cost over shards": shards, "cost over page number": depths}
