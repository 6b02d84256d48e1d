"""Errors of mutations: each states the problem, the argument and the remedy, with the names of the schema."""

from collections.abc import AsyncIterator
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from graphql_api import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    Id,
    Immutable,
    Int32,
    Shards,
    SubId,
    Timestamp,
    Unique,
    Updated,
    Version,
    canonical,
    counter,
    derived,
    generated,
)
from graphql_api.schema.execution.document_executor import DocumentExecutor
from graphql_api.schema.graph import Graph
from tests.schema.graphql_client import LIMITS, GraphQLClient, open_client
from tests.schema.graphql_text import input_type_of


class Size(Enum):
    """The size of an article."""

    SMALL = "small"
    LARGE = "large"


class Shop(Entity, shards=Shards(1).then(4, since=2_000_000_000)):
    """A shop that sells articles."""

    shop_id: Id[str] = generated()
    created: Created[Timestamp]
    updated: Updated[Timestamp]
    version: Version[Int32]
    shop_name: str
    canonical_name: Unique[str] = derived(canonical, "shop_name")


class Article(Entity):
    """An article that a shop sells."""

    article_id: Id[str]
    shop_id: Immutable[str]
    num: Int32 = counter("shop_id")
    size: Size = Size.SMALL
    in_stock: Int32 = Field(default=0, ge=0)

    of_shop = ForeignKey("Shop", by="shop_id")


class Price(Entity, shards=Shards(1).then(4, since=2_000_000_000), current="~current"):
    """The prices of an article, past and current."""

    article_id: Id[str]
    at: SubId[str]
    since: Created[Timestamp]
    cents: Int32


class Till(Entity):
    """A singleton."""

    cents: Int32 = 0
    idempotency_key: str = ""


CATALOG = Catalog(Shop, Article, Price, Till)


@pytest.fixture
async def shop_client(tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """A shop with an article and its price."""
    async with open_client(CATALOG, tmp_path) as client:
        await client.db.create(Shop, shop_id="s", shop_name="O'", created=5)
        await client.db.create(Article, article_id="a", shop_id="s")
        await client.db.create(Price, article_id="a", at="v1", since=7, cents=100)
        yield client


NO_SUCH_FIELD = [
    ("createArticle", 'articleId: "b", shopId: "s", num: 7', "num", ": the server counts it; omit it."),
    ("updateArticle", 'id: "a", shopId: "t"', "shopId", ": it never changes after the record is created; omit it."),
    (
        "updateArticle",
        'id: "a", articleId: "b"',
        "articleId",
        ": it is part of the id, which never changes; pass the id of the record as id.",
    ),
    (
        "putArticle",
        'id: "a", articleId: "a", shopId: "s"',
        "id",
        ": the server derives it from articleId; set that instead.",
    ),
    ("updateShop", 'id: "s", created: 6', "created", ": it never changes after the record is created; omit it."),
    ("updateShop", 'id: "s", updated: 6', "updated", ": the server sets it with every write; omit it."),
    (
        "updateShop",
        'id: "s", version: 6',
        "version",
        ": the server increments it with every write; omit it, or pass the version you read as expectedVersion.",
    ),
    (
        "updateShop",
        'id: "s", canonicalName: "x"',
        "canonicalName",
        ": the server derives it from shopName; set that instead.",
    ),
    (
        "updateArticle",
        'id: "a", expectedVersion: 1',
        "expectedVersion",
        ": Article has no version property; omit it.",
    ),
    (
        "updateShop",
        'id: "s", idempotencyKey: "k"',
        "idempotencyKey",
        ": pass it as an argument of the mutation, not in the input.",
    ),
    (
        "createTill",
        'idempotencyKey: "k"',
        "idempotencyKey",
        ": the input field of the property idempotencyKey is idempotencyKey_; use that.",
    ),
    ("updateShop", 'id: "s", shopNam: "x"', "shopNam", ". Did you mean 'shopName'?"),
]


@pytest.mark.parametrize(("mutation", "given", "field", "reason"), NO_SUCH_FIELD)
async def test_unknown_input_fields(
    shop_client: GraphQLClient, mutation: str, given: str, field: str, reason: str
) -> None:
    """An unknown input field is refused before execution. If the record has the property, the error explains why."""
    error = await shop_client.error(f"mutation {{ {mutation}(input: {{ {given} }}) {{ __typename }} }}")
    problem = f"Expected value of type '{input_type_of(mutation)}' not to include unknown field '{field}'"
    assert error["message"] == f"{problem}{reason} Found: {{ {given} }}."
    assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}


INVALID_VALUES = [
    ("createShop(input: {shopName: null})", "Expected value of non-null type 'String!' not to be null."),
    (
        "createShop(input: {created: 5})",
        "Expected value of type 'ShopInput' to include required field 'shopName', found: { created: 5 }.",
    ),
    ("createShop(input: {shopName: 5})", "String cannot represent a non string value: 5"),
    (
        'createArticle(input: {articleId: "b", shopId: "s", size: LAGRE})',
        "Value 'LAGRE' does not exist in 'Size' enum. Did you mean the enum value 'LARGE'?",
    ),
]


@pytest.mark.parametrize(("mutation", "message"), INVALID_VALUES)
async def test_values_of_the_wrong_type(shop_client: GraphQLClient, mutation: str, message: str) -> None:
    """A missing field, a null, a value of another type and an unknown enum member are refused before execution."""
    error = await shop_client.error(f"mutation {{ {mutation} {{ __typename }} }}")
    assert (error["extensions"], error["message"]) == ({"code": "GRAPHQL_VALIDATION_FAILED"}, message)


async def test_unknown_input_fields_in_variables(shop_client: GraphQLClient) -> None:
    """For a variable, the error states the position and the reason."""
    update = "mutation ($rows: [ArticlePatch!]!) { updateArticles(inputs: $rows) { results { error { code } } } }"
    error = await shop_client.error(update, {"rows": [{"id": "a"}, {"id": "b", "num": 3}]})
    assert error["extensions"] == {"code": "BAD_USER_INPUT"}
    assert error["message"] == (
        "Variable '$rows' has invalid value at [1]: Expected value of type 'ArticlePatch' not to include unknown "
        "field 'num': the server counts it; omit it. Found: {'id': 'b', 'num': 3}."
    )


async def test_read_only_schema(shop_client: GraphQLClient) -> None:
    """A read-only server reports that its schema has no mutations."""
    read_only_client = replace(shop_client, executor=DocumentExecutor(Graph(CATALOG).read_only_schema, LIMITS))
    error = await read_only_client.error("mutation { createTill(input: {}) { till { cents } } }")
    assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}
    assert error["message"] == "This schema has no mutations: the server is read-only, or the catalog allows no writes."


async def test_reasons_without_suggestions(tmp_path: Path) -> None:
    """If suggestions are off, errors do not reveal the properties of a record."""
    async with open_client(CATALOG, tmp_path, suggestions=False) as client:
        error = await client.error('mutation { updateShop(input: {id: "s", created: 6}) { shop { shopName } } }')
    assert error["message"] == (
        "Expected value of type 'ShopPatch' not to include unknown field 'created', found: { id: \"s\", created: 6 }."
    )


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        'updateShop(input: {id: "s", shopName: null}) { shop { created } }',
        {
            "code": "INVALID_RECORD",
            "argument": "shopName",
            "fields": [{"field": "shopName", "message": "Input should be a valid string, and not null"}],
        },
        "Shop.shopName: Input should be a valid string, and not null.",
    ),
    (
        'updateArticle(input: {id: "a", inStock: -1}) { article { num } }',
        {
            "code": "INVALID_RECORD",
            "argument": "inStock",
            "fields": [{"field": "inStock", "message": "Input should be greater than or equal to 0"}],
        },
        "Article.inStock: Input should be greater than or equal to 0.",
    ),
    (
        'createShop(input: {shopName: "Ö"}) { shop { created } }',
        {"code": "NOT_UNIQUE", "argument": "shopName"},
        (
            "Shop.canonicalName (from shopName): another Shop already has 'o'. Choose another value, or change that "
            "record."
        ),
    ),
    (
        'createArticle(input: {articleId: "a", shopId: "s"}) { article { num } }',
        {"code": "ALREADY_EXISTS", "argument": "articleId"},
        "Article a already exists: update it, put it, or create it under another id.",
    ),
    (
        'createArticle(input: {articleId: "b", shopId: "t"}) { article { num } }',
        {"code": "FOREIGN_KEY", "argument": "shopId"},
        "Article.shopId references Shop t, which does not exist. Create it first, or reference another record.",
    ),
    (
        'deleteShop(id: "s") { deletedId }',
        {"code": "FOREIGN_KEY"},
        (
            "Shop s cannot be deleted: Article a references it by Article.shopId. Delete that record first, or let it "
            "reference another one."
        ),
    ),
    (
        'putArticle(input: {articleId: "a", shopId: "t"}) { article { num } }',
        {"code": "IMMUTABLE", "argument": "shopId"},
        "Article.shopId never changes, and Article a has another value. Leave it unchanged.",
    ),
    (
        'putShop(input: {shopId: "s", shopName: "Z", created: 6}) { shop { created } }',
        {"code": "CREATION_CHANGED", "argument": "created"},
        "Shop s was created at 5, which determines its shard and cannot become 6: leave created unchanged.",
    ),
    (
        'createPrice(input: {articleId: "a", at: "v2", since: 8, cents: 1}) { price { cents } }',
        {"code": "CREATION_CHANGED", "argument": "since"},
        "Price a was created at 7, which determines its shard and cannot become 8: leave since unchanged.",
    ),
    (
        'updateShop(input: {id: "s"}, expectedVersion: 4) { shop { created } }',
        {"code": "VERSION_CONFLICT", "argument": "expectedVersion", "version": 1},
        "Shop s has version 1, but version 4 was expected: read it again and repeat the change on its current state.",
    ),
    (
        'updateShop(input: {id: "t"}) { shop { created } }',
        {"code": "RECORD_NOT_FOUND"},
        "Shop t does not exist: create it by put, or check its id.",
    ),
    (
        "updateTill(input: {cents: 1}) { till { cents } }",
        {"code": "RECORD_NOT_FOUND"},
        "Till does not exist: create it by put.",
    ),
]


@pytest.mark.parametrize(("mutation", "extensions", "message"), REFUSED)
async def test_refused_writes(
    shop_client: GraphQLClient, mutation: str, extensions: dict[str, Any], message: str
) -> None:
    """A refused write is an error of its field. It names the record, the property and the remedy."""
    error = await shop_client.error(f"mutation {{ {mutation} }}")
    assert (error["extensions"], error["message"]) == (extensions, message)


async def test_existing_singleton(shop_client: GraphQLClient) -> None:
    """The error for an existing singleton does not suggest another id."""
    create = "mutation { createTill(input: {cents: 1}) { till { cents } } }"
    await shop_client.data(create)
    assert (await shop_client.error(create))["message"] == "Till already exists: update it or put it."


async def test_creation_value_of_further_entries(shop_client: GraphQLClient) -> None:
    """A further entry without a creation value inherits the one of its history."""
    written = await shop_client.data(
        """mutation {
          createPrice(input: { articleId: "a", at: "v2", cents: 90 }) { price { since } }
          putPrice(input: { articleId: "a", at: "v3", cents: 80 }) { price { since } }
          putPrices(inputs: [{ articleId: "a", at: "v2", cents: 95 }]) { results { price { since } } }
        }"""
    )
    assert written == {
        "createPrice": {"price": {"since": 7}},
        "putPrice": {"price": {"since": 7}},
        "putPrices": {"results": [{"price": {"since": 7}}]},
    }
    found = await shop_client.data('{ priceById(id: "a") { items { at cents } } }')
    assert found["priceById"]["items"] == [
        {"at": "v1", "cents": 100},
        {"at": "v2", "cents": 95},
        {"at": "v3", "cents": 80},
        {"at": "~current", "cents": 80},
    ]
