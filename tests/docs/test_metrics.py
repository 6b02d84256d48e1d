"""The table of metrics in `docs/how-to/operations.md` agrees with the code."""

import re

from graphql_api.server.observability.metrics import Metric
from tests.docs.pages import ROOT

ROW = re.compile(r"^\| `(shardql_\w+)` \| (\w+) \| (\w+) \| (.+?) \| (.+) \|$", re.MULTILINE)


def test_metrics_are_documented() -> None:
    """The table lists exactly the existing metrics in order, with kind, unit, labels and meaning."""
    text = (ROOT / "docs" / "how-to" / "operations.md").read_text(encoding="utf-8")
    assert ROW.findall(text) == [
        (
            metric.full_name,
            metric.kind,
            metric.unit,
            ", ".join(f"`{label}`" for label in metric.labels) or "–",
            metric.help,
        )
        for metric in Metric
    ]


def test_names_follow_prometheus() -> None:
    """Counters end in `_total`, histograms in their unit, and names are unique."""
    names = [metric.full_name for metric in Metric]
    assert len(set(names)) == len(names)
    for metric in Metric:
        assert metric.full_name.endswith("_total") == (metric.kind == "counter"), metric.full_name
        assert metric.kind != "histogram" or metric.full_name.endswith(f"_{metric.unit}"), metric.full_name
