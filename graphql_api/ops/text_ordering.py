"""Detection of texts that represent numbers, dates, times or versions, and sort differently as texts."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

MAX_NUMBER_LENGTH = 10
"""digits; longer texts are identifiers such as phone numbers, which need no numeric order"""

MAX_VERSION_LENGTH = 4
"""numbers in a version; texts with more numbers are addresses and the like"""


@dataclass(frozen=True, slots=True)
class OrderingProblem:
    """The apparent kind of texts, two of them as an example, and the remedy."""

    description: str
    """such as: numbers: '10' comes before '9'"""
    remedy: str


def find_ordering_problem(texts: Collection[str], *, sorts: bool) -> OrderingProblem | None:
    """Return the ordering problem of texts that are all of one kind, or None.

    With `sorts`, the texts are sort values. Otherwise they are ids, which may look like versions without meaning.
    """
    for kind, interpret, remedy in _INTERPRETATIONS + (_SORT_INTERPRETATIONS if sorts else ()):
        values = interpret(texts) if texts else None
        if values is None:
            continue
        misordered = next(
            ((one, other) for one, other in pairwise(sorted(values)) if values[one] > values[other]), None
        )
        if misordered is not None:
            return OrderingProblem(f"{kind}: {misordered[0]!r} comes before {misordered[1]!r}", remedy)
    formats = _timestamp_formats(texts) if sorts else {}
    if len(formats) > 1:
        one, other = sorted(formats.values())[:2]
        return OrderingProblem(f"timestamps in several formats: {one!r} and {other!r}", _USE_DATETIME)
    return None


# --- interpretations -------------------------------------------------------------------------------------------

Interpretation = Callable[[Collection[str]], Mapping[str, Any] | None]
"""the value of each text; None: not all texts have this interpretation"""


def _each_text(parse: Callable[[str], Any]) -> Interpretation:
    """Return an interpretation that parses each text independently."""

    def interpret(texts: Collection[str]) -> Mapping[str, Any] | None:
        values = {text: parse(text) for text in texts}
        return None if None in values.values() else values

    return interpret


def _parse_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_NUMBER_LENGTH else None


_DECIMAL = re.compile(rf"\d{{1,{MAX_NUMBER_LENGTH}}}(\.\d{{1,{MAX_NUMBER_LENGTH}}})?", re.ASCII)
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})", re.ASCII)
_TIMESTAMP = re.compile(
    r"\d{4}-\d{2}-\d{2}(?P<joint>[T ])\d{2}:\d{2}(?P<seconds>:\d{2})?(?P<fraction>[.,]\d+)?"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)
_VERSION = re.compile(r"(?P<prefix>[A-Za-z]{0,10}[-_. ]?)(?P<numbers>\d{1,9}(?:\.\d{1,9})*)(?P<early>-.+)?", re.ASCII)


def _parse_decimal(text: str) -> Decimal | None:
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


def _date_parser(*order: int) -> Callable[[str], Any]:
    """Return a parser of dates that end in the year. `order` has the groups of month and day."""

    def parse(text: str) -> Any:
        found = _DATE.fullmatch(text)
        if found is None:
            return None
        month, day = (int(found[group]) for group in order)
        return (int(found[4]), month, day) if 1 <= month <= 12 and 1 <= day <= 31 else None

    return parse


def _parse_timestamp(text: str) -> datetime | None:
    if not _TIMESTAMP.fullmatch(text):
        return None
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        return None
    return timestamp.replace(tzinfo=UTC) if timestamp.tzinfo is None else timestamp


def _timestamp_formats(texts: Collection[str]) -> dict[tuple[str | int | None, ...], str]:
    """Return the formats of timestamps, each with an example, or nothing if a text is not a timestamp."""
    formats: dict[tuple[str | int | None, ...], str] = {}
    for text in sorted(texts):
        found = _TIMESTAMP.fullmatch(text)
        if found is None or _parse_timestamp(text) is None:
            return {}
        timestamp_format = (found["joint"], found["seconds"] is None, len(found["fraction"] or ""), found["zone"])
        formats.setdefault(timestamp_format, text)
    return formats


def _versions(texts: Collection[str]) -> Mapping[str, Any] | None:
    """Interpret texts as versions: `v10` with one prefix, or `1.10.0`. A pre-release precedes its version."""
    found = {text: _VERSION.fullmatch(text) for text in texts}
    matches = [match for match in found.values() if match is not None]
    if len(matches) < len(found) or len({match["prefix"] for match in matches}) > 1:
        return None
    parts = {match[0]: tuple(map(int, match["numbers"].split("."))) for match in matches}
    if max(map(len, parts.values())) > MAX_VERSION_LENGTH:
        return None
    return {match[0]: (parts[match[0]], not match["early"], match["early"] or "") for match in matches}


_USE_DATE = "Declare it as date, or write the year first: 2026-01-31."
_USE_DATETIME = "Declare it as datetime, or use UTC with the same digits everywhere: 2026-01-31T10:30:00Z."
_INTERPRETATIONS: tuple[tuple[str, Interpretation, str], ...] = (
    ("numbers", _each_text(_parse_number), "Declare it as int, or pad the numbers with zeros to one width."),
    ("dates that begin with the day", _each_text(_date_parser(3, 1)), _USE_DATE),
    ("dates that begin with the month", _each_text(_date_parser(1, 3)), _USE_DATE),
)
_SORT_INTERPRETATIONS: tuple[tuple[str, Interpretation, str], ...] = (
    ("decimal numbers", _each_text(_parse_decimal), "Declare it as Decimal."),
    ("timestamps in several formats", _each_text(_parse_timestamp), _USE_DATETIME),
    ("versions", _versions, "Pad the numbers with zeros to one width: v001, 001.010.000."),
)
