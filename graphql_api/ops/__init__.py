"""Operations on tables: loading, capacity reports, design advice, CloudFormation, inspection."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.ops.checked_loader import conflict_free_writer as conflict_free_writer
    from graphql_api.ops.checked_loader import create_only_writer as create_only_writer
    from graphql_api.ops.cloudformation import cloudformation_template as cloudformation_template
    from graphql_api.ops.cloudformation import to_yaml as to_yaml
    from graphql_api.ops.design_advice import find_advice as find_advice
    from graphql_api.ops.exporter import Exporter as Exporter
    from graphql_api.ops.exporter import ExportProgress as ExportProgress
    from graphql_api.ops.exporter import Format as Format
    from graphql_api.ops.exporter import every_record as every_record
    from graphql_api.ops.item_capacity import mean_size as mean_size
    from graphql_api.ops.line_parser import validation_messages as validation_messages
    from graphql_api.ops.loader import DEFAULT_BATCH_SIZE as DEFAULT_BATCH_SIZE
    from graphql_api.ops.loader import LoadProgress as LoadProgress
    from graphql_api.ops.loader import load_lines as load_lines
    from graphql_api.ops.loader import put_with_retries as put_with_retries
    from graphql_api.ops.loader import read_records as read_records
    from graphql_api.ops.lookup_reconciliation import ReconciliationResult as ReconciliationResult
    from graphql_api.ops.lookup_reconciliation import ReconciliationSettings as ReconciliationSettings
    from graphql_api.ops.lookup_reconciliation import reconcile_lookups as reconcile_lookups
    from graphql_api.ops.module_stubs import StubModule as StubModule
    from graphql_api.ops.module_stubs import stub_modules as stub_modules
    from graphql_api.ops.record_capacity import EntityCapacity as EntityCapacity
    from graphql_api.ops.record_capacity import entity_capacity as entity_capacity
    from graphql_api.ops.record_capacity import stored_items as stored_items
    from graphql_api.ops.record_capacity import typical_record as typical_record
    from graphql_api.ops.record_lines import record_line as record_line
    from graphql_api.ops.record_lines import record_values as record_values
    from graphql_api.ops.service_stack import service_template as service_template
    from graphql_api.ops.table_inspection import Difference as Difference
    from graphql_api.ops.table_inspection import TableState as TableState
    from graphql_api.ops.table_inspection import differences as differences
    from graphql_api.ops.table_inspection import index_states as index_states
    from graphql_api.ops.table_inspection import lookup_states as lookup_states
    from graphql_api.ops.table_inspection import read_state as read_state
else:
    __getattr__ = lazy_exports(__name__, __file__)
