"""Compare the versions of derived properties that a server can compute with those that the table maintains."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from graphql_api.evolution.table_record import RecordedElement, TableRecord
from graphql_api.model import NEWER, ElementStatus, EntitySpec, PropertySpec


@dataclass(frozen=True)
class DerivedVersions:
    """The derived properties of a declared entity, as its table maintains them."""

    entity: EntitySpec
    recorded: list[RecordedElement]
    """versions of derived properties in the table"""
    used: frozenset[str]
    """stored names of derived properties in the keys and constraints that all servers maintain"""

    @cached_property
    def _in_force(self) -> Mapping[str, RecordedElement]:
        """The versions that all servers maintain, by stored name."""
        return versions_in_force(self.recorded)

    @cached_property
    def _own(self) -> Mapping[str, PropertySpec]:
        return {part.stored: part for part in self.entity.properties.values() if part.function is not None}

    @cached_property
    def properties(self) -> Mapping[str, PropertySpec]:
        """The properties whose previous version is in force, with its function, by Python name."""
        return {
            part.name: replace(part, function=part.previous, version=part.version - 1, previous=None)
            for stored, part in self._own.items()
            if part.previous is not None
            and stored in self._in_force
            and version_of(self._in_force[stored]) == part.version - 1
        }

    def _can_compute(self, stored: str) -> bool:
        """Return whether this server has the function of the version in force."""
        part = self._own.get(stored)
        if part is None:
            return stored not in self.used
        return part.name in self.properties or part.version == version_of(self._in_force[stored])

    @property
    def uncomputable(self) -> ElementStatus | None:
        """A derived property that this server cannot compute; None if there is none."""
        statuses = (self.not_ready[stored] for stored in self._in_force if not self._can_compute(stored))
        return next(statuses, None)

    @cached_property
    def not_ready(self) -> Mapping[str, ElementStatus]:
        """The status of each derived property whose stored values may differ from the declared function's."""
        statuses = {}
        for stored, recorded in self._in_force.items():
            if not self._can_compute(stored):
                statuses[stored] = ElementStatus(f"{recorded.element}", NEWER)
            elif recorded.state != "ready":
                statuses[stored] = ElementStatus(f"{recorded.element}", recorded.state)
        for recorded in self.recorded:
            if stored_name(recorded) not in self._in_force:
                statuses[stored_name(recorded)] = ElementStatus(f"{recorded.element}", recorded.state)
        return statuses


def versions_in_force(recorded: Iterable[RecordedElement]) -> dict[str, RecordedElement]:
    """Return the highest version of each derived property that all servers maintain, by stored name."""
    maintained = sorted((one for one in recorded if one.is_maintained), key=version_of)
    return {stored_name(one): one for one in maintained}


def later_versions(recorded: RecordedElement, record: TableRecord) -> list[RecordedElement]:
    """Return the later versions of a derived property in the table; none for elements of other kinds."""
    return [
        other
        for other in record.of_entity(recorded.element.entity)
        if recorded.element.kind == other.element.kind == "derived property"
        and stored_name(other) == stored_name(recorded)
        and version_of(other) > version_of(recorded)
    ]


def superseded_versions(record: TableRecord, elements: Iterable[RecordedElement]) -> list[RecordedElement]:
    """Return the maintained versions of derived properties that are lower than those among the elements."""
    newer = {
        (one.element.entity, stored_name(one)): version_of(one)
        for one in elements
        if one.element.kind == "derived property"
    }
    return [
        one
        for one in record.elements.values()
        if one.element.kind == "derived property"
        and one.is_maintained
        and version_of(one) < newer.get((one.element.entity, stored_name(one)), 0)
    ]


def stored_name(recorded: RecordedElement) -> str:
    """Return the stored name of a derived property."""
    stored: str = recorded.element.definition["stored"]
    return stored


def version_of(recorded: RecordedElement) -> int:
    """Return the version of a derived property."""
    return int(recorded.element.definition["version"])
