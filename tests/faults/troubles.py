"""The faults that every search must stand, by name, and how patient a client is with each."""

from dataclasses import replace

from graphql_api.storage.engines.dynamodb import DynamoSettings
from tests.faults.faults import (
    SERVER_ERROR,
    THROTTLE,
    THROTTLE_OF_SERVICE,
    AppliedThenReset,
    BlackHole,
    Corrupted,
    CutShort,
    Delay,
    Duplicate,
    Empty,
    Fault,
    Garbage,
    Reset,
    Truncated,
)

HARMLESS: dict[str, Fault] = {"short delay": Delay(0.03), "duplicate": Duplicate()}
SILENT: dict[str, Fault] = {"long delay": Delay(60), "black hole": BlackHole()}
LOUD: dict[str, Fault] = {
    "reset": Reset(),
    "applied, then reset": AppliedThenReset(),
    "throttle": THROTTLE,
    "throttle of the service": THROTTLE_OF_SERVICE,
    "server error": SERVER_ERROR,
    "truncated": Truncated(),
    "cut short": CutShort(),
    "garbage": Garbage(),
    "corrupted": Corrupted(),
    "empty": Empty(),
}
HARMFUL: dict[str, Fault] = SILENT | LOUD

CALM = DynamoSettings(
    deadline=60.0, connect_seconds=10.0, read_seconds=20.0, backoff_base=0.01, backoff_cap=0.05, breaker_seconds=0.1
)
"""takes no busy machine for a fault"""
HASTY = replace(CALM, deadline=1.7, connect_seconds=0.3, read_seconds=0.5)
"""for faults that only a clock can notice: it gives up on an answer, and then on the whole call"""
STEADY = replace(CALM, connect_seconds=1.0, read_seconds=1.0, attempts=8, retry_floor=1000.0, breaker_failures=100)
"""for the same where they pass: also a machine that stands still for a second leaves time for another attempt"""


def settings_for(name: str, *, lasting: bool = True) -> DynamoSettings:
    """Hasty only where it must be."""
    if name not in SILENT:
        return CALM
    return HASTY if lasting else STEADY
