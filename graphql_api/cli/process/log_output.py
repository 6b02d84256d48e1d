"""The log of a server on the error stream, as JSON lines or as text."""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from graphql_api.server import LogFormat, LogLevel

FIELDS_IN_MESSAGE = frozenset({"method", "path", "status"})
"""Fields that the text format omits, since the message of a request contains them."""


def configure_logging(level: LogLevel, log_format: LogFormat) -> None:
    """Send all log output of this process to one handler. Other libraries log only warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("shardql").setLevel(level.upper())
    logging.getLogger("uvicorn").setLevel(logging.INFO if level == "debug" else logging.WARNING)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object per line, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _timestamp(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """Formats a record as text: `14:03:22 info    POST /graphql 200  milliseconds=12.3 storeCalls=1`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(
            f" {name}={_format_value(value)}"
            for name, value in _fields(record).items()
            if name not in FIELDS_IN_MESSAGE
        )
        message = "".join(part if part.isprintable() else repr(part)[1:-1] for part in record.getMessage())
        line = f"{_timestamp(record).astimezone():%H:%M:%S} {record.levelname.lower():<7} {message}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _timestamp(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = getattr(record, "facts", {})
    correlation_id = getattr(record, "correlation_id", None)
    return fields if correlation_id is None else {"correlationId": correlation_id, **fields}


def _format_value(value: object) -> str:
    if isinstance(value, tuple | list):
        return ",".join(map(_format_value, value))
    if isinstance(value, Mapping):
        return json.dumps(value, default=str)
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)
