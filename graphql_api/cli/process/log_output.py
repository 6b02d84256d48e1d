"""The log of a server on the error stream: one JSON object a line, or text for people."""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from graphql_api.server import LogFormat, LogLevel

OURS = "shardql"
THEIRS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
IN_MESSAGE = frozenset({"method", "path", "status"})
"""facts that the message of a request tells by itself"""


def set_up_logs(level: LogLevel, form: LogFormat) -> None:
    """Sends everything that is logged in this process one way; of other libraries no more than warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(OURS).setLevel(level.upper())
    for name in THEIRS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.INFO if level == "debug" else logging.WARNING)


class JsonLines(logging.Formatter):
    """One object a line, in characters that no terminal and no collector can misread."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _moment(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_facts(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """`14:03:22 info    POST /graphql 200  milliseconds=12.3 storeCalls=1`."""

    def format(self, record: logging.LogRecord) -> str:
        facts = "".join(f" {name}={_word(value)}" for name, value in _facts(record).items() if name not in IN_MESSAGE)
        message = "".join(part if part.isprintable() else repr(part)[1:-1] for part in record.getMessage())
        line = f"{_moment(record).astimezone():%H:%M:%S} {record.levelname.lower():<7} {message}{facts}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _facts(record: logging.LogRecord) -> Mapping[str, Any]:
    facts: Mapping[str, Any] = getattr(record, "facts", {})
    correlation_id = getattr(record, "correlation_id", None)
    return facts if correlation_id is None else {"correlationId": correlation_id, **facts}


def _word(value: object) -> str:
    if isinstance(value, tuple | list):
        return ",".join(map(_word, value))
    if isinstance(value, Mapping):
        return json.dumps(value, default=str)
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)
