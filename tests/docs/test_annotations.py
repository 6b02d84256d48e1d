"""`docs/how-to/annotations.md` lists all annotations, and its examples are valid."""

import re

import pytest
from graphql import parse, validate

from graphql_api.examples.orders import catalog
from graphql_api.schema.graph import build_schema
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "how-to" / "annotations.md").read_text(encoding="utf-8")
ANNOTATIONS = [
    "@@reventless.spec",
    "@schema type state",
    "@id",
    "@compositeId",
    '@compositeId(~sep=":")',
    "@subId",
    "@compositeSubId",
    "@index",
    '@index("name")',
    '@indexSubId("name")',
    "@index(~projection=KEYS_ONLY)",
    '@index(~include=["name", "price"])',
    '@index(~group="Admin", ~authTable="Ownership")',
    "@resolves({table, field})",
    '@resolves({table, field, via: "indexName"})',
    '@resolves({table, field, plugin: "OtherPlugin"})',
    "@resolvesMany({table, field})",
    "@partitionTag",
]
COUNTERPARTS = [
    "Id[",
    "SubId[",
    "Index(",
    "Ref(",
    "RefMany(",
    "HasMany(",
    "allow=",
    "owner_through(",
    "group(",
    "separator=",
]
SCHEMA = build_schema(catalog)._schema
PYTHON = "\n".join(re.findall(r"^```python\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL))
QUERIES = re.findall(r"^```graphql\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_each_annotation_has_a_counterpart() -> None:
    """The first table has exactly one row for each annotation, in order, with its counterpart."""
    table = PAGE.partition("| Annotation | Here |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ", 1) for row in table.splitlines()]
    assert [name for named, _ in rows for name in re.findall(r"`(@.+?)`", named)] == ANNOTATIONS
    assert all("`" in here or "nothing" in here for _, here in rows)


@pytest.mark.parametrize(
    "word", [*COUNTERPARTS, 'projection="KEYS_ONLY"', 'projection=["name", "price"]', "via=", "current="]
)
def test_each_counterpart_is_shown(word: str) -> None:
    """The Python examples of the page, which tests run, contain each counterpart of the table."""
    assert word in PYTHON


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.split()[1])
def test_queries_are_valid(query: str) -> None:
    """Each query of the page is valid for the example `orders`."""
    assert validate(SCHEMA, parse(query)) == []
