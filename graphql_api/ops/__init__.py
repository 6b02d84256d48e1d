"""Operating tables: loading data, capacity reports, design advice, CloudFormation, inspection."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.ops.checked_loader import checked, in_turns
    from graphql_api.ops.cloudformation import as_yaml, cloudformation_template
    from graphql_api.ops.design_advice import advice
    from graphql_api.ops.index_capacity import mean_size
    from graphql_api.ops.loader import BATCH, LoadProgress, PutMany, load_lines, put_patiently, read_records
    from graphql_api.ops.record_capacity import EntityCapacity, entity_capacity, stored_items
    from graphql_api.ops.table_inspection import TableState, differences, index_states, read_state
    from graphql_api.ops.typical_records import typical_record
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "BATCH": "loader",
            "EntityCapacity": "record_capacity",
            "LoadProgress": "loader",
            "PutMany": "loader",
            "TableState": "table_inspection",
            "advice": "design_advice",
            "as_yaml": "cloudformation",
            "checked": "checked_loader",
            "cloudformation_template": "cloudformation",
            "differences": "table_inspection",
            "entity_capacity": "record_capacity",
            "in_turns": "checked_loader",
            "index_states": "table_inspection",
            "load_lines": "loader",
            "mean_size": "index_capacity",
            "put_patiently": "loader",
            "read_records": "loader",
            "read_state": "table_inspection",
            "stored_items": "record_capacity",
            "typical_record": "typical_records",
        },
    )

__all__ = [
    "BATCH",
    "EntityCapacity",
    "LoadProgress",
    "PutMany",
    "TableState",
    "advice",
    "as_yaml",
    "checked",
    "cloudformation_template",
    "differences",
    "entity_capacity",
    "in_turns",
    "index_states",
    "load_lines",
    "mean_size",
    "put_patiently",
    "read_records",
    "read_state",
    "stored_items",
    "typical_record",
]
