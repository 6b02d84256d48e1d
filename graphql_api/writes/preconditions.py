"""Checks that reject a write: first those of the command alone, then those against the stored record."""

from collections.abc import Iterable, Sequence
from typing import Any

from graphql_api.errors import (
    ArgumentName,
    CatalogBehind,
    CreationChanged,
    ImmutableChanged,
    InvalidRecord,
    InvalidValue,
    NameList,
    NotReady,
    PropertyName,
    UnknownArgument,
    VersionConflict,
    nearest,
)
from graphql_api.model import ElementStatus, Entity, EntitySpec, unready_error, value_of
from graphql_api.storage import Item
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update, key_values
from graphql_api.writes.display_names import format_value, property_error, record_name
from graphql_api.writes.entity_records import values_of


def check_command(command: Command) -> None:
    """Reject what is invalid whatever is stored."""
    entity = command.entity
    if isinstance(command, Update):
        _check_properties_settable(entity, command.changes)
    elif not isinstance(command, Remove):
        _check_properties_exist(entity, command.values)
    if isinstance(command, Create):
        for part in entity.counters:
            if command.values.get(part.name) is not None:
                raise property_error(InvalidValue, "{property} is assigned by a counter: leave it out.", entity, part)
    elif command.expected_version is not None:
        name, status = ArgumentName("expected_version"), None if entity.recorded is None else entity.recorded.version
        if status is not None:
            raise unready_error(status, "{expected_version} needs", expected_version=name, argument=name)
        if entity.version is None:
            raise UnknownArgument(
                "{entity} has no version to compare: declare one with Version[Int32], or leave {expected_version} out.",
                entity=entity.type_name,
                expected_version=name,
                argument=name,
            )
    check_not_current(entity, key_values(command)[len(entity.ids) :])


def _check_properties_exist(entity: EntitySpec, provided: Iterable[str]) -> None:
    for name in provided:
        if name not in entity.properties:
            known = [part.name for part in entity.properties.values() if part.function is None]
            raise UnknownArgument(f"{entity.type_name} has no property {name!r}.{nearest(name, known)}", argument=name)


def _check_properties_settable(entity: EntitySpec, changes: Iterable[str]) -> None:
    """Reject changes of unknown properties, and of those that only the server sets."""
    _check_properties_exist(entity, changes)
    for part in map(entity.properties.__getitem__, changes):
        if part.function is not None:
            sources = NameList(tuple(map(PropertyName, part.sources)))
            problem = "{property} is derived from {sources}: change that instead."
            raise property_error(InvalidValue, problem, entity, part, sources=sources)
        if part in (entity.updated, entity.version) or part.roles & {"updated", "version"}:
            problem = "{property} is set by the server at every write: leave it out."
            raise property_error(InvalidValue, problem, entity, part)


def check_version(entity: EntitySpec, name: str, expected: Any, item: Item | None, old: Entity | None) -> None:
    """Reject the write if the stored record has another version than the expected one.

    `old` is the record in the stored item, or None if the item does not fit the entity.
    """
    part = entity.version
    if expected is None or part is None:
        return
    if old is not None:
        version = value_of(old, part.name)
    else:
        stored = None if item is None else item.get(part.stored)
        version = stored and part.column.codec.load(stored)
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
        if part.counter_group is not None and value_of(old, part.name) is None:
            continue  # The record is older than the counter, and gets its number now.
        is_fixed = part.immutable or part.counter_group is not None
        if is_fixed and value_of(old, part.name) != value_of(new, part.name):
            problem = "{property} never changes, and {record} has another value. Leave it unchanged."
            raise property_error(ImmutableChanged, problem, entity, part, record=name)


def check_creation_unchanged(command: Update | Replace, old: Entity, new: Entity) -> None:
    """Reject another creation value. An update to null counts as one, although the record would keep its own."""
    created = command.entity.created
    if created is None:
        return
    stored, written = value_of(old, created.name), value_of(new, created.name)
    if stored is None and isinstance(command, Replace):
        return  # The record is older than its creation property.
    requested = command.changes.get(created.name, written) if isinstance(command, Update) else written
    if stored != written or (requested is None and stored is not None):
        raise creation_changed_error(command.entity, new, stored, requested)


def creation_changed_error(entity: EntitySpec, record: Entity, stored: Any, provided: Any) -> CreationChanged:
    """Return the error for a record whose creation value differs from that of its id."""
    assert entity.created is not None, "a creation value was read"
    return CreationChanged(
        "{record} was created at {stored}, which determines its shard and cannot become {provided}: leave {property} "
        "unchanged.",
        record=record_name(entity, values_of(record, entity.ids)),
        stored=format_value(entity.created, stored),
        provided=format_value(entity.created, provided),
        property=PropertyName(entity.created.name),
        argument=PropertyName(entity.created.name),
    )


def creation_too_late_error(
    entity: EntitySpec, record: Entity, created: Any, since: Any, status: ElementStatus
) -> NotReady | CatalogBehind:
    """Return the error for a new record in a shard generation that is being built."""
    assert entity.created is not None, "a creation value was compared"
    return unready_error(
        status,
        "{record} was created at {created}, and the shards for records since {since} need",
        record=record_name(entity, values_of(record, entity.ids)),
        created=format_value(entity.created, created),
        since=format_value(entity.created, since),
        argument=PropertyName(entity.created.name),
    )


def unwritable_error(entity: EntitySpec) -> CatalogBehind | NotReady:
    """Return the error for an entity that has an element in the table because of which this server cannot write it."""
    assert entity.write_blocker is not None, "the caller has checked it"
    return unready_error(entity.write_blocker, f"A write of {entity.type_name} needs")


def check_not_current(entity: EntitySpec, sub_id_values: Sequence[Any]) -> None:
    """Reject direct writes and deletes of a current record."""
    if entity.current is not None and entity.current in sub_id_values:
        name = PropertyName(entity.sub_ids[0].name)
        raise InvalidRecord(
            "{entity}.{property} is {current!r}, which names the current record. That follows the entries: write the "
            "entry under its own {property}.",
            entity=entity.type_name,
            property=name,
            current=entity.current,
            argument=name,
        )
