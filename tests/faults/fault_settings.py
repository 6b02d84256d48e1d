"""The faults of the fault tests by name, and client settings for them."""

from dataclasses import replace

from graphql_api.storage.engines.dynamodb import DynamoSettings
from tests.faults.fault_types import (
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

HARMLESS_FAULTS: dict[str, Fault] = {"short delay": Delay(0.03), "duplicate": Duplicate()}
UNANSWERED_FAULTS: dict[str, Fault] = {"long delay": Delay(60), "black hole": BlackHole()}
IMMEDIATE_FAULTS: dict[str, Fault] = {
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
HARMFUL_FAULTS: dict[str, Fault] = UNANSWERED_FAULTS | IMMEDIATE_FAULTS

LONG_TIMEOUTS = DynamoSettings(
    deadline=60.0,
    connect_seconds=10.0,
    read_seconds=20.0,
    attempts=3,
    backoff_base=0.01,
    backoff_cap=0.05,
    retry_floor=1000.0,
    breaker_seconds=0.1,
    hedge_share=0.0,
    table_deadline=5.0,
)
"""timeouts long enough for a busy machine; lasting faults fail after a few attempts, without waiting for the budget"""
SHORT_TIMEOUTS = replace(LONG_TIMEOUTS, deadline=1.7, connect_seconds=0.3, read_seconds=0.5)
"""for lasting faults that only a timeout detects: short timeouts for the response and for the whole call"""
MANY_ATTEMPTS = replace(LONG_TIMEOUTS, connect_seconds=1.0, read_seconds=1.0, attempts=8, breaker_failures=100)
"""for passing faults that only a timeout detects: enough attempts even if the machine pauses for a second"""


def settings_for(name: str, *, lasting: bool = True) -> DynamoSettings:
    """Settings for a fault. Timeouts are short only for faults that nothing else detects."""
    if name not in UNANSWERED_FAULTS:
        return LONG_TIMEOUTS
    return SHORT_TIMEOUTS if lasting else MANY_ATTEMPTS


def more_patient(settings: DynamoSettings) -> DynamoSettings:
    """Return settings with much longer timeouts, to repeat a read that a busy machine disturbed."""
    return replace(
        settings,
        deadline=4 * settings.deadline,
        connect_seconds=4 * settings.connect_seconds,
        read_seconds=4 * settings.read_seconds,
    )
