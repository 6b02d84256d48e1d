"""How a migration runs, what it reports while it runs, and what it has done."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from graphql_api.clock import Clock, system_clock
from graphql_api.evolution.record_repair import Violation
from graphql_api.evolution.table_schema import LEASE_MARGIN_SECONDS, REQUEST_LIFE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationSettings:
    """How a migration runs."""

    drop: bool = False
    """remove what the catalog no longer declares of its own entities"""
    rate: float | None = None
    """items per second, at most"""
    segments: int | None = None
    """parts of the table that are read concurrently; None: what suits the engine"""
    margin_seconds: float = LEASE_MARGIN_SECONDS
    life_seconds: float = REQUEST_LIFE_SECONDS
    claim_seconds: float | None = None
    """after which a segment of another process that has ended is taken over; None: a lease, or less on SQLite"""
    clock: Clock = system_clock
    timer: Clock = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class MigrationProgress:
    """What a migration is doing."""

    step: str
    records: int = 0
    """number of items that the pass has read"""
    written: int = 0
    percent: int | None = None
    """of all passes that repair records, or remove what is dropped"""
    seconds_left: float | None = None
    """of a wait"""


@dataclass(slots=True)
class MigrationResult:
    """What a migration has done."""

    ready: list[str] = field(default_factory=list)
    """elements that became ready, or were verified"""
    dropped: list[str] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    """complete: the elements that they concern stay `building`"""
    withdrawn: dict[str, str] = field(default_factory=dict)
    """why elements could not be built, such as shard generations that begin too soon, by id"""
    notes: list[str] = field(default_factory=list)
    """what is left to the operator"""
    records: int = 0
    written: int = 0

    @property
    def is_complete(self) -> bool:
        """Return whether nothing is pending any longer."""
        return not self.violations and not self.withdrawn


ProgressCallback = Callable[[MigrationProgress], None]
