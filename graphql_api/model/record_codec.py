"""Convert records to stored attributes and back. Keys are computed in `writes/item_keys.py`."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cache
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from graphql_api.errors import FieldPath, InvalidRecord, InvalidValue, PropertyName
from graphql_api.model.entity import Entity
from graphql_api.model.markers import value_of
from graphql_api.model.nested_values import from_attribute_value, to_attribute_value
from graphql_api.model.specs import EntitySpec, PropertySpec
from graphql_api.storage import AttributeValue, Item


def encode_record(spec: EntitySpec, record: Entity) -> dict[str, AttributeValue]:
    """Encode the properties of a record by stored name. Recompute derived properties, also on the record itself."""
    if not isinstance(record, spec.model):
        raise InvalidRecord(f"A {type(record).__name__} is no {spec.type_name}: pass an instance of {spec.type_name}.")
    attributes: dict[str, AttributeValue] = {}
    _add_attributes(attributes, spec, record, [part for part in spec.properties.values() if part.function is None])
    # Functions receive only values of the declared types, and an error in one does not fail the records of a batch.
    try:
        record.compute_derived()
    except Exception as problem:
        raise InvalidRecord(
            f"{spec.type_name}: a derived property cannot be computed ({problem}). Use values that its function takes."
        ) from problem
    _add_attributes(attributes, spec, record, [part for part in spec.properties.values() if part.function is not None])
    return attributes


def _add_attributes(
    attributes: dict[str, AttributeValue], spec: EntitySpec, record: Entity, parts: Iterable[PropertySpec]
) -> None:
    for part in parts:
        value = value_of(record, part.name)
        if value is not None:
            attributes[part.stored] = _encode_property(spec, part, value)
        elif not part.nullable:
            raise InvalidRecord(
                "{property} is null: provide a value.",
                property=PropertyName(part.name, spec.type_name),
                argument=PropertyName(part.name),
            )
        elif part.null_is_stored:
            attributes[part.stored] = None


def _encode_property(spec: EntitySpec, part: PropertySpec, value: Any) -> AttributeValue:
    try:
        return to_attribute_value(value) if part.codec is None else part.codec.store(value)
    except InvalidValue as problem:
        raise InvalidValue(
            "{property}: {problem}",
            property=PropertyName(part.name, spec.type_name),
            problem=problem,
            argument=PropertyName(part.name),
        ) from problem


def decode_record(spec: EntitySpec, item: Item) -> Entity:
    """Decode a stored item to a record.

    The item may be older or newer than the declaration: a missing property gets its default, unknown attributes are
    ignored. Derived properties are computed.
    """
    values: dict[str, Any] = {}
    for part in spec.properties.values():
        if part.function is not None:
            continue
        stored = item.get(part.stored)
        if stored is not None:
            values[part.name] = _load_property(spec, part, stored, item)
        elif part.nullable and (part.stored in item or not part.null_is_stored):
            values[part.name] = None
    try:
        return spec.model.model_validate(values, by_name=True, by_alias=False)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        path = FieldPath(spec.type_name, tuple(map(str, first["loc"])))
        remedy = " Declare a default for records that are older." if first["type"] == "missing" else ""
        raise InvalidRecord(
            "{record}: {path}: {reason}.{remedy}",
            record=_item_label(spec, item),
            path=path,
            reason=first["msg"],
            remedy=remedy,
            argument=path,
        ) from invalid


def _load_property(spec: EntitySpec, part: PropertySpec, stored: AttributeValue, item: Item) -> Any:
    try:
        if part.codec is None:
            return from_attribute_value(stored, [spec.model.model_fields[part.name].annotation])
        return part.codec.load(stored)
    except InvalidValue as problem:
        name = PropertyName(part.name)
        raise InvalidRecord(
            "{record}: {property}: {problem}",
            record=_item_label(spec, item),
            property=name,
            problem=problem,
            argument=name,
        ) from problem


def partial_record(spec: EntitySpec, values: Mapping[str, Any]) -> Entity:
    """Create a record with only some of its properties. The others are missing attributes, not defaults.

    Pydantic's `model_construct` would fill in defaults, including factories that depend on missing properties.
    """
    record = spec.model.__new__(spec.model)
    vars(record).update(values)
    for name, value in (("fields_set", set(values)), ("extra", None), ("private", None)):
        object.__setattr__(record, f"__pydantic_{name}__", value)
    return record


def decode_property(spec: EntitySpec, part: PropertySpec, stored: AttributeValue) -> Any:
    """Decode the stored value of a single property that is no scalar."""
    if stored is None:
        return None
    plain = from_attribute_value(stored, [spec.model.model_fields[part.name].annotation])
    return _validator(spec.model, part.name).validate_python(plain, by_name=True, by_alias=False)


@cache
def _validator(model: type[Entity], name: str) -> TypeAdapter[Any]:
    field = model.model_fields[name]
    annotation: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return TypeAdapter(annotation)


def is_expired(spec: EntitySpec, item: Item, now: float) -> bool:
    """Whether a stored item has expired. Engines remove expired items late, so no result may include them."""
    expires = item.get(spec.ttl.stored) if spec.ttl is not None else None
    return isinstance(expires, (int, Decimal)) and expires <= now


def visible_item(spec: EntitySpec, items: Iterable[Item | None], now: float) -> Item | None:
    """Return the first item that exists and has not expired. `items` are those at all possible keys of a record."""
    return next((item for item in items if item is not None and not is_expired(spec, item, now)), None)


def _item_label(spec: EntitySpec, item: Item) -> str:
    """Describe a stored item for an error message."""
    key = [str(item[name]) for name in ("hashKey", "rangeKey") if name in item]
    return f"The stored {spec.type_name} {' / '.join(key)}" if key else f"The stored {spec.type_name}"
