"""DynamoDB, or whatever speaks its protocol: the engine for everything beyond one machine (docs/engines.md)."""

from graphql_api.storage.engines.dynamodb.dynamodb_settings import DynamoSettings
from graphql_api.storage.engines.dynamodb.dynamodb_store import DynamoStore, open_dynamodb

__all__ = ["DynamoSettings", "DynamoStore", "open_dynamodb"]
