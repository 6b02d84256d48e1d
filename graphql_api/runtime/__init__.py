"""What all layers share at run time: statistics, metering, retries, hedging, coalescing. Never imports storage."""

from graphql_api.runtime.capacity_ceiling import CapacityCeiling as CapacityCeiling
from graphql_api.runtime.capacity_ceiling import Reservation as Reservation
from graphql_api.runtime.capacity_ceiling import current_reservation as current_reservation
from graphql_api.runtime.garbage_collection import without_old_objects as without_old_objects
from graphql_api.runtime.hedged_reads import HedgedReads as HedgedReads
from graphql_api.runtime.memory_budget import MemoryBudget as MemoryBudget
from graphql_api.runtime.memory_budget import current_memory as current_memory
from graphql_api.runtime.request_coalescer import CoalescedCall as CoalescedCall
from graphql_api.runtime.request_coalescer import RequestCoalescer as RequestCoalescer
from graphql_api.runtime.request_coalescer import SharedResult as SharedResult
from graphql_api.runtime.request_coalescer import wait_for_all as wait_for_all
from graphql_api.runtime.request_statistics import CapacityMeter as CapacityMeter
from graphql_api.runtime.request_statistics import IndexStatistics as IndexStatistics
from graphql_api.runtime.request_statistics import ReadKind as ReadKind
from graphql_api.runtime.request_statistics import RequestStatistics as RequestStatistics
from graphql_api.runtime.request_statistics import RequestTurn as RequestTurn
from graphql_api.runtime.request_statistics import collect_statistics as collect_statistics
from graphql_api.runtime.request_statistics import current_meter as current_meter
from graphql_api.runtime.request_statistics import current_statistics as current_statistics
from graphql_api.runtime.request_statistics import measure_call as measure_call
from graphql_api.runtime.request_statistics import meter_capacity as meter_capacity
from graphql_api.runtime.request_statistics import meter_part as meter_part
from graphql_api.runtime.responsive_timeout import ResponsiveTimer as ResponsiveTimer
from graphql_api.runtime.retry import Retries as Retries
from graphql_api.runtime.retry import RetryStrategy as RetryStrategy
from graphql_api.runtime.retry_budget import RetryBudget as RetryBudget
