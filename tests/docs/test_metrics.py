"""The table of metrics in `docs/operations.md` agrees with the code."""

import re

from graphql_api.server.observability.metrics import METRICS
from tests.docs.pages import ROOT

ROW = re.compile(r"^\| `(shardql_\w+)` \| (\w+) \| (\w+) \| (.+?) \| (.+) \|$", re.MULTILINE)


def test_metrics_are_documented() -> None:
    """The table lists exactly the existing metrics in order, with kind, unit, labels and meaning."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert ROW.findall(text) == [
        (
            metric.name,
            metric.kind,
            metric.unit,
            ", ".join(f"`{label}`" for label in metric.labels) or "–",
            metric.help,
        )
        for metric in METRICS
    ]


def test_names_follow_prometheus() -> None:
    """Counters end in `_total`, histograms in their unit, and names are unique."""
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.kind != "histogram" or metric.name.endswith(f"_{metric.unit}"), metric.name
