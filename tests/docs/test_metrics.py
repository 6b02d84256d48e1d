"""The metrics of `docs/how-to/operations.md`, the queries of the guides, and the dashboard agree with the code."""

import json
import re

import pytest

from graphql_api.cli.process.verify_watch import WatchMetric
from graphql_api.errors import Overloaded
from graphql_api.server.observability.metrics import Metric
from tests.docs.pages import ROOT

OPERATIONS = ROOT / "docs" / "how-to" / "operations.md"
ROW = re.compile(r"^\| `(shardql_\w+)` \| (\w+) \| (\w+) \| (.+?) \| (.+) \|$", re.MULTILINE)


def test_metrics_are_documented() -> None:
    """The table lists exactly the existing metrics in order, with kind, unit, labels and meaning."""
    text = OPERATIONS.read_text(encoding="utf-8")
    assert ROW.findall(text) == [
        (
            metric.full_name,
            metric.kind,
            metric.unit,
            ", ".join(f"`{label}`" for label in metric.labels) or "–",
            metric.help,
        )
        for metric in (*Metric, *WatchMetric)
    ]


def test_names_follow_prometheus() -> None:
    """Counters end in `_total`, histograms in their unit, and names are unique."""
    names = [metric.full_name for metric in (*Metric, *WatchMetric)]
    assert len(set(names)) == len(names)
    for metric in (*Metric, *WatchMetric):
        assert metric.full_name.endswith("_total") == (metric.kind == "counter"), metric.full_name
        assert metric.kind != "histogram" or metric.full_name.endswith(f"_{metric.unit}"), metric.full_name


# --- queries ---------------------------------------------------------------------------------------------------

SELECTOR = re.compile(r"\b(shardql_\w+)(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\b(?:by|without) \(([^)]*)\)")
MATCHER = re.compile(r'(\w+)(?:=|!=|=~|!~)"([^"]*)"')
KNOWN_VALUES = {"kind": {"first_page", "next_page", "count", "key"}, "outcome": {"ok"}, "code": {Overloaded.code}}
"""label values that queries use"""
DASHBOARD = ROOT / "docs" / "how-to" / "grafana-dashboard.json"


def documented_queries() -> list[str]:
    """Return the PromQL queries of the pages: the second cells of the tables of questions."""
    text = "".join(page.read_text(encoding="utf-8") for page in (OPERATIONS, OPERATIONS.with_name("overload.md")))
    return re.findall(r"^\| [^|`]+ \| `([^`]*shardql_[^`]*)` \|$", text, re.MULTILINE)


def dashboard_queries() -> list[str]:
    """Return the PromQL queries of the dashboard."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def labels_of_series(name: str) -> set[str]:
    """Return the labels of a series of one of our metrics."""
    for metric in Metric:
        suffixes = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        if name in {metric.full_name + suffix for suffix in suffixes}:
            return {*metric.labels, *(["le"] if name.endswith("_bucket") else [])}
    raise AssertionError(f"there is no series {name}")


@pytest.mark.parametrize("query", [*documented_queries(), *dashboard_queries()])
def test_queries_use_existing_series(query: str) -> None:
    """A query selects existing series by existing labels and values, and groups by labels that all of them have."""
    selected = SELECTOR.findall(query)
    assert selected
    labels = [labels_of_series(name) for name, _ in selected]
    for (_, matchers), known in zip(selected, labels, strict=True):
        for label, value in MATCHER.findall(matchers):
            assert label in known
            assert value in KNOWN_VALUES[label]
    for grouping in GROUPING.findall(query):
        assert set(grouping.split(", ")) <= set.intersection(*labels)
    for opening, closing in ("()", "[]", "{}"):
        assert query.count(opening) == query.count(closing)
    for call in re.findall(
        r"\b(?:rate|increase)\((?!shardql_\w+(?:\{[^}]*\})?\[(?:\d+[mhd]|\$__rate_interval)\])", query
    ):
        raise AssertionError(f"{call} needs a range of one series")


def test_counters_are_queried_as_rates() -> None:
    """Queries use counters and histograms through `rate`, since their values only grow."""
    gauges = {metric.full_name for metric in Metric if metric.kind == "gauge"}
    for query in [*documented_queries(), *dashboard_queries()]:
        for name, _ in SELECTOR.findall(query):
            assert (f"rate({name}" in query) == (name not in gauges), query


def test_dashboard() -> None:
    """The dashboard covers read patterns and overload. Its panels have unique numbers, and places on 24 columns."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    cells = [
        (column, row)
        for place in (panel["gridPos"] for panel in panels)
        for column in range(place["x"], place["x"] + place["w"])
        for row in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert {column for column, _ in cells} == set(range(24))
    (variable,) = dashboard["templating"]["list"]
    source = {"type": variable["query"], "uid": f"${{{variable['name']}}}"}
    for panel in panels:
        assert panel["description"].endswith(".")
        assert [target["datasource"] for target in panel["targets"]] == [source] * len(panel["targets"])
        legends = {label for target in panel["targets"] for label in re.findall(r"{{(\w+)}}", target["legendFormat"])}
        groups = {
            label
            for target in panel["targets"]
            for text in GROUPING.findall(target["expr"])
            for label in text.split(", ")
        }
        assert legends == groups - {"le"}
    shown = {name for query in dashboard_queries() for name, _ in SELECTOR.findall(query)}
    patterns = {metric.full_name for metric in Metric if {"entity", "shard"} & {*metric.labels}}
    overload = {Metric.IN_FLIGHT, Metric.OPERATION_LIMIT, Metric.QUEUED, Metric.QUEUE_SECONDS, Metric.REPLY_BYTES}
    assert patterns | {metric.full_name for metric in overload} <= {name.removesuffix("_bucket") for name in shown}
