"""Operations on tables: loading, capacity reports, design advice, CloudFormation, inspection."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.ops.checked_loader import conflict_free_writer, create_only_writer
    from graphql_api.ops.cloudformation import cloudformation_template, to_yaml
    from graphql_api.ops.design_advice import find_advice
    from graphql_api.ops.index_capacity import mean_size
    from graphql_api.ops.loader import (
        DEFAULT_BATCH_SIZE,
        LoadProgress,
        PutMany,
        load_lines,
        put_with_retries,
        read_records,
    )
    from graphql_api.ops.record_capacity import EntityCapacity, entity_capacity, stored_items
    from graphql_api.ops.table_inspection import TableState, differences, index_states, read_state
    from graphql_api.ops.typical_records import typical_record
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "DEFAULT_BATCH_SIZE": "loader",
            "EntityCapacity": "record_capacity",
            "LoadProgress": "loader",
            "PutMany": "loader",
            "TableState": "table_inspection",
            "find_advice": "design_advice",
            "to_yaml": "cloudformation",
            "create_only_writer": "checked_loader",
            "cloudformation_template": "cloudformation",
            "differences": "table_inspection",
            "entity_capacity": "record_capacity",
            "conflict_free_writer": "checked_loader",
            "index_states": "table_inspection",
            "load_lines": "loader",
            "mean_size": "index_capacity",
            "put_with_retries": "loader",
            "read_records": "loader",
            "read_state": "table_inspection",
            "stored_items": "record_capacity",
            "typical_record": "typical_records",
        },
    )

__all__ = [
    "DEFAULT_BATCH_SIZE",
    "EntityCapacity",
    "LoadProgress",
    "PutMany",
    "TableState",
    "cloudformation_template",
    "conflict_free_writer",
    "create_only_writer",
    "differences",
    "entity_capacity",
    "find_advice",
    "index_states",
    "load_lines",
    "mean_size",
    "put_with_retries",
    "read_records",
    "read_state",
    "stored_items",
    "to_yaml",
    "typical_record",
]
