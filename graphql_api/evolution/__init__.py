"""How a stored table follows its catalog: the record that a table keeps about itself, and its differences."""

from graphql_api.evolution.table_differences import (
    CREATE_TABLE_REMEDY,
    RENAME_INDEX_REMEDY,
    conflicting_definitions,
    describe_projection,
    missing_definitions,
)
from graphql_api.evolution.table_record import (
    TABLE_FORMAT,
    TABLE_RECORD_KEY,
    changed_index_entries,
    describe_generations,
    prepare_table,
    recorded_space,
)

__all__ = [
    "CREATE_TABLE_REMEDY",
    "RENAME_INDEX_REMEDY",
    "TABLE_FORMAT",
    "TABLE_RECORD_KEY",
    "changed_index_entries",
    "conflicting_definitions",
    "describe_generations",
    "describe_projection",
    "missing_definitions",
    "prepare_table",
    "recorded_space",
]
