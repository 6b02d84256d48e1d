"""The notes of one request: the id that finds it again in logs, and what became of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import Scope

HEADER = "x-request-id"
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_KEY = "shardql.notes"


@dataclass(slots=True)
class Notes:
    """What is known of one request, for its answer, the log and the metrics."""

    correlation_id: str
    codes: tuple[str, ...] = ()
    """of the errors in the answer"""
    explained: tuple[Mapping[str, Any], ...] = ()
    """what its searches have done, where anybody wants to know"""
    left: bool = False
    """whether the client went away before the answer"""


def notes_of(scope: Scope) -> Notes:
    """The notes of a request, begun at the first call: its id is the client's own where that is short and plain."""
    notes = scope.get(_KEY)
    if not isinstance(notes, Notes):
        sent = Headers(scope=scope).get(HEADER, "")
        notes = scope[_KEY] = Notes(sent if _SAFE.fullmatch(sent) else uuid4().hex)
    return notes
