"""The state of one HTTP request: its correlation id, and its outcome for the log and the metrics."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import getrandbits
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

from graphql_api.schema import Operation

CORRELATION_HEADER = "x-request-id"
CLIENT_CLOSED_REQUEST = 499
"""Status in the log if the client disconnected before the response."""
_CLIENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_SCOPE_KEY = "shardql.request_state"


@dataclass(slots=True)
class RequestState:
    """What the response, the log and the metrics need to know of one request."""

    correlation_id: str
    error_codes: tuple[str, ...] = ()
    explain_entries: tuple[Mapping[str, Any], ...] = ()
    operation: Operation | None = None
    events: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Posted events by projection and outcome."""
    status: int = 500
    """The status of the response, or CLIENT_CLOSED_REQUEST."""


def correlation_id(client_id: str) -> str:
    """Return the correlation id of a request: the one that the client sent, if it is short and plain, or a new one."""
    return client_id if _CLIENT_ID.fullmatch(client_id) else f"{getrandbits(128):032x}"


def get_request_state(scope: Scope) -> RequestState:
    """Return the state of a request, created on the first call."""
    state = scope.get(_SCOPE_KEY)
    if not isinstance(state, RequestState):
        state = scope[_SCOPE_KEY] = RequestState(correlation_id(Headers(scope=scope).get(CORRELATION_HEADER, "")))
    return state
