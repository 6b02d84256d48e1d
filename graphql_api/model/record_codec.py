"""Between a record in Python and its attributes in the store. Keys are made elsewhere (`writes/item_keys.py`)."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cache
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from graphql_api.errors import InvalidRecord, InvalidValue
from graphql_api.model.entity import Entity
from graphql_api.model.markers import value_of
from graphql_api.model.nested_values import from_plain, to_plain
from graphql_api.model.specs import EntitySpec, PropertySpec
from graphql_api.storage import AttributeValue, Item


def to_attributes(spec: EntitySpec, record: Entity) -> dict[str, AttributeValue]:
    """The properties of a record by stored name, after the derived ones were computed anew (also on the record)."""
    if not isinstance(record, spec.model):
        raise InvalidRecord(
            f"{spec.type_name} was given a {type(record).__name__}: pass an instance of {spec.type_name}."
        )
    attributes: dict[str, AttributeValue] = {}
    _add_attributes(attributes, spec, record, [part for part in spec.properties.values() if part.function is None])
    # Functions see only what has the declared type, and none of them takes down the other records of a batch.
    try:
        record.compute_derived()
    except Exception as problem:
        raise InvalidRecord(
            f"{spec.type_name}: a derived property cannot be computed ({problem}). Give values that its function takes."
        ) from problem
    _add_attributes(attributes, spec, record, [part for part in spec.properties.values() if part.function is not None])
    return attributes


def _add_attributes(
    attributes: dict[str, AttributeValue], spec: EntitySpec, record: Entity, parts: Iterable[PropertySpec]
) -> None:
    for part in parts:
        value = value_of(record, part.name)
        if value is not None:
            attributes[part.stored] = _stored_value(spec, part, value)
        elif not part.nullable:
            raise InvalidRecord(f"{spec.type_name}.{part.name} is null: give a value.", argument=part.name)
        elif part.null_is_stored:
            attributes[part.stored] = None


def _stored_value(spec: EntitySpec, part: PropertySpec, value: Any) -> AttributeValue:
    try:
        return to_plain(value) if part.codec is None else part.codec.store(value)
    except InvalidValue as problem:
        raise InvalidValue(f"{spec.type_name}.{part.name}: {problem.message}", argument=part.name) from problem


def from_item(spec: EntitySpec, item: Item) -> Entity:
    """The record that a stored item holds.

    A property that the item lacks has its default, derived ones are computed, and attributes that are no property are
    left alone: an item may be older or younger than the declaration.
    """
    values: dict[str, Any] = {}
    for part in spec.properties.values():
        if part.function is not None:
            continue
        stored = item.get(part.stored)
        if stored is not None:
            values[part.name] = _loaded_value(spec, part, stored, item)
        elif part.nullable and (part.stored in item or not part.null_is_stored):
            values[part.name] = None
    try:
        return spec.model.model_validate(values, by_name=True, by_alias=False)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "record"
        missing = " Give the property a default for records that are older." if first["type"] == "missing" else ""
        raise InvalidRecord(f"{_where(spec, item)}: {place}: {first['msg']}.{missing}", argument=place) from wrong


def _loaded_value(spec: EntitySpec, part: PropertySpec, stored: AttributeValue, item: Item) -> Any:
    try:
        if part.codec is None:
            return from_plain(stored, [spec.model.model_fields[part.name].annotation])
        return part.codec.load(stored)
    except InvalidValue as problem:
        raise InvalidRecord(f"{_where(spec, item)}: {part.name}: {problem.message}", argument=part.name) from problem


def partial_record(spec: EntitySpec, values: Mapping[str, Any]) -> Entity:
    """A record of which only some properties are known; the others are missing: a default would be taken for a value.

    Pydantic's own construction would ask for defaults, also for those that are made from what is missing.
    """
    record = spec.model.__new__(spec.model)
    vars(record).update(values)
    for name, value in (("fields_set", set(values)), ("extra", None), ("private", None)):
        object.__setattr__(record, f"__pydantic_{name}__", value)
    return record


def from_stored(spec: EntitySpec, part: PropertySpec, stored: AttributeValue) -> Any:
    """The value of one property that is no scalar, by itself."""
    if stored is None:
        return None
    plain = from_plain(stored, [spec.model.model_fields[part.name].annotation])
    return _validator(spec.model, part.name).validate_python(plain, by_name=True, by_alias=False)


@cache
def _validator(model: type[Entity], name: str) -> TypeAdapter[Any]:
    field = model.model_fields[name]
    annotation: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return TypeAdapter(annotation)


def has_expired(spec: EntitySpec, item: Item, now: float) -> bool:
    """Whether a stored item only waits to be removed: engines do that late, so it is left out of every answer."""
    expires = item.get(spec.ttl.stored) if spec.ttl is not None else None
    return isinstance(expires, (int, Decimal)) and expires <= now


def living(spec: EntitySpec, items: Iterable[Item | None], now: float) -> Item | None:
    """What is there of a record, by the items at all keys that it can have; nothing, if it has expired."""
    return next((item for item in items if item is not None and not has_expired(spec, item, now)), None)


def _where(spec: EntitySpec, item: Item) -> str:
    """The stored record that an error is about."""
    key = [str(item[name]) for name in ("hashKey", "rangeKey") if name in item]
    return f"The stored {spec.type_name} {' / '.join(key)}" if key else f"The stored {spec.type_name}"
