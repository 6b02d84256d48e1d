"""The page of annotations names every one of them, and shows what it says."""

import re

import pytest
from graphql import parse, validate

from graphql_api.examples.orders import catalog
from graphql_api.schema.graph import build_schema
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "annotations.md").read_text(encoding="utf-8")
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
WORDS = ["Id[", "SubId[", "Index(", "Ref(", "RefMany(", "HasMany(", "allow=", "owner_through(", "group(", "separator="]
SCHEMA = build_schema(catalog)._schema
PYTHON = "\n".join(re.findall(r"^```python\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL))
QUERIES = re.findall(r"^```graphql\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_each_annotation_has_a_counterpart() -> None:
    """The first table has a row for each annotation, in this order and for no other, with what it is here."""
    table = PAGE.partition("| Annotation | Here |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ", 1) for row in table.splitlines()]
    assert [name for named, _ in rows for name in re.findall(r"`(@.+?)`", named)] == ANNOTATIONS
    assert all("`" in here or "nothing" in here for _, here in rows)


@pytest.mark.parametrize("word", [*WORDS, 'projection="KEYS_ONLY"', 'projection=["name", "price"]', "via=", "current="])
def test_each_counterpart_is_shown(word: str) -> None:
    """Whatever the table says, the Python of the page does, which the tests run."""
    assert word in PYTHON


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.split()[1])
def test_queries_are_valid(query: str) -> None:
    """Each query of the page is one that the example `orders` answers."""
    assert validate(SCHEMA, parse(query)) == []
