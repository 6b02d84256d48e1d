"""The settings of the DynamoDB engine. The defaults are for production."""

from dataclasses import dataclass, fields

from graphql_api.errors import StoreRefused

TRANSPORTS = ("direct", "aioboto3")


@dataclass(frozen=True, slots=True)
class DynamoSettings:
    """Timeouts, retries, concurrency limits, and the transport."""

    deadline: float = 5.0
    """seconds for an operation, including all waits and attempts; each batch of a write has its own"""
    connect_seconds: float = 0.3
    """seconds that an attempt may take to connect, in addition to `read_seconds`"""
    read_seconds: float = 1.0
    """seconds for the complete response of one attempt"""
    attempts: int = 10
    """maximum number of attempts of a request"""
    conflict_attempts: int = 8
    """maximum number of attempts of a write that conflicts with other writes"""
    backoff_base: float = 0.025
    """seconds: upper limit of the first backoff; it doubles with every attempt"""
    backoff_cap: float = 0.5
    """seconds: upper limit of every backoff"""
    retry_share: float = 0.1
    """failed retries that each request adds to the budget of the process"""
    retry_floor: float = 10.0
    """failed retries that are always allowed: initially, and then per second; at least one for each request that the
    widest operation in progress has sent"""
    hedge_share: float = 0.05
    """share of reads that may be sent a second time because they are late; 0 turns hedging off"""
    hedge_percentile: float = 0.97
    """a read is late if it takes longer than this share of the latest reads"""
    pool: int = 200
    """maximum number of connections; must exceed `in_flight`, so that no request waits inside the driver"""
    in_flight: int = 190
    """maximum number of concurrent requests"""
    in_flight_of_operation: int = 160
    """maximum number of concurrent requests of one operation (Query, BatchGetItem, …)"""
    in_flight_of_shard: int = 16
    """maximum number of concurrent requests to one hash key of one index"""
    breaker_failures: int = 5
    """number of attempts in a row without response, over at least `read_seconds`, that open the circuit breaker of a
    shard"""
    breaker_seconds: float = 1.0
    """seconds for which the circuit breaker stays open; then one request probes the shard"""
    batches_at_once: int = 8
    """maximum number of concurrent batches of one write"""
    table_deadline: float = 20.0
    """seconds for a call that describes or changes the table, including all attempts"""
    table_read_seconds: float = 10.0
    """seconds for the complete response of one attempt of such a call"""
    table_seconds: float = 3600.0
    """seconds for creating a table, or for adding an index to it"""
    table_pause: float = 2.0
    """seconds: upper limit of the interval between two polls of a table that is being created"""
    transport: str = "direct"
    """`direct`: queries, batches and writes use connections of the engine, for a fraction of the CPU time; `aioboto3`:
    its client sends every request"""

    def __post_init__(self) -> None:
        if self.transport not in TRANSPORTS:
            raise StoreRefused(f"transport is {self.transport!r}. Use {' or '.join(TRANSPORTS)}.")
        for setting in fields(self):
            if setting.name == "transport":
                continue
            if getattr(self, setting.name) <= 0 and setting.name not in {"retry_share", "backoff_base", "hedge_share"}:
                raise StoreRefused(
                    f"The setting {setting.name} is {getattr(self, setting.name)}. Use a number above 0."
                )
        if self.hedge_percentile >= 1:
            raise StoreRefused(f"hedge_percentile is {self.hedge_percentile}. Use a number below 1, such as 0.97.")
        if self.in_flight >= self.pool:
            raise StoreRefused(f"in_flight is {self.in_flight}, and pool is {self.pool}. Set pool above in_flight.")


DEFAULTS = DynamoSettings()
