"""Make records of plain entities without pydantic, if it would not change their values."""

from collections.abc import Callable, Collection, Mapping
from types import NoneType
from typing import Any

from graphql_api.errors import InvalidValue
from graphql_api.model.entity import Entity
from graphql_api.model.plain_models import is_plain_model
from graphql_api.model.record_codec import partial_record
from graphql_api.model.specs import (
    NO_OTHER_FUNCTIONS,
    DerivedFunctions,
    EntitySpec,
    PropertySpec,
    compiled_once,
)

_ACCEPTED_TYPES = frozenset({str, int, float, bool})
"""types whose values pydantic returns unchanged, if a property has exactly that type and its codec accepts them"""


class PlainRecords:
    """Makes records of an entity whose values have exactly the declared types. It gives up on all others."""

    def __init__(self, entity: EntitySpec) -> None:
        self._entity = entity
        self._is_plain = entity.has_only_scalars and is_plain_model(entity.model)
        self._accepted = {part.name: _accepted(part) for part in entity.provided_properties}
        self._defaults: dict[str, Any] = dict.fromkeys(entity.properties)
        self._required = set[str]()
        for part in entity.provided_properties:
            field = entity.model.model_fields[part.name]
            if field.is_required() or field.default_factory is not None:
                self._required.add(part.name)
            else:
                self._defaults[part.name] = field.default

    def make(
        self, values: Mapping[str, Any], functions: DerivedFunctions = NO_OTHER_FUNCTIONS, unset: Collection[str] = ()
    ) -> Entity | None:
        """Return the record with these values, or None if pydantic must validate them.

        `unset`: those that do not count as set.
        """
        if not (self._is_plain and self._required <= values.keys()):
            return None
        try:
            for name, value in values.items():
                types, check = self._accepted[name]
                kind = type(value)
                if kind not in types:
                    return None
                # All booleans and all ASCII texts are accepted.
                if kind is int or kind is float or (kind is str and not value.isascii()):
                    check(value)
        except (KeyError, InvalidValue):
            return None
        provided = values if not unset else [name for name in values if name not in unset]
        record = partial_record(self._entity, {**self._defaults, **values}, provided)
        if self._entity.derived_properties:
            try:
                record.compute_derived(functions)
            except Exception:  # noqa: BLE001 - the model reports it
                return None
        return record


plain_record_maker = compiled_once(PlainRecords)
"""returns what makes the records of an entity"""


def _accepted(part: PropertySpec) -> tuple[frozenset[type], Callable[[Any], object]]:
    """Return the types that a property accepts, and the check of a value."""
    if part.codec is None or part.codec.python_type not in _ACCEPTED_TYPES:
        return frozenset(), lambda _: None
    types = {part.codec.python_type, NoneType} if part.nullable else {part.codec.python_type}
    return frozenset(types), part.codec.check
