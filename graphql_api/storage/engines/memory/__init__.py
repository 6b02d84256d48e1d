"""The engine for tests: a table in the memory of one process, with the semantics of the other engines."""

from graphql_api.storage.engines.memory.memory_store import MemoryStore as MemoryStore
from graphql_api.storage.engines.memory.memory_table import MemoryTable as MemoryTable
