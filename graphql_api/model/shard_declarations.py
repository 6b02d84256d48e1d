"""Declared shards become a shard space: each generation's beginning in terms of the creation property."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from graphql_api import codecs
from graphql_api.errors import InvalidValue, nearest
from graphql_api.model.annotations import read_annotation
from graphql_api.model.markers import Role, Shards, Since
from graphql_api.sharding import ONE_SHARD, SHARD_FUNCTIONS, Generation, ShardSpace

if TYPE_CHECKING:
    from graphql_api.model.entity import Entity

MAX_WIDTH = 5
"""60 million shards; wider text would only lengthen every key"""

_NUMBERS = codecs.Int64 | codecs.Int32
_MOMENTS = codecs.Timestamp | codecs.TimestampMs | codecs.DateTime | codecs.Date
CREATION_CODECS = _MOMENTS | _NUMBERS | codecs.Text
"""what a creation property may be: it has to stand before or after a given moment"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def shard_space(shards: Shards, created: codecs.Codec[Any] | None) -> ShardSpace:
    """The space that was declared. Whoever calls this has made sure that `shard_problems` finds nothing."""
    later = tuple(Generation(beginning(growth.since, created), growth.size) for growth in shards.growth)
    return ShardSpace((Generation(None, shards.size), *later), shards.width, shards.function)


def own_space(model: type["Entity"]) -> ShardSpace:
    """The shard space of a class, or one shard where its declaration is broken."""
    read = (read_annotation(field.annotation, field.metadata) for field in model.model_fields.values())
    codec = next((one.codec for one in read if Role("created") in one.marks), None)
    created = codec if isinstance(codec, CREATION_CODECS) else None
    shards = model.__declaration__.shards
    broken = any(shard_problems(shards, created)) or (shards.growth and created is None)
    return ONE_SHARD if broken else shard_space(shards, created)


def shard_problems(shards: Shards, created: codecs.Codec[Any] | None) -> Iterator[tuple[str, str]]:
    """Everything that is wrong with declared shards, as problem and remedy; beginnings only if `created` is there."""
    if shards.function not in SHARD_FUNCTIONS:
        known = ", ".join(SHARD_FUNCTIONS)
        hint = nearest(shards.function, SHARD_FUNCTIONS)
        yield f"has the unknown shard function {shards.function!r}.", f"Known functions: {known}.{hint}"
    if not _whole(shards.width) or not 1 <= shards.width <= MAX_WIDTH:
        yield f"has shard texts of width {shards.width!r}.", f"Give a width from 1 to {MAX_WIDTH}."
        return
    for growth in shards.generations:
        if not _whole(growth.size) or not 1 <= growth.size <= 36**shards.width:
            yield (
                f"has a generation of {growth.size!r} shards.",
                f"A width of {shards.width} allows 1 to {36**shards.width:,}.",
            )
    if created is not None:
        yield from _beginning_problems(shards, created)


def _beginning_problems(shards: Shards, created: codecs.Codec[Any]) -> Iterator[tuple[str, str]]:
    beginnings = []
    for growth in shards.growth:
        try:
            beginnings.append((growth.since, beginning(growth.since, created)))
        except InvalidValue as wrong:
            yield f"has a shard generation since {growth.since!r}.", wrong.message
    for (earlier, first), (later, second) in pairwise(beginnings):
        if not first < second:
            yield (
                f"has a shard generation since {later!r} declared behind the one since {earlier!r}.",
                "Declare generations in the order in which they begin, each at a later moment.",
            )


def beginning(since: Since | None, created: codecs.Codec[Any] | None) -> Any:
    """The first creation value of a generation, as the creation property holds it; `InvalidValue` if it cannot be."""
    if isinstance(created, codecs.Text | _NUMBERS):
        return created.check(since)
    if isinstance(created, codecs.Timestamp | codecs.TimestampMs):
        if _whole(since):
            return created.check(since)
        microseconds = (_moment(since) - _EPOCH) // timedelta(microseconds=1)
        unit = 1_000_000 if isinstance(created, codecs.Timestamp) else 1_000
        return created.check(-(-microseconds // unit))
    if isinstance(created, codecs.DateTime):
        return _moment(since)
    if isinstance(created, codecs.Date):
        moment = _moment(since)
        if moment.time() != time():
            raise InvalidValue("The creation property holds dates: give a date, or midnight UTC.")
        return moment.date()
    raise InvalidValue("The creation property is of a type that has no before and after.")


def _moment(since: Any) -> datetime:
    """A date or datetime, also as text, in UTC; without an offset it is meant in UTC."""
    if isinstance(since, str):
        try:
            since = datetime.fromisoformat(since)
        except ValueError:
            raise InvalidValue("Write the date as 2026-01-31 or 2026-01-31T12:00:00Z.") from None
    if isinstance(since, datetime):
        return since.replace(tzinfo=UTC) if since.tzinfo is None else since.astimezone(UTC)
    if isinstance(since, date):
        return datetime.combine(since, time(), UTC)
    raise InvalidValue('Give a date or a datetime, for instance "2026-01-31".')


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
