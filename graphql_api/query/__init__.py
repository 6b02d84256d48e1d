"""Planning a search: request, filters, plan, page token. Pure: no I/O, no clock, no settings."""

from graphql_api.query.argument_names import OPTIONS, PAGING, PYTHON, Dialect
from graphql_api.query.filters import Filter, conjuncts, item_codec, property_in_filters, read_filter
from graphql_api.query.index_row import RowView
from graphql_api.query.page_token import Place, pack
from graphql_api.query.planner import plan_search
from graphql_api.query.primary_key_values import primary_values, whole_key, written_key
from graphql_api.query.property_values import value_reader
from graphql_api.query.range_conditions import read_conditions
from graphql_api.query.range_pushdown import narrowed
from graphql_api.query.read_sizing import MAX_FETCHED, Tries, next_limit
from graphql_api.query.search_plan import Member, SearchPlan
from graphql_api.query.search_request import (
    COUNT_BUDGET,
    DEFAULT_LIMIT,
    MAX_COUNTED,
    MAX_LIMIT,
    MAX_SORTED,
    PAGE_WORDS,
    SearchRequest,
)
from graphql_api.query.search_values import Final, searched_value
from graphql_api.query.shard_progress import Standing
from graphql_api.query.token_seal import MIN_SECRET_BYTES, Seal

__all__ = [
    "COUNT_BUDGET",
    "DEFAULT_LIMIT",
    "MAX_COUNTED",
    "MAX_FETCHED",
    "MAX_LIMIT",
    "MAX_SORTED",
    "MIN_SECRET_BYTES",
    "OPTIONS",
    "PAGE_WORDS",
    "PAGING",
    "PYTHON",
    "Dialect",
    "Filter",
    "Final",
    "Member",
    "Place",
    "RowView",
    "Seal",
    "SearchPlan",
    "SearchRequest",
    "Standing",
    "Tries",
    "conjuncts",
    "item_codec",
    "narrowed",
    "next_limit",
    "pack",
    "plan_search",
    "primary_values",
    "property_in_filters",
    "read_conditions",
    "read_filter",
    "searched_value",
    "value_reader",
    "whole_key",
    "written_key",
]
