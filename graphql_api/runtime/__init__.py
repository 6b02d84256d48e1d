"""What engines and servers share at run time: request statistics and capacity metering. Never imports storage."""

from graphql_api.runtime.capacity_meter import CapacityMeter, current_meter, meter_capacity, meter_part
from graphql_api.runtime.request_statistics import (
    RequestStatistics,
    collect_statistics,
    count_retry,
    count_returned,
    count_search,
    count_store_call,
    current_statistics,
)

__all__ = [
    "CapacityMeter",
    "RequestStatistics",
    "collect_statistics",
    "count_retry",
    "count_returned",
    "count_search",
    "count_store_call",
    "current_meter",
    "current_statistics",
    "meter_capacity",
    "meter_part",
]
