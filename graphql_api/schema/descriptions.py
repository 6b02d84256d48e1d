"""Descriptions of generated types, fields and arguments: all texts of the SDL that a catalog does not declare.

Each has at most two short sentences. Descriptions of properties and joins come from the catalog where it declares them.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from graphql_api.errors import InvalidValue
from graphql_api.model import EntitySpec, IndexSpec, JoinSpec, PropertySpec, SortProperty, UnionSpec, camel_case
from graphql_api.query import DEFAULT_LIMIT, MAX_COUNTED, MAX_LIMIT, MAX_SORTED
from graphql_api.schema.document_literals import scalar_literal
from graphql_api.schema.graphql_names import with_article

# --- scalars ---------------------------------------------------------------------------------------------------

BIG_INT = "A 64-bit integer, serialized as a string. Inputs accept a string or an integer."
TIMESTAMP = "Unix time: seconds since 1970-01-01 UTC."
TIMESTAMP_MS = "Unix time in milliseconds since 1970-01-01 UTC."
DECIMAL = "A decimal number of up to 38 digits, serialized as a string. Inputs accept a string or a number."
UUID = "A UUID in hyphenated form."
DATE = "A calendar date, such as `2026-01-31`."
DATE_TIME = "A date and time in UTC, such as `2026-01-31T12:00:00Z`. Inputs accept any UTC offset."
DURATION = "An ISO 8601 duration of days, hours, minutes and seconds, such as `P1DT2H` or `PT0.5S`."
JSON = "Any JSON value."
BYTES = "Binary data, encoded as base64."

# --- records ---------------------------------------------------------------------------------------------------

NODE = "A record of any type, identified by its global `id`."
GLOBAL_ID = "Globally unique id of the record, which never changes. `node` returns the record with this id."
DEPRECATED = "This field is deprecated."


def property_description(part: PropertySpec) -> str:
    """Return the description that the catalog declares for a property, or its name."""
    return part.description or f"The {part.stored}."


def model_field(python_name: str, description: str | None) -> str:
    """Describe the input of a field of a nested model."""
    return description or f"The {camel_case(python_name)}."


# --- conditions and filters ------------------------------------------------------------------------------------

CONDITION = "A condition on one property. Set exactly one field."
RANGE = "A range of values, both bounds inclusive."
LOWER_BOUND = "Lower bound, inclusive."
UPPER_BOUND = "Upper bound, inclusive."
COMPARISON = "Comparisons with the value of a property. All that are set must match."
OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "eq": "Equal to this value.",
        "ne": "Not equal to this value. Also matches records without a value.",
        "in": "Equal to one of these values.",
        "lt": "Less than this value.",
        "le": "Less than or equal to this value.",
        "gt": "Greater than this value.",
        "ge": "Greater than or equal to this value.",
        "between": "Between two values, both inclusive.",
        "prefix": "Starts with this text.",
        "contains": "Contains this text.",
        "exists": "Whether the property has a value.",
    }
)
LIST_CONTAINS = "The list contains this value."
COMBINATORS: Mapping[str, str] = MappingProxyType(
    {
        "and": "All of these filters must match.",
        "or": "At least one of these filters must match.",
        "not": "This filter must not match.",
    }
)


def record_filter(entity: EntitySpec) -> str:
    """Describe the filter type of an entity."""
    return f"A filter on {entity.type_name} records. All fields that are set must match."


# --- pages -----------------------------------------------------------------------------------------------------

STOPPED_BY = (
    "Why a page is shorter than requested although more records follow. BUDGET: the read budget was used up; SHARDS: "
    "shards did not answer."
)
ON_SHARD_FAILURE = (
    "What happens if a shard does not answer. FAIL returns an error; PARTIAL returns the records of the other shards, "
    "and the missing ones on later pages."
)
HISTORY = (
    "Which records of a history to return. ALL: all records; PAST: only the entries; CURRENT: only the latest state of "
    "each id."
)

PAGE_INFO = "The position of a page in the whole result."
HAS_NEXT_PAGE = "Whether records follow this page."
HAS_PREVIOUS_PAGE = "Whether records precede this page."
START_CURSOR = "Cursor of the first record. On a page requested with `last`, pass it as `before` to continue."
END_CURSOR = "Cursor of the last record. If more records follow, pass it as `after` or `nextToken` to continue."

FAILED_SHARD = "A shard that did not answer."
FAILED_SHARD_NAME = "Name of the shard."
FAILED_SHARD_CODE = "Error code of the failure."
FAILED_SHARD_RETRYABLE = "Whether a retry can succeed."
SEARCH_SHARDS = "The shards that were read for a page."
SHARDS_EXPECTED = "Number of shards that were read."
SHARDS_ANSWERED = "Number of shards that answered."
SHARDS_FAILED = "Shards that did not answer. Their records follow on later pages."

TOTAL_COUNT = "The number of records in a result, as far as they were counted."
COUNTED_RECORDS = "Number of counted records."
COUNT_IS_EXACT = "Whether all records were counted. If false, there may be more."
COUNT_LIMIT = f"Count up to this number, 1 to {MAX_COUNTED:,}."

ITEMS = "The records of this page, in order."
NEXT_TOKEN = "Token of the next page, or null if no records follow."  # noqa: S105 - a description
EDGES = "The records of this page, with their cursors."
WHOLE_COUNT = "The number of records in the whole result."
CONNECTION_PAGE_INFO = "The position of this page in the whole result."
COMPLETE = "Whether every shard answered."
WHY_STOPPED = "Why the page is shorter than requested although more records follow."
SHARDS = "The shards that were read, and which of them answered."
EDGE_NODE = "The record."
EDGE_CURSOR = "Position of the record. Pass it as `after`, `before` or `nextToken`."


def connection(entity: EntitySpec) -> str:
    """Describe the connection type of an entity."""
    return f"A page of {entity.type_name} records."


def edge(entity: EntitySpec) -> str:
    """Describe the edge type of an entity."""
    return f"One {entity.type_name} record of a page, with its cursor."


# --- fields of the query ---------------------------------------------------------------------------------------

NODE_FIELD = "The record with this id, or null if it does not exist."
NODE_ID = "The global id of a record of any type."
NODE_IDS = "Global ids of records of any types."

LIMIT = f"Page size, 1 to {MAX_LIMIT}; {DEFAULT_LIMIT} by default. Combine it with `nextToken`."
NEXT_TOKEN_ARGUMENT = "The `nextToken` of the previous page."  # noqa: S105 - a description
FIRST = "Page size when reading forward. Combine it with `after`."
AFTER = "Return records after this position: a `cursor` or a `nextToken`."
LAST = "Page size when reading backward from the end. Combine it with `before`."
BEFORE = "Return records before this position: a `cursor` or a `nextToken`."
ON_SHARD_FAILURE_ARGUMENT = "Whether a shard that does not answer fails the request. FAIL by default."
FILTER_ARGUMENT = "A filter on the records, in addition to the other conditions."
HISTORY_ARGUMENT = "Which records of a history to return. ALL by default."
REVERSE = "Return the records in reverse order."
REVERSE_UNION = "Return the records of each index in reverse order."
ORDER_BY = "The order of the records."
ORDER_BY_UNION = (
    f"Sort the whole result, up to {MAX_SORTED:,} records, and return it as one page. Excludes paging arguments."
)


def nodes_field(max_nodes: int) -> str:
    """Describe the field that reads records by their global ids."""
    return (
        f"The records with these ids, at most {max_nodes}, in the order of the ids. Null for each that does not exist."
    )


def record_by_id(entity: EntitySpec, sub_id_names: Sequence[str]) -> str:
    """Describe the field that reads one record by its id."""
    if sub_id_names:
        default = "current" if entity.current is not None else "last"
        sub_ids = " and ".join(sub_id_names)
        return (
            f"The {entity.type_name} entry with this {sub_ids}, or null if it does not exist. "
            f"Without {sub_ids}, the {default} entry."
        )
    if not entity.ids:
        return f"The only {entity.type_name}, or null if it does not exist."
    return f"The {entity.type_name} with this id, or null if it does not exist."


def raw_id(entity: EntitySpec, *, excludes_conditions: bool = False) -> str:
    """Describe an `id` argument by the id properties that it contains."""
    text = f"The {_id_format(entity)}."
    return f"{text} Cannot be combined with other conditions." if excludes_conditions else text


def _id_format(entity: EntitySpec) -> str:
    names = [part.stored for part in entity.ids]
    if len(names) == 1:
        return names[0]
    return f"{' and '.join(names)}, separated by {entity.separator!r} as in {entity.separator.join(names)!r}"


def exact_value(names: str) -> str:
    """Describe the flat argument `eq`."""
    return f"Exact value of {names}."


def text_prefix(names: str) -> str:
    """Describe the flat argument `prefix`."""
    return f"Prefix of {names}."


def lower_bound(names: str) -> str:
    """Describe the flat argument `from`."""
    return f"Lower bound of {names}, inclusive."


def upper_bound(names: str) -> str:
    """Describe the flat argument `to`."""
    return f"Upper bound of {names}, inclusive."


def sort_condition(name: str, required: Sequence[str]) -> str:
    """Describe a condition on a sort property, which requires exact values of the sort properties before it."""
    text = f"A condition on {name}."
    return f"{text} Requires exact values of {' and '.join(required)}." if required else text


def index_search(entity: EntitySpec, index: IndexSpec) -> str:
    """Describe the field that searches an index."""
    order = ", ".join(f"{part.property.stored}{' descending' if part.descending else ''}" for part in index.sort)
    key = " and ".join(part.stored for part in (*index.hash, *index.id_prefix))
    return f"{entity.type_name} records{f' with this {key}' if key else ''}, ordered by {order or 'id'}."


def union_search(entity: EntitySpec, members: str) -> str:
    """Describe the field that searches several indexes in turn."""
    return f"{entity.type_name} records from the indexes {members}. Each index in its own order, without duplicates."


def union_order(union: UnionSpec) -> str:
    """Describe the enum of orders in which the result of a union can be sorted."""
    return f"Orders in which the whole result of {union.name} can be sorted."


def record_list(entity: EntitySpec, hash_properties: Sequence[PropertySpec]) -> str:
    """Describe the field that lists records in any order of an index."""
    key = " and ".join(part.stored for part in hash_properties)
    return f"{entity.type_name} records{f' with this {key}' if key else ''}, in any order that an index supports."


def list_order(entity: EntitySpec) -> str:
    """Describe the enum of orders that indexes of an entity support."""
    return f"Orders in which {entity.type_name} records can be listed."


def index_order(index: IndexSpec, *, reverse: bool) -> str:
    """Describe one value of the enum of orders."""
    parts = index.sort or tuple(map(SortProperty, index.tie_breaker))
    order = ", ".join(
        f"{part.property.stored} {'descending' if part.descending != reverse else 'ascending'}" for part in parts
    )
    sparse = index.sort[0].property if index.sort and index.sort[0].property.nullable else None
    return f"By {order}.{f' Excludes records without {sparse.stored}.' if sparse else ''}"


# --- joins -----------------------------------------------------------------------------------------------------


def join_one(join: JoinSpec, target: EntitySpec) -> str:
    """Describe a reference to one record by its key."""
    return join.description or f"The {target.type_name} referenced by {_join_key(join)}, or null if it does not exist."


def join_many(join: JoinSpec, target: EntitySpec) -> str:
    """Describe references to several records by their keys."""
    return join.description or (
        f"The {target.type_name} records referenced by {_join_key(join)}, in this order. "
        "Null for each that does not exist."
    )


def join_first(join: JoinSpec, target: EntitySpec, index: IndexSpec) -> str:
    """Describe a reference to the first record of an index."""
    return join.description or f"The first {target.type_name} by {index.name} with this {_join_key(join)}, or null."


def join_page(join: JoinSpec, target: EntitySpec, search: IndexSpec | UnionSpec) -> str:
    """Describe a page of records that an index or a union finds."""
    return join.description or f"{target.type_name} records with this {_join_key(join)}, by {search.name}."


def _join_key(join: JoinSpec) -> str:
    return " and ".join(part.stored for part in join.by) or "key"


# --- mutations -------------------------------------------------------------------------------------------------

INPUT_ARGUMENTS: Mapping[str, str] = MappingProxyType(
    {
        "create": "The new record.",
        "update": "The record to update, and the fields to change.",
        "put": "The complete record.",
    }
)
IDEMPOTENCY_KEY = (
    "A unique key for this request, such as a UUID. A repeated request with the same key within 24 hours returns the "
    "first result without writing again."
)
BATCH_IDEMPOTENCY_KEY = (
    "A unique key for this request, such as a UUID. A repeated request with the same key within 24 hours returns the "
    "first results, matched by the position of each row."
)

_MUTATIONS: Mapping[str, str] = MappingProxyType(
    {
        "create": "Creates {a_record}. Fails with `ALREADY_EXISTS` if a record with its id exists.",
        "update": "Updates {a_record}. Omitted fields keep their values, null clears a field.",
        "put": "Creates the {record}, or replaces it entirely. Omitted fields are set to their defaults.",
        "delete": "Deletes {a_record}. Succeeds if it does not exist.",
    }
)


def mutation(verb: str, entity: EntitySpec) -> str:
    """Describe the mutation of one record."""
    return _MUTATIONS[verb].format(record=entity.type_name, a_record=with_article(entity.type_name))


def batch_mutation(single_mutation: str, max_rows: int) -> str:
    """Describe the mutation that applies another one to several rows."""
    return f"Applies {single_mutation} to up to {max_rows} rows. An error in one row does not undo the others."


def batch_inputs(max_rows: int) -> str:
    """Describe the rows of a batch."""
    return f"The rows, at most {max_rows}. Rows of the same record are written in order."


def create_input(entity: EntitySpec) -> str:
    """Describe the input of a create."""
    return f"A new {entity.type_name}. Fields that the server sets are not included."


def put_input(entity: EntitySpec) -> str:
    """Describe the input of a put."""
    return f"A complete {entity.type_name} to create or replace."


def update_input(entity: EntitySpec) -> str:
    """Describe the input of an update."""
    return (
        f"The {entity.type_name} to update, and the fields to change. "
        "Omitted fields keep their values, null clears a field."
    )


def delete_input(entity: EntitySpec) -> str:
    """Describe the input of a delete."""
    return f"The {entity.type_name} to delete."


def model_input(model_name: str) -> str:
    """Describe the input of a nested model without a docstring."""
    return f"A {model_name}."


def raw_or_global_id(entity: EntitySpec) -> str:
    """Describe an `id` that identifies a stored record."""
    return f"The {_id_format(entity)}, or the global id of the record."


def sub_id(entity: EntitySpec, part: PropertySpec) -> str:
    """Describe a part of a sub id that identifies a stored record."""
    text = property_description(part)
    return f"{text} Not required if `id` is the global id of an entry." if entity.ids else text


def expected_version(version: PropertySpec) -> str:
    """Describe the condition on the version of a record."""
    return f"Fails with `VERSION_CONFLICT` unless the {version.stored} of the record has this value."


def default_value(entity: EntitySpec, part: PropertySpec) -> str:
    """Describe the value of a property that a whole record omits; empty if it is null."""
    field = entity.model.model_fields[part.name]
    if part is entity.created:
        return "Defaults to the time of creation."
    if field.default_factory is not None:
        return "Generated by the server if omitted." if part in entity.primary_key else ""
    if field.is_required() or field.default is None or part.codec is None:
        return ""
    try:
        return f"Defaults to `{scalar_literal(part.codec, field.default)}`."
    except InvalidValue:  # pydantic does not check the type of a default, and neither does the record.
        return ""


# --- results of mutations --------------------------------------------------------------------------------------

RESULTS = "The result of each row, in the order of the inputs."
DELETED_ID = "The `id` of the deleted record. Null if it did not exist."
DELETE_RESULT = "The result of one row: the id of the deleted record, or an error."
ROW_ERROR = "Why the row failed, or null if it succeeded."

FIELD_PROBLEM = "An invalid property of a record."
FIELD_PROBLEM_FIELD = "Path of the property, with dots between nested names."
FIELD_PROBLEM_MESSAGE = "What is wrong, and how to fix it."
WRITE_ERROR = "Why a row of a batch was not written."
WRITE_ERROR_CODE = "The error code, such as `NOT_UNIQUE`."
WRITE_ERROR_MESSAGE = "What is wrong, and how to fix it."
WRITE_ERROR_ARGUMENT = "The property or argument that caused the error."
WRITE_ERROR_RETRYABLE = "Whether the same row can be sent again unchanged, and may succeed later."
WRITE_ERROR_VERSION = "For `VERSION_CONFLICT`: the version of the stored record, or null if it does not exist."
WRITE_ERROR_FIELDS = "For `INVALID_RECORD`: every invalid property."


def payload(mutation_name: str) -> str:
    """Describe the payload type of a mutation."""
    return f"The result of {mutation_name}."


def row_result(entity: EntitySpec) -> str:
    """Describe the type of the result of one row."""
    return f"The result of one row: the {entity.type_name}, or an error."


def written_record(entity: EntitySpec) -> str:
    """Describe the record in the result of a mutation."""
    return f"The {entity.type_name} after the write."
