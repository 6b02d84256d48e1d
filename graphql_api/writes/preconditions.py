"""Checks that reject a write: first those of the command alone, then those against the stored record."""

from typing import Any

from graphql_api.errors import (
    ArgumentName,
    ImmutableChanged,
    InvalidValue,
    PropertyName,
    UnknownArgument,
    VersionConflict,
)
from graphql_api.model import Entity, EntitySpec, value_of
from graphql_api.storage import Item
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.display_names import property_name
from graphql_api.writes.history.creation_value import creation_changed_error
from graphql_api.writes.history.current_record import check_not_current
from graphql_api.writes.record_builder import check_properties_exist, check_properties_settable


def check_command(command: Command) -> None:
    """Reject what is invalid whatever is stored."""
    entity = command.entity
    if isinstance(command, Update):
        check_properties_settable(entity, command.changes)
    elif not isinstance(command, Remove):
        check_properties_exist(entity, command.values)
    if isinstance(command, Create):
        for part in entity.counters:
            if command.values.get(part.name) is not None:
                raise InvalidValue(
                    "{property} is assigned by a counter: leave it out.",
                    property=property_name(entity, part),
                    argument=PropertyName(part.name),
                )
    elif command.expected_version is not None and entity.version is None:
        raise UnknownArgument(
            "{entity} has no version to compare: declare one with Version[Int32], or leave {expected_version} out.",
            entity=entity.type_name,
            expected_version=ArgumentName("expected_version"),
            argument=ArgumentName("expected_version"),
        )
    if isinstance(command, Create | Replace):
        sub_id_values = [command.values.get(part.name) for part in entity.sub_ids]
    else:
        sub_id_values = [*command.key[len(entity.ids) :]]
    check_not_current(entity, sub_id_values)


def check_version(entity: EntitySpec, name: str, expected: Any, item: Item | None, old: Entity | None) -> None:
    """Reject the write if the stored record has another version than the expected one.

    `old` is the record in the stored item, or None if the item does not fit the entity.
    """
    version_property = entity.version
    if expected is None or version_property is None:
        return
    if old is not None:
        version = value_of(old, version_property.name)
    else:
        stored = None if item is None else item.get(version_property.stored)
        version = stored and version_property.column.codec.load(stored)
    if version != expected:
        actual = "does not exist" if item is None else f"has version {version}"
        raise VersionConflict(
            f"{name} {actual}, but version {expected} was expected: read it again and repeat the change on its "
            "current state.",
            version=version,
        )


def check_immutable(entity: EntitySpec, name: str, old: Entity, new: Entity) -> None:
    """Reject changes of immutable properties and of numbers that a counter assigned."""
    for part in entity.properties.values():
        if not part.immutable and part.counter_group is None:
            continue
        if part.counter_group is not None and value_of(old, part.name) is None:
            continue  # The record is older than the counter, and gets its number now.
        if value_of(old, part.name) != value_of(new, part.name):
            raise ImmutableChanged(
                "{property} never changes, and {record} has another value. Leave it unchanged.",
                property=property_name(entity, part),
                record=name,
                argument=PropertyName(part.name),
            )


def check_creation_unchanged(entity: EntitySpec, old: Entity, new: Entity) -> None:
    """Reject a replacement that has another creation value than the stored record."""
    created = entity.created
    if created is None:
        return
    stored, provided = value_of(old, created.name), value_of(new, created.name)
    if stored is not None and stored != provided:
        raise creation_changed_error(entity, [value_of(new, part.name) for part in entity.ids], stored, provided)


def check_update_keeps_creation(command: Update, old: Entity, new: Entity) -> None:
    """Reject an update that sets another creation value. Null counts as one, although the record would keep its own."""
    entity = command.entity
    created = entity.created
    if created is None or created.name not in command.changes:
        return
    stored, updated = value_of(old, created.name), value_of(new, created.name)
    requested = command.changes[created.name]
    if stored != updated or (requested is None and stored is not None):
        raise creation_changed_error(entity, command.key[: len(entity.ids)], stored, requested)
