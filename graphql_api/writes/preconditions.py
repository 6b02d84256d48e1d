"""What is refused of a write: some of it whatever is stored, some of it by the record that stands there."""

from typing import Any

from graphql_api.errors import ImmutableChanged, InvalidValue, UnknownArgument, VersionConflict
from graphql_api.model import Entity, EntitySpec, value_of
from graphql_api.storage import Item
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.history.creation_value import creation_changed
from graphql_api.writes.history.current_record import refuse_current
from graphql_api.writes.record_builder import check_changeable, check_known


def check_command(command: Command) -> None:
    """Refuses what cannot be right, whatever is stored."""
    entity = command.entity
    if isinstance(command, Update):
        check_changeable(entity, command.changes)
    elif not isinstance(command, Remove):
        check_known(entity, command.values)
    if isinstance(command, Create):
        for part in entity.counters:
            if command.values.get(part.name) is not None:
                raise InvalidValue(
                    f"{entity.type_name}.{part.name} is counted by the server: leave it out.",
                    argument=part.name,
                )
    elif command.expected_version is not None and entity.version is None:
        raise UnknownArgument(
            f"{entity.type_name} keeps no version that could be expected: declare one with Version[Int32], or leave "
            "expected_version out.",
            argument="expected_version",
        )
    if isinstance(command, Create | Replace):
        sub_values = [command.values.get(part.name) for part in entity.sub_ids]
    else:
        sub_values = [*command.key[len(entity.ids) :]]
    refuse_current(entity, sub_values)


def check_version(entity: EntitySpec, name: str, expected: Any, item: Item | None, old: Entity | None) -> None:
    """Refuses to change a record that has another version than was expected; `old`: the stored item, if it fits."""
    part = entity.version
    if expected is None or part is None:
        return
    stored = None if item is None else item.get(part.stored)
    version = value_of(old, part.name) if old is not None else stored and part.column.codec.load(stored)
    if version != expected:
        stands = "is not there" if item is None else f"has the version {version}"
        raise VersionConflict(
            f"{name} {stands}, and version {expected} was expected: read it again and decide anew.", version=version
        )


def check_immutable(entity: EntitySpec, name: str, old: Entity, new: Entity) -> None:
    """Refuses to change what never changes."""
    for part in entity.properties.values():
        if not part.immutable and part.counts is None:
            continue
        if part.counts is not None and value_of(old, part.name) is None:
            continue  # It is from before there was a counter, and gets its number now.
        if value_of(old, part.name) != value_of(new, part.name):
            raise ImmutableChanged(
                f"{entity.type_name}.{part.name} never changes, and {name} has another value there. Leave it as it is.",
                argument=part.name,
            )


def check_created(entity: EntitySpec, old: Entity, new: Entity) -> None:
    """Refuses to put a record with another creation value than the one that stands there."""
    created = entity.created
    if created is None:
        return
    stored, given = value_of(old, created.name), value_of(new, created.name)
    if stored is not None and stored != given:
        raise creation_changed(entity, [value_of(new, part.name) for part in entity.ids], stored, given)
