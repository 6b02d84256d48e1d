"""Writes: commands and their executor, constraints, histories, idempotency, item keys."""

from graphql_api.writes.batch_writes import apply_each, delete_unconstrained, put_records
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update, WriteGuard, is_idempotent
from graphql_api.writes.constraints.constraint_items import parent_keys, reference_items, unique_items
from graphql_api.writes.constraints.counters import LAST_NUMBER, counter_key
from graphql_api.writes.executor import execute_command
from graphql_api.writes.idempotency import (
    DIGEST_BYTES,
    MAX_IDEMPOTENCY_KEY_LENGTH,
    check_idempotency_key,
    response_item,
    response_key,
)
from graphql_api.writes.item_keys import (
    WRITE_ID,
    encode_id,
    item_key,
    possible_hash_keys,
    possible_keys,
    to_current_item,
    to_item,
)
from graphql_api.writes.optimistic_concurrency import new_write_id
from graphql_api.writes.record_builder import (
    FIRST_VERSION,
    NOT_NULL_SUFFIX,
    build_record,
    current_time_value,
    record_values,
)
from graphql_api.writes.transactions import commit_transaction
from graphql_api.writes.write_coalescer import WriteCoalescer

__all__ = [
    "DIGEST_BYTES",
    "FIRST_VERSION",
    "LAST_NUMBER",
    "MAX_IDEMPOTENCY_KEY_LENGTH",
    "NOT_NULL_SUFFIX",
    "WRITE_ID",
    "Command",
    "Create",
    "Remove",
    "Replace",
    "Update",
    "WriteCoalescer",
    "WriteGuard",
    "apply_each",
    "build_record",
    "check_idempotency_key",
    "commit_transaction",
    "counter_key",
    "current_time_value",
    "delete_unconstrained",
    "encode_id",
    "execute_command",
    "is_idempotent",
    "item_key",
    "new_write_id",
    "parent_keys",
    "possible_hash_keys",
    "possible_keys",
    "put_records",
    "record_values",
    "reference_items",
    "response_item",
    "response_key",
    "to_current_item",
    "to_item",
    "unique_items",
]
