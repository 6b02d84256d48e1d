"""Texts that mean something which sorts, and come in another order as texts: numbers, dates, moments, versions."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

MAX_NUMBER_LENGTH = 10
"""digits: longer texts are rather phone numbers and the like, of which nobody expects an order by value"""

MAX_VERSION_LENGTH = 4
"""numbers: more of them are rather addresses and the like"""


@dataclass(frozen=True, slots=True)
class WrongOrder:
    """What texts seem to be, two of them that show it, and what to do about it."""

    told: str
    """numbers: '10' comes before '9'"""
    remedy: str


def wrong_order(texts: Collection[str], *, sorts: bool) -> WrongOrder | None:
    """What is wrong with the order of texts, if all of them are of one kind.

    `sorts`: they are there to be sorted by; a mere id may be made like a version and mean nothing by it.
    """
    for kind, meaning, remedy in _OF_ALL + (_OF_SORTED if sorts else ()):
        values = meaning(texts) if texts else None
        if values is None:
            continue
        wrong = next(((one, other) for one, other in pairwise(sorted(values)) if values[one] > values[other]), None)
        if wrong is not None:
            return WrongOrder(f"{kind}: {wrong[0]!r} comes before {wrong[1]!r}", remedy)
    forms = _forms(texts) if sorts else {}
    if len(forms) > 1:
        one, other = sorted(forms.values())[:2]
        return WrongOrder(f"moments in several forms: {one!r} and {other!r}", _AS_MOMENT)
    return None


# --- what texts may mean ---------------------------------------------------------------------------------------

Meaning = Callable[[Collection[str]], Mapping[str, Any] | None]
"""the value of each text; None: they mean something else"""


def _each(read: Callable[[str], Any]) -> Meaning:
    """A meaning that every text has by itself."""

    def meaning(texts: Collection[str]) -> Mapping[str, Any] | None:
        values = {text: read(text) for text in texts}
        return None if None in values.values() else values

    return meaning


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_NUMBER_LENGTH else None


_DECIMAL = re.compile(rf"\d{{1,{MAX_NUMBER_LENGTH}}}(\.\d{{1,{MAX_NUMBER_LENGTH}}})?", re.ASCII)
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})", re.ASCII)
_MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}(?P<joint>[T ])\d{2}:\d{2}(?P<seconds>:\d{2})?(?P<fraction>[.,]\d+)?"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)
_VERSION = re.compile(r"(?P<prefix>[A-Za-z]{0,10}[-_. ]?)(?P<numbers>\d{1,9}(?:\.\d{1,9})*)(?P<early>-.+)?", re.ASCII)


def _decimal(text: str) -> Decimal | None:
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


def _date_by(*order: int) -> Callable[[str], Any]:
    """Reads a date that ends in its year, whose month and day are the numbers at these two places."""

    def read(text: str) -> Any:
        found = _DATE.fullmatch(text)
        if found is None:
            return None
        month, day = (int(found[place]) for place in order)
        return (int(found[4]), month, day) if 1 <= month <= 12 and 1 <= day <= 31 else None

    return read


def _moment(text: str) -> datetime | None:
    if not _MOMENT.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _forms(texts: Collection[str]) -> dict[tuple[str | int | None, ...], str]:
    """The forms in which moments are written, each with a text that is; none where some are no moments."""
    forms: dict[tuple[str | int | None, ...], str] = {}
    for text in sorted(texts):
        found = _MOMENT.fullmatch(text)
        if found is None or _moment(text) is None:
            return {}
        form = (found["joint"], found["seconds"] is None, len(found["fraction"] or ""), found["zone"])
        forms.setdefault(form, text)
    return forms


def _versions(texts: Collection[str]) -> Mapping[str, Any] | None:
    """Numbers behind one prefix, `v10`, or with dots between them, `1.10.0`; what is early comes before the version."""
    found = {text: _VERSION.fullmatch(text) for text in texts}
    matches = [match for match in found.values() if match is not None]
    if len(matches) < len(found) or len({match["prefix"] for match in matches}) > 1:
        return None
    parts = {match[0]: tuple(map(int, match["numbers"].split("."))) for match in matches}
    if max(map(len, parts.values())) > MAX_VERSION_LENGTH:
        return None
    return {match[0]: (parts[match[0]], not match["early"], match["early"] or "") for match in matches}


_AS_DATE = "Make it a date, or write the year first: 2026-01-31."
_AS_MOMENT = "Make it a datetime, or write all of them in UTC with the same digits: 2026-01-31T10:30:00Z."
_OF_ALL: tuple[tuple[str, Meaning, str], ...] = (
    ("numbers", _each(_number), "Make it an int, or pad its numbers with zeros to one width."),
    ("dates that begin with the day", _each(_date_by(3, 1)), _AS_DATE),
    ("dates that begin with the month", _each(_date_by(1, 3)), _AS_DATE),
)
_OF_SORTED: tuple[tuple[str, Meaning, str], ...] = (
    ("decimal numbers", _each(_decimal), "Make it a Decimal."),
    ("moments in several forms", _each(_moment), _AS_MOMENT),
    ("versions", _versions, "Pad its numbers with zeros to one width: v001, 001.010.000."),
)
