"""Consume the arguments of a search one by one, and check their values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql_api.codecs import Between, Condition, Eq, KeyRange, Prefix, RecordKey, parse_composite_id, short_repr
from graphql_api.errors import ConflictingArguments, EmptyKey, InvalidRange, MissingArgument, UnknownArgument, about
from graphql_api.model import EntitySpec, IndexSpec, PropertySpec, check_key_entity
from graphql_api.query.naming_scheme import NamingScheme
from graphql_api.query.search_values import StoredValue, search_value


@dataclass(slots=True)
class SearchArguments:
    """The arguments of a search of one index, and what is known from those that were consumed."""

    entity: EntitySpec
    index: IndexSpec
    naming: NamingScheme
    remaining: dict[str, Any]
    """arguments that are not consumed yet; any argument left at the end is unknown"""
    known: dict[str, Any] = field(default_factory=dict)
    """properties that have one value in every match"""
    bounds: dict[str, tuple[Any | None, Any | None]] = field(default_factory=dict)
    """properties that lie between two values in every match"""
    descriptions: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    """for arguments that were derived from another one, the name of that one"""

    @property
    def search_name(self) -> str:
        return self.naming.search_name(self.entity, self.index)

    def take(self, argument: str) -> Any | None:
        """Consume an argument; None if it was not provided."""
        return self.remaining.pop(argument, None)

    def argument_of(self, part: PropertySpec) -> str:
        """Return the argument for conditions on a property."""
        return self.naming.property_argument(part.name)

    def source_of(self, argument: str) -> str:
        """Return the argument as the caller provided it, for error messages."""
        return self.sources.get(argument, argument)

    def check(self, argument: str, part: PropertySpec, value: Any) -> Any:
        """Convert a value to the property's type; errors name the argument."""
        with about(argument):
            return search_value(self.entity, part, value)

    def take_required(self, part: PropertySpec) -> Any:
        """Consume the exact value of a property that every search of the index needs."""
        argument = self.argument_of(part)
        value = self.take(argument)
        argument = self.source_of(argument)
        if isinstance(value, Mapping) and set(value) == {"eq"}:
            value = value["eq"]
        if isinstance(value, Eq):
            value = value.value
        if value is None:
            raise MissingArgument(f"{self.search_name} is searched for one {argument}: give it.", argument=argument)
        checked = self.check(argument, part, value)
        if checked == "":
            raise EmptyKey(f"{argument} is empty, and empty keys hold no records: give a text.", argument=argument)
        self.known[part.name] = checked
        self.descriptions.append(describe_condition(part, Eq(checked)))
        return checked

    def expand_id(self) -> None:
        """Replace `id` of a search by_id with the id properties: `id="prod/orders"`.

        A property of the entity that is itself called `id` takes precedence.
        """
        entity, index = self.entity, self.index
        is_property = "id" in map(self.naming.property_name, entity.properties)
        if index.physical is not None or is_property or (id := self.remaining.get("id")) is None:
            return
        if not entity.ids:
            raise UnknownArgument(f"{entity.type_name} has no id, because it is a singleton: omit id.", argument="id")
        del self.remaining["id"]
        with about("id"):
            if isinstance(id, RecordKey):
                check_key_entity(entity, id)
                values: list[Any] = [*map(StoredValue, id.ids)]
            else:
                values = parse_composite_id(id, [part.column.codec for part in entity.ids], entity.separator)
        for part, value in zip(entity.ids, values, strict=True):
            argument = self.argument_of(part)
            if self.remaining.get(argument) is not None:
                raise ConflictingArguments(
                    f"id and {argument} ask for the same property: give one of them.", argument="id"
                )
            self.remaining[argument] = Eq(value)
            self.sources[argument] = "id"


def parse_shorthand(shorthand: Mapping[str, Any]) -> Condition:
    """Convert `eq`, `prefix`, `from_` and `to` to a condition."""
    if "eq" in shorthand:
        return Eq(shorthand["eq"])
    if "prefix" in shorthand:
        return Prefix(shorthand["prefix"])
    return Between(shorthand.get("from_"), shorthand.get("to"))


def refuse_empty_range(key_range: KeyRange, argument: str, low: str, high: str) -> None:
    """Raise InvalidRange if the bounds are in the wrong order."""
    if key_range.is_empty:
        raise InvalidRange(
            f"{argument}: the range from {short_repr(low)} to {short_repr(high)} ends before it begins: exchange the "
            "two, and use reverse for the other order.",
            argument=argument,
        )


def describe_condition(part: PropertySpec, condition: Condition) -> str:
    """Format a condition for explain output and page tokens."""
    codec = part.column.codec
    if isinstance(condition, Eq):
        return f'{part.stored} "{codec.format(condition.value)}"'
    if isinstance(condition, Prefix):
        return f'{part.stored} prefix "{condition.text}"'
    low = "" if condition.low is None else f' from "{codec.format(condition.low)}"'
    high = "" if condition.high is None else f' to "{codec.format(condition.high)}"'
    return f"{part.stored}{low}{high}"
