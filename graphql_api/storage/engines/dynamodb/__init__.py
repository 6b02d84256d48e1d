"""The engine for DynamoDB and servers with the same protocol (docs/explanation/engines.md, docs/how-to/dynamodb.md)."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.storage.engines.dynamodb.dynamodb_settings import DynamoSettings as DynamoSettings
    from graphql_api.storage.engines.dynamodb.dynamodb_store import DynamoStore as DynamoStore
    from graphql_api.storage.engines.dynamodb.dynamodb_store import open_dynamodb as open_dynamodb
    from graphql_api.storage.engines.dynamodb.dynamodb_store import open_location as open_location
else:  # The drivers are slow to load.
    __getattr__ = lazy_exports(__name__, __file__)
