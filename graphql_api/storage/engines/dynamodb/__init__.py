"""The engine for DynamoDB and servers with the same protocol (docs/engines.md, docs/dynamodb.md)."""

from graphql_api.storage.engines.dynamodb.dynamodb_settings import DynamoSettings
from graphql_api.storage.engines.dynamodb.dynamodb_store import DynamoStore, open_dynamodb

__all__ = ["DynamoSettings", "DynamoStore", "open_dynamodb"]
