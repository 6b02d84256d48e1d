"""Executing a plan: rounds of reads, the merge over shards, point lookups, the result page."""

from graphql_api.query.execution.index_scanner import ReadCost as ReadCost
from graphql_api.query.execution.point_lookups import FetchedRecords as FetchedRecords
from graphql_api.query.execution.point_lookups import LookupGroups as LookupGroups
from graphql_api.query.execution.point_lookups import PointLookup as PointLookup
from graphql_api.query.execution.point_lookups import PointLookups as PointLookups
from graphql_api.query.execution.point_lookups import RecordResult as RecordResult
from graphql_api.query.execution.point_lookups import StoredResults as StoredResults
from graphql_api.query.execution.point_lookups import fetch_records as fetch_records
from graphql_api.query.execution.point_lookups import results_of_groups as results_of_groups
from graphql_api.query.execution.point_lookups import statistics_by_key as statistics_by_key
from graphql_api.query.execution.record_count import Count as Count
from graphql_api.query.execution.result_page import Page as Page
from graphql_api.query.execution.result_page import Shards as Shards
from graphql_api.query.execution.search_estimate import estimate_search as estimate_search
from graphql_api.query.execution.search_estimate import explain_search as explain_search
from graphql_api.query.execution.search_reader import SearchReader as SearchReader
from graphql_api.query.execution.search_reader import pricing as pricing
