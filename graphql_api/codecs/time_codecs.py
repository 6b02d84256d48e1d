"""Codecs of time: timestamps, dates, datetimes and durations (docs/reference/key-format.md)."""

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import ClassVar

from graphql_api.codecs.number_codecs import IntegerCodec, NumberCodec
from graphql_api.codecs.scalar_codec import GraphQLScalar, Samples, SortableTextCodec, StoredScalar, short_repr
from graphql_api.errors import InvalidValue

_DURATION_PATTERN = re.compile(
    r"(?P<minus>-?)P(?=[0-9T])(?:(?P<days>[0-9]{1,20})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,20})H)?(?:(?P<minutes>[0-9]{1,20})M)?"
    r"(?:(?P<seconds>[0-9]{1,20})(?:\.(?P<fraction>[0-9]{1,6}))?S)?)?"
)
_RFC_3339 = "https://www.rfc-editor.org/rfc/rfc3339"
_MICROSECOND = timedelta(microseconds=1)
_DURATION_BIAS = 10**20
_DURATION_WIDTH = 21

EXAMPLE_YEAR = 2024
"""Year of the example time ranges."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _UnixTime(IntegerCodec):
    """Time since 1970, limited to the range that JSON numbers represent exactly."""

    kind = "time"
    minimum = -(2**53)
    maximum = 2**53
    allowed_range = "-2^53 to 2^53"
    units_per_second: ClassVar[int]

    def at(self, seconds: float) -> int:
        """Return the last value at or before the moment."""
        return int(seconds * self.units_per_second)

    def first_since(self, moment: datetime) -> int:
        """Return the first value at or after the moment."""
        microseconds = (moment - _EPOCH) // _MICROSECOND
        return self.check(-(-microseconds * self.units_per_second // 1_000_000))

    def display(self, value: int) -> str:
        try:
            moment = _EPOCH + timedelta(seconds=value // self.units_per_second)
        except OverflowError:
            return str(value)
        return moment.strftime("%Y-%m-%d" if moment.time() == time() else "%Y-%m-%d %H:%M:%S")


class Timestamp(_UnixTime):
    """`Timestamp`: seconds since 1970."""

    name = "timestamp"
    graphql = GraphQLScalar("Timestamp", "Unix time: seconds since 1970-01-01 UTC.", is_json_native=True)
    samples = Samples(1_704_067_200, 1_735_689_599, typical=1_767_225_599, unused=4_102_358_400)
    units_per_second = 1


class TimestampMs(_UnixTime):
    """`TimestampMs`: milliseconds since 1970."""

    name = "timestampMs"
    graphql = GraphQLScalar("TimestampMs", "Unix time in milliseconds since 1970-01-01 UTC.", is_json_native=True)
    samples = Samples(1_704_067_200_000, 1_735_689_599_999, typical=1_767_225_599_999, unused=4_102_358_400_000)
    units_per_second = 1000


class Date(SortableTextCodec[date]):
    """`date`: ISO text."""

    name = "date"
    python_type = date
    excluded_types = (datetime,)
    expected = "a date without a time"
    graphql = GraphQLScalar("Date", "A calendar date, such as `2026-01-31`.", _RFC_3339)
    key_tag = "d"
    samples = Samples(
        date(EXAMPLE_YEAR, 1, 1), date(EXAMPLE_YEAR, 12, 31), typical=date(2026, 1, 31), unused=date(2099, 12, 31)
    )
    kind = "time"
    stored_label = "a stored ISO date"
    step = timedelta(days=1)
    text_pattern = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

    def _parse(self, text: str) -> date:
        return date.fromisoformat(text)

    def at(self, seconds: float) -> date:
        return datetime.fromtimestamp(seconds, UTC).date()

    def first_since(self, moment: datetime) -> date:
        if moment.time() != time():
            raise InvalidValue("The creation property holds dates: give a date, or midnight UTC.")
        return moment.date()


class DateTime(SortableTextCodec[datetime]):
    """`datetime`: an instant, as ISO text in UTC with six fraction digits."""

    name = "datetime"
    python_type = datetime
    expected = "a datetime with an offset"
    graphql = GraphQLScalar(
        "DateTime", "A date and time in UTC, such as `2026-01-31T12:00:00Z`. Inputs accept any UTC offset.", _RFC_3339
    )
    key_tag = "t"
    example = "2026-01-31T12:30:00Z"
    example_range = (f'"{EXAMPLE_YEAR}-01-01T00:00:00Z"', f'"{EXAMPLE_YEAR}-12-31T23:59:59Z"')
    samples = Samples(
        datetime(EXAMPLE_YEAR, 1, 1, tzinfo=UTC),
        datetime(EXAMPLE_YEAR, 12, 31, 23, 59, 59, tzinfo=UTC),
        typical=datetime(2026, 1, 31, 12, 34, 56, 123456, UTC),
        unused=datetime(2099, 12, 31, tzinfo=UTC),
    )
    kind = "time"
    stored_label = "a stored ISO datetime"
    step = timedelta(days=1)
    text_pattern = re.compile(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})"
    )

    def check(self, value: object) -> datetime:
        moment = super().check(value)
        if moment.utcoffset() is None:
            raise InvalidValue(f"{moment.isoformat()} has no offset from UTC. Give a datetime with a time zone.")
        try:
            return moment.astimezone(UTC)
        except OverflowError:
            raise InvalidValue(
                f"{moment.isoformat()} is outside of the years 1 to 9999 in UTC. Give a datetime within them."
            ) from None

    def _format(self, value: datetime) -> str:
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"

    def _parse(self, text: str) -> datetime:
        return datetime.fromisoformat(text)

    def pack(self, value: datetime) -> str:
        return self.check(value).isoformat()

    def at(self, seconds: float) -> datetime:
        return datetime.fromtimestamp(seconds, UTC)

    def first_since(self, moment: datetime) -> datetime:
        return moment


class Duration(NumberCodec[timedelta]):
    """`timedelta`: microseconds, 21 digits biased by 10^20."""

    name = "duration"
    python_type = timedelta
    graphql = GraphQLScalar(
        "Duration", "An ISO 8601 duration of days, hours, minutes and seconds, such as `P1DT2H` or `PT0.5S`."
    )
    key_tag = "p"
    example = "P1DT2H or PT0.5S"
    samples = Samples(
        timedelta(hours=1),
        timedelta(days=1),
        typical=timedelta(hours=1, minutes=2, seconds=3),
        unused=timedelta(seconds=1_999_999_999),
    )
    stored_label = "stored microseconds"
    step = timedelta(days=1)

    def _encode(self, value: timedelta) -> str:
        return f"{value // _MICROSECOND + _DURATION_BIAS:0{_DURATION_WIDTH}d}"

    def _decode(self, text: str) -> timedelta:
        return (int(text) - _DURATION_BIAS) * _MICROSECOND

    def _store(self, value: timedelta) -> StoredScalar:
        return value // _MICROSECOND

    def _load(self, stored: int | Decimal) -> timedelta:
        try:
            return self._whole_number(stored) * _MICROSECOND
        except OverflowError:
            raise self._invalid_number(stored) from None

    def store_nested(self, value: timedelta) -> str:
        """Return the text form: pydantic would read a number as seconds."""
        return self.format(value)

    def pack(self, value: timedelta) -> str:
        return str(value // _MICROSECOND)

    def unpack(self, text: str) -> timedelta:
        return timedelta(microseconds=int(text))

    def _format(self, value: timedelta) -> str:
        seconds, microseconds = divmod(abs(value // _MICROSECOND), 1_000_000)
        days, seconds = divmod(seconds, 86_400)
        fraction = f".{microseconds:06d}".rstrip("0") if microseconds else ""
        time = f"T{seconds}{fraction}S" if seconds or fraction or not days else ""
        return f"{'-' if value < timedelta() else ''}P{f'{days}D' if days else ''}{time}"

    def _parse(self, text: str) -> timedelta:
        match = _DURATION_PATTERN.fullmatch(text)
        if not match:
            raise ValueError(text)
        days, hours, minutes, seconds = (int(match[unit] or 0) for unit in ("days", "hours", "minutes", "seconds"))
        total_seconds = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        microseconds = total_seconds * 1_000_000 + int((match["fraction"] or "").ljust(6, "0"))
        try:
            return (-microseconds if match["minus"] else microseconds) * _MICROSECOND
        except OverflowError:
            raise InvalidValue(
                f"{short_repr(text)} is too long for a timedelta. Give at most 999,999,999 days."
            ) from None
