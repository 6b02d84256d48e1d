"""Every knob of the DynamoDB adapter; the defaults are what production uses."""

from dataclasses import dataclass, fields

from graphql_api.errors import StoreRefused


@dataclass(frozen=True, slots=True)
class DynamoSettings:
    """How long to wait, how often to try again, and how much to ask at once."""

    deadline: float = 5.0
    """seconds that an operation may take with all its waits and attempts; each batch of a write has its own"""
    connect_seconds: float = 0.3
    """how long a connection may take to stand"""
    read_seconds: float = 1.0
    """how long one attempt may take to bring its whole answer"""
    attempts: int = 3
    """how often a request is sent at most"""
    conflict_attempts: int = 8
    """how often a write is sent at most that meets other writes of the same record"""
    backoff_base: float = 0.025
    """seconds: the longest pause before the second attempt; it doubles for every further one"""
    backoff_cap: float = 0.5
    """seconds: the longest pause before any attempt"""
    retry_share: float = 0.1
    """how many retries each request allows the process, on average"""
    retry_floor: float = 10.0
    """how many retries are allowed at any rate, at once and then each second"""
    pool: int = 200
    """connections to keep; must be above `in_flight`, so that nobody waits for one unseen"""
    in_flight: int = 190
    """requests on their way at once, of all operations"""
    in_flight_of_operation: int = 160
    """requests of one kind (Query, BatchGetItem, …) on their way at once"""
    in_flight_of_shard: int = 16
    """requests on their way to one hash key of one index at once"""
    breaker_failures: int = 5
    """after so many attempts in a row without an answer a shard is left alone for a while"""
    breaker_seconds: float = 1.0
    """how long it is left alone; then one request tries it"""
    batches_at_once: int = 8
    """batches of one write on their way at once"""
    table_seconds: float = 3600.0
    """how long making a table and filling its indexes may take"""
    table_pause: float = 2.0
    """seconds: the longest pause between two looks at a table that is being made"""

    def __post_init__(self) -> None:
        for knob in fields(self):
            if getattr(self, knob.name) <= 0 and knob.name not in {"retry_share", "backoff_base"}:
                raise StoreRefused(f"The setting {knob.name} is {getattr(self, knob.name)}. Give a number above 0.")
        if self.in_flight >= self.pool:
            raise StoreRefused(
                f"{self.in_flight} requests may be in flight over {self.pool} connections. Set pool above in_flight."
            )


DEFAULTS = DynamoSettings()
