"""Writes: commands and their executor, constraints, histories, idempotency, item keys."""

from graphql_api.writes.batch_writes import apply_each, delete_unbound, put_records
from graphql_api.writes.commands import Command, Create, Guard, Remove, Replace, Update, may_repeat
from graphql_api.writes.constraints.constraint_items import held_by, parent_keys, references_of
from graphql_api.writes.constraints.counters import LAST, counter_key
from graphql_api.writes.executor import carry_out
from graphql_api.writes.idempotency import DIGEST_BYTES, MAX_CHARACTERS, check_key, kept_item, place_of
from graphql_api.writes.item_keys import WRITE_ID, current_item, encoded_id, hash_keys_of, item_of, key_of, keys_of
from graphql_api.writes.optimistic_concurrency import new_write_id
from graphql_api.writes.record_builder import FIRST_VERSION, NOT_NULL, all_wrong, draft, given_values, moment
from graphql_api.writes.transactions import commit
from graphql_api.writes.write_coalescer import Together

__all__ = [
    "DIGEST_BYTES",
    "FIRST_VERSION",
    "LAST",
    "MAX_CHARACTERS",
    "NOT_NULL",
    "WRITE_ID",
    "Command",
    "Create",
    "Guard",
    "Remove",
    "Replace",
    "Together",
    "Update",
    "all_wrong",
    "apply_each",
    "carry_out",
    "check_key",
    "commit",
    "counter_key",
    "current_item",
    "delete_unbound",
    "draft",
    "encoded_id",
    "given_values",
    "hash_keys_of",
    "held_by",
    "item_of",
    "kept_item",
    "key_of",
    "keys_of",
    "may_repeat",
    "moment",
    "new_write_id",
    "parent_keys",
    "place_of",
    "put_records",
    "references_of",
]
