"""Validate declared shards and build their shard space, with each generation's first creation value."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from graphql_api.codecs import Codec
from graphql_api.errors import InvalidValue, nearest
from graphql_api.model.markers import Shards, Since
from graphql_api.model.property_specs import property_specs, with_role
from graphql_api.model.specs import PropertySpec
from graphql_api.sharding import ONE_SHARD, SHARD_FUNCTIONS, Generation, ShardSpace

if TYPE_CHECKING:
    from graphql_api.model.entity import Entity

MAX_WIDTH = 5
"""enough for 60 million shards; more digits would lengthen every key"""

CREATION_KINDS = frozenset({"time", "integer", "text"})
"""possible kinds of a creation property: its values can be compared with the begin of a generation"""


def build_shard_space(shards: Shards, created: Codec[Any] | None) -> ShardSpace:
    """Build the declared shard space. Requires that `shard_problems` reports nothing."""
    first, *later = shards.generations
    if created is not None:
        later = [Generation(_first_creation_value(one.since, created), one.size) for one in later]
    return ShardSpace((first, *later), shards.width, shards.function)


def creation_codec(created: PropertySpec | None) -> Codec[Any] | None:
    """Return the codec of a creation property if its values can be compared with the begin of a generation."""
    return created.codec if created is not None and created.kind in CREATION_KINDS else None


def shard_space_of(model: type["Entity"]) -> ShardSpace:
    """Return the shard space of a class, or one shard if its declaration is invalid."""
    shards = model.__declaration__.shards
    created = creation_codec(next(iter(with_role(property_specs(model), "created")), None))
    is_invalid = any(shard_problems(shards, created)) or (shards.growth and created is None)
    return ONE_SHARD if is_invalid else build_shard_space(shards, created)


def shard_problems(shards: Shards, created: Codec[Any] | None) -> Iterator[tuple[str, str]]:
    """Yield the problems of declared shards with their remedies. Without `created`, dates are not checked."""
    if shards.function not in [*SHARD_FUNCTIONS]:  # Any object may be declared, even one that cannot be hashed.
        known = ", ".join(SHARD_FUNCTIONS)
        hint = nearest(str(shards.function), SHARD_FUNCTIONS)
        yield f"has the unknown shard function {shards.function!r}.", f"Known functions: {known}.{hint}"
    if not _is_integer(shards.width) or not 1 <= shards.width <= MAX_WIDTH:
        yield f"has the shard width {shards.width!r}.", f"Set a width from 1 to {MAX_WIDTH}."
        return
    for growth in shards.generations:
        if not _is_integer(growth.size) or not 1 <= growth.size <= 36**shards.width:
            remedy = f"A width of {shards.width} allows 1 to {36**shards.width:,}."
            yield f"has a generation of {growth.size!r} shards.", remedy
    if created is None:
        return
    values = []
    for growth in shards.growth:
        try:
            values.append((growth.since, _first_creation_value(growth.since, created)))
        except InvalidValue as invalid:
            yield f"has a shard generation since {growth.since!r}.", invalid.message
    for (earlier_since, earlier), (later_since, later) in pairwise(values):
        if not earlier < later:
            problem = f"has a shard generation since {later_since!r} declared after the one since {earlier_since!r}."
            remedy = "Declare generations in the order in which they begin, each at a later time."
            yield problem, remedy


def _first_creation_value(since: Since | None, created: Codec[Any]) -> Any:
    """Convert the begin of a generation to a value of the creation property. Raise `InvalidValue` if impossible."""
    if created.kind != "time" or (created.stored_type == "number" and _is_integer(since)):
        return created.check(since)
    return created.first_since(_to_datetime(since))


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
