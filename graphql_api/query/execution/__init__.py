"""Executing a plan: rounds of reads, the merge over shards, point lookups, the result page."""

from graphql_api.query.execution.index_scan import Work
from graphql_api.query.execution.page_scan import Count, count_records, find_page
from graphql_api.query.execution.point_lookups import RecordRead, RecordsFound, find_records
from graphql_api.query.execution.result_page import Page, Shards

__all__ = [
    "Count",
    "Page",
    "RecordRead",
    "RecordsFound",
    "Shards",
    "Work",
    "count_records",
    "find_page",
    "find_records",
]
