"""What all layers share at run time: statistics, capacity metering, retries and coalescing. Never imports storage."""

from graphql_api.runtime.request_coalescer import CoalescedCall as CoalescedCall
from graphql_api.runtime.request_coalescer import RequestCoalescer as RequestCoalescer
from graphql_api.runtime.request_coalescer import SharedResult as SharedResult
from graphql_api.runtime.request_statistics import CapacityMeter as CapacityMeter
from graphql_api.runtime.request_statistics import RequestStatistics as RequestStatistics
from graphql_api.runtime.request_statistics import collect_statistics as collect_statistics
from graphql_api.runtime.request_statistics import current_meter as current_meter
from graphql_api.runtime.request_statistics import current_statistics as current_statistics
from graphql_api.runtime.request_statistics import meter_capacity as meter_capacity
from graphql_api.runtime.request_statistics import meter_part as meter_part
from graphql_api.runtime.retry import RetryStrategy as RetryStrategy
