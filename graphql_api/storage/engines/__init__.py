"""Storage engines, and the registry that opens the engine of a store URL."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.storage.engines.dynamodb.table_requests import create_table_arguments as create_table_arguments
    from graphql_api.storage.engines.memory import MemoryStore as MemoryStore
    from graphql_api.storage.engines.registry import creates_tables as creates_tables
    from graphql_api.storage.engines.registry import describe_store_urls as describe_store_urls
    from graphql_api.storage.engines.registry import open_store as open_store
    from graphql_api.storage.engines.registry import opened_store as opened_store
    from graphql_api.storage.engines.registry import store_file as store_file
else:
    __getattr__ = lazy_exports(__name__, __file__)
