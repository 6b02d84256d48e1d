"""Executing a plan: rounds of reads, the merge over shards, point lookups, the result page."""

from graphql_api.query.execution.index_scanner import ReadCost
from graphql_api.query.execution.page_reader import Count, count_records, read_page
from graphql_api.query.execution.point_lookups import FetchedRecords, PointLookup, fetch_records
from graphql_api.query.execution.result_page import Page, Shards

__all__ = [
    "Count",
    "FetchedRecords",
    "Page",
    "PointLookup",
    "ReadCost",
    "Shards",
    "count_records",
    "fetch_records",
    "read_page",
]
