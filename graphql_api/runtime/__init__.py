"""What engines and servers share at run time: request statistics and capacity metering. Never imports storage."""

from graphql_api.runtime.capacity_meter import Bill, billed, itemised, present_bill
from graphql_api.runtime.request_statistics import (
    Tally,
    count_retry,
    count_returned,
    count_search,
    count_store_call,
    tallied,
    tally_so_far,
)

__all__ = [
    "Bill",
    "Tally",
    "billed",
    "count_retry",
    "count_returned",
    "count_search",
    "count_store_call",
    "itemised",
    "present_bill",
    "tallied",
    "tally_so_far",
]
