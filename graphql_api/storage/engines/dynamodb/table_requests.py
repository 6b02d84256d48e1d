"""Arguments of requests that create a table or an index. CloudFormation templates contain them too."""

from collections.abc import Iterable
from typing import Any

from graphql_api.storage import IndexDefinition, TableDefinition, attribute_types


def create_table_arguments(definition: TableDefinition) -> dict[str, Any]:
    """Return the arguments of CreateTable without the name: a table billed on demand, with all of its indexes."""
    indexes = [index_arguments(index) for index in definition.indexes]
    return {
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": attribute_arguments(definition, definition.indexes),
        "KeySchema": _key_schema(definition.hash_attribute, definition.range_attribute),
        **({"GlobalSecondaryIndexes": indexes} if indexes else {}),
    }


def attribute_arguments(definition: TableDefinition, indexes: Iterable[IndexDefinition]) -> list[dict[str, str]]:
    """Return the key attributes of a table and of these indexes with their types."""
    types = attribute_types(definition, indexes)
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()]


def index_arguments(index: IndexDefinition) -> dict[str, Any]:
    """Return the arguments that create an index."""
    projection: dict[str, Any] = (
        {"ProjectionType": "INCLUDE", "NonKeyAttributes": [*index.projection]}
        if isinstance(index.projection, tuple)
        else {"ProjectionType": index.projection}
    )
    keys = _key_schema(index.hash_attribute, index.range_attribute)
    return {"IndexName": index.name, "KeySchema": keys, "Projection": projection}


def _key_schema(hash_attribute: str, range_attribute: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": hash_attribute, "KeyType": "HASH"},
        {"AttributeName": range_attribute, "KeyType": "RANGE"},
    ]
