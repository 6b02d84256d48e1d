"""Validate declared shards and build their shard space, with each generation's first creation value."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from graphql_api import codecs
from graphql_api.errors import InvalidValue, nearest
from graphql_api.model.annotations import parse_annotation
from graphql_api.model.markers import Role, Shards, Since
from graphql_api.sharding import ONE_SHARD, SHARD_FUNCTIONS, Generation, ShardSpace

if TYPE_CHECKING:
    from graphql_api.model.entity import Entity

MAX_WIDTH = 5
"""enough for 60 million shards; more digits would lengthen every key"""

_INTEGER_CODECS = codecs.Int64 | codecs.Int32
_TIME_CODECS = codecs.Timestamp | codecs.TimestampMs | codecs.DateTime | codecs.Date
CREATION_CODECS = _TIME_CODECS | _INTEGER_CODECS | codecs.Text
"""possible codecs of a creation property: their values can be compared with the begin of a generation"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def build_shard_space(shards: Shards, created: codecs.Codec[Any] | None) -> ShardSpace:
    """Build the declared shard space. Requires that `shard_problems` reports nothing."""
    later = tuple(Generation(first_creation_value(growth.since, created), growth.size) for growth in shards.growth)
    return ShardSpace((Generation(None, shards.size), *later), shards.width, shards.function)


def shard_space_of(model: type["Entity"]) -> ShardSpace:
    """Return the shard space of a class, or one shard if its declaration is invalid."""
    annotations = (parse_annotation(field.annotation, field.metadata) for field in model.model_fields.values())
    codec = next((annotation.codec for annotation in annotations if Role("created") in annotation.markers), None)
    created = codec if isinstance(codec, CREATION_CODECS) else None
    shards = model.__declaration__.shards
    is_invalid = any(shard_problems(shards, created)) or (shards.growth and created is None)
    return ONE_SHARD if is_invalid else build_shard_space(shards, created)


def shard_problems(shards: Shards, created: codecs.Codec[Any] | None) -> Iterator[tuple[str, str]]:
    """Yield the problems of declared shards with their remedies. Without `created`, dates are not checked."""
    if shards.function not in SHARD_FUNCTIONS:
        known = ", ".join(SHARD_FUNCTIONS)
        hint = nearest(shards.function, SHARD_FUNCTIONS)
        yield f"has the unknown shard function {shards.function!r}.", f"Known functions: {known}.{hint}"
    if not _is_integer(shards.width) or not 1 <= shards.width <= MAX_WIDTH:
        yield f"has the shard width {shards.width!r}.", f"Set a width from 1 to {MAX_WIDTH}."
        return
    for growth in shards.generations:
        if not _is_integer(growth.size) or not 1 <= growth.size <= 36**shards.width:
            yield (
                f"has a generation of {growth.size!r} shards.",
                f"A width of {shards.width} allows 1 to {36**shards.width:,}.",
            )
    if created is not None:
        yield from _since_problems(shards, created)


def _since_problems(shards: Shards, created: codecs.Codec[Any]) -> Iterator[tuple[str, str]]:
    values = []
    for growth in shards.growth:
        try:
            values.append((growth.since, first_creation_value(growth.since, created)))
        except InvalidValue as invalid:
            yield f"has a shard generation since {growth.since!r}.", invalid.message
    for (earlier_since, earlier), (later_since, later) in pairwise(values):
        if not earlier < later:
            yield (
                f"has a shard generation since {later_since!r} declared after the one since {earlier_since!r}.",
                "Declare generations in the order in which they begin, each at a later time.",
            )


def first_creation_value(since: Since | None, created: codecs.Codec[Any] | None) -> Any:
    """Convert the begin of a generation to a value of the creation property. Raise `InvalidValue` if impossible."""
    if isinstance(created, codecs.Text | _INTEGER_CODECS):
        return created.check(since)
    if isinstance(created, codecs.Timestamp | codecs.TimestampMs):
        if _is_integer(since):
            return created.check(since)
        microseconds = (_to_datetime(since) - _EPOCH) // timedelta(microseconds=1)
        unit = 1_000_000 if isinstance(created, codecs.Timestamp) else 1_000
        return created.check(-(-microseconds // unit))
    if isinstance(created, codecs.DateTime):
        return _to_datetime(since)
    if isinstance(created, codecs.Date):
        instant = _to_datetime(since)
        if instant.time() != time():
            raise InvalidValue("The creation property holds dates: give a date, or midnight UTC.")
        return instant.date()
    raise InvalidValue("The creation property has a type that generations cannot be compared with.")


def _to_datetime(since: Any) -> datetime:
    """Convert a date, a datetime or ISO text to a datetime in UTC. Without an offset it is taken as UTC."""
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


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
