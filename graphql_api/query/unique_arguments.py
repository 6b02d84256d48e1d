"""Parse the arguments that name one record by a unique value."""

from collections.abc import Mapping
from typing import Any

from graphql_api.codecs import short_repr
from graphql_api.errors import InvalidValue, MissingArgument, UnknownArgument, about, nearest
from graphql_api.model import EntitySpec, UniqueSpec
from graphql_api.query.argument_values import search_value
from graphql_api.query.search_request import PYTHON_NAMES, NamingScheme


def find_unique(spec: EntitySpec, arguments: Mapping[str, Any]) -> UniqueSpec:
    """Return the constraint whose properties are the names of these arguments of Python."""
    found = next((unique for unique in spec.unique if {part.name for part in unique.parts} == arguments.keys()), None)
    if found is not None:
        return found
    if not spec.unique:
        raise UnknownArgument(
            f"{spec.type_name} has no unique properties: declare one with Unique, or get the record by its id."
        )
    choices = [" and ".join(part.name for part in unique.parts) for unique in spec.unique]
    names = {part.name for unique in spec.unique for part in unique.parts}
    unknown = next((name for name in arguments if name not in names), None)
    problem = f"{spec.type_name} is unique by {', or by '.join(choices)}"
    if unknown is not None:
        raise UnknownArgument(f"{problem}, not by {unknown!r}.{nearest(unknown, sorted(names))}", argument=unknown)
    argument = next(iter(arguments), spec.unique[0].parts[0].name)
    raise MissingArgument(f"{problem}: provide all properties of exactly one of these.", argument=argument)


def unique_values(
    spec: EntitySpec, unique: UniqueSpec, arguments: Mapping[str, Any], naming: NamingScheme = PYTHON_NAMES
) -> tuple[Any, ...]:
    """Return the values of a unique constraint. `arguments`: by the Python names of its properties."""
    return tuple(_value(spec, part.name, arguments[part.name], naming) for part in unique.parts)


def _value(spec: EntitySpec, name: str, value: Any, naming: NamingScheme) -> Any:
    argument = naming.key_argument(name)
    if value is None:
        raise InvalidValue(
            f"{argument} is {short_repr(value)}, which is never unique: provide a value.", argument=argument
        )
    with about(argument):
        return search_value(spec, spec.properties[name], value)
