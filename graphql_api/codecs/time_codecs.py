"""Codecs of time: dates, datetimes and durations (docs/key-format.md)."""

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from graphql_api.codecs.scalar_codec import Codec, StoredScalar, short_repr
from graphql_api.errors import InvalidValue

_DATE_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME_PATTERN = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
_DURATION_PATTERN = re.compile(
    r"(?P<minus>-?)P(?=[0-9T])(?:(?P<days>[0-9]{1,20})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,20})H)?(?:(?P<minutes>[0-9]{1,20})M)?"
    r"(?:(?P<seconds>[0-9]{1,20})(?:\.(?P<fraction>[0-9]{1,6}))?S)?)?"
)
_MICROSECOND = timedelta(microseconds=1)
_DURATION_BIAS = 10**20
_DURATION_WIDTH = 21


class Date(Codec[date]):
    """`date`: ISO text."""

    name = "date"

    def _check(self, value: object) -> date:
        if isinstance(value, datetime) or not isinstance(value, date):
            raise self._wrong_type(value, "a date without a time")
        return value

    def _encode(self, value: date) -> str:
        return value.isoformat()

    def _decode(self, text: str) -> date:
        return self._parse(text)

    def _store(self, value: date) -> StoredScalar:
        return value.isoformat()

    def _load(self, stored: object) -> date:
        if not isinstance(stored, str):
            raise self._wrong_type(stored, "a stored ISO date")
        return self._parse(stored)

    def _format(self, value: date) -> str:
        return value.isoformat()

    def _parse(self, text: str) -> date:
        try:
            if _DATE_PATTERN.fullmatch(text):
                return date.fromisoformat(text)
        except ValueError:
            pass
        raise self._invalid_text(text, "2026-01-31")


class DateTime(Codec[datetime]):
    """`datetime`: an instant, as ISO text in UTC with six fraction digits."""

    name = "datetime"

    def _check(self, value: object) -> datetime:
        if not isinstance(value, datetime):
            raise self._wrong_type(value, "a datetime with an offset")
        if value.utcoffset() is None:
            raise InvalidValue(f"{value.isoformat()} has no offset from UTC. Give a datetime with a time zone.")
        try:
            return value.astimezone(UTC)
        except OverflowError:
            raise InvalidValue(
                f"{value.isoformat()} is outside of the years 1 to 9999 in UTC. Give a datetime within them."
            ) from None

    def _encode(self, value: datetime) -> str:
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"

    def _decode(self, text: str) -> datetime:
        return self._parse(text)

    def _store(self, value: datetime) -> StoredScalar:
        return self._encode(value)

    def _load(self, stored: object) -> datetime:
        if not isinstance(stored, str):
            raise self._wrong_type(stored, "a stored ISO datetime")
        return self._parse(stored)

    def _format(self, value: datetime) -> str:
        return self._encode(value)

    def _parse(self, text: str) -> datetime:
        try:
            if _DATETIME_PATTERN.fullmatch(text):
                return self._check(datetime.fromisoformat(text))
        except ValueError:
            pass
        raise self._invalid_text(text, "2026-01-31T12:30:00Z")


class Duration(Codec[timedelta]):
    """`timedelta`: microseconds, 21 digits biased by 10^20."""

    name = "duration"

    def _stores_number(self) -> bool:
        return True

    def _check(self, value: object) -> timedelta:
        if not isinstance(value, timedelta):
            raise self._wrong_type(value, "a timedelta")
        return value

    def _encode(self, value: timedelta) -> str:
        return f"{value // _MICROSECOND + _DURATION_BIAS:0{_DURATION_WIDTH}d}"

    def _decode(self, text: str) -> timedelta:
        return (int(text) - _DURATION_BIAS) * _MICROSECOND

    def _store(self, value: timedelta) -> StoredScalar:
        return value // _MICROSECOND

    def _load(self, stored: object) -> timedelta:
        if isinstance(stored, bool) or not isinstance(stored, int | Decimal):
            raise self._wrong_type(stored, "stored microseconds")
        try:
            if int(stored) == stored:
                return int(stored) * _MICROSECOND
        except (ValueError, OverflowError):
            pass
        raise InvalidValue(f"The stored number {short_repr(stored)} is no {self.name}. Correct the record.")

    def _format(self, value: timedelta) -> str:
        seconds, microseconds = divmod(abs(value // _MICROSECOND), 1_000_000)
        days, seconds = divmod(seconds, 86_400)
        fraction = f".{microseconds:06d}".rstrip("0") if microseconds else ""
        time = f"T{seconds}{fraction}S" if seconds or fraction or not days else ""
        return f"{'-' if value < timedelta() else ''}P{f'{days}D' if days else ''}{time}"

    def _parse(self, text: str) -> timedelta:
        match = _DURATION_PATTERN.fullmatch(text)
        if not match:
            raise self._invalid_text(text, "P1DT2H or PT0.5S")
        days, hours, minutes, seconds = (int(match[unit] or 0) for unit in ("days", "hours", "minutes", "seconds"))
        total_seconds = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        microseconds = total_seconds * 1_000_000 + int((match["fraction"] or "").ljust(6, "0"))
        try:
            return (-microseconds if match["minus"] else microseconds) * _MICROSECOND
        except OverflowError:
            raise InvalidValue(
                f"{short_repr(text)} is too long for a timedelta. Give at most 999,999,999 days."
            ) from None
