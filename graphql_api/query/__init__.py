"""Planning a search: request, filters, plan, page token. Pure: no I/O, no clock, no settings."""

from graphql_api.query.filter_parser import element_codec, filter_property_name, parse_filter
from graphql_api.query.filters import Filter, conjuncts
from graphql_api.query.index_row import RowView
from graphql_api.query.naming_scheme import (
    OPTION_ARGUMENTS,
    PAGE_ARGUMENTS,
    PAGING_ARGUMENTS,
    PYTHON_NAMES,
    NamingScheme,
)
from graphql_api.query.page_token import Cursor, pack
from graphql_api.query.planner import plan_search
from graphql_api.query.primary_key_values import parse_complete_key, parse_primary_key, parse_written_key
from graphql_api.query.property_values import property_reader
from graphql_api.query.range_conditions import parse_conditions
from graphql_api.query.range_pushdown import narrow_range_by_filter
from graphql_api.query.read_sizing import MAX_FETCH_BATCH, FetchSizing, next_limit
from graphql_api.query.search_plan import IndexScan, SearchPlan
from graphql_api.query.search_request import (
    COUNT_BUDGET,
    DEFAULT_LIMIT,
    MAX_COUNTED,
    MAX_LIMIT,
    MAX_SORTED,
    SearchRequest,
)
from graphql_api.query.search_values import StoredValue, search_value
from graphql_api.query.shard_progress import ShardProgress
from graphql_api.query.token_seal import MIN_SECRET_BYTES, TokenSeal

__all__ = [
    "COUNT_BUDGET",
    "DEFAULT_LIMIT",
    "MAX_COUNTED",
    "MAX_FETCH_BATCH",
    "MAX_LIMIT",
    "MAX_SORTED",
    "MIN_SECRET_BYTES",
    "OPTION_ARGUMENTS",
    "PAGE_ARGUMENTS",
    "PAGING_ARGUMENTS",
    "PYTHON_NAMES",
    "Cursor",
    "FetchSizing",
    "Filter",
    "IndexScan",
    "NamingScheme",
    "RowView",
    "SearchPlan",
    "SearchRequest",
    "ShardProgress",
    "StoredValue",
    "TokenSeal",
    "conjuncts",
    "element_codec",
    "filter_property_name",
    "narrow_range_by_filter",
    "next_limit",
    "pack",
    "parse_complete_key",
    "parse_conditions",
    "parse_filter",
    "parse_primary_key",
    "parse_written_key",
    "plan_search",
    "property_reader",
    "search_value",
]
