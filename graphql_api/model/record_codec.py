"""Convert records to stored attributes and back. Keys are computed in `writes/item_keys.py`.

Values that are no scalars are stored as maps (models and maps), lists (sequences) and sets. A set that engines cannot
store, because it is empty or has several item types, is stored as a list.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from graphql_api.codecs import RecordKey, codec_of_type
from graphql_api.errors import FieldPath, InvalidRecord, InvalidValue, Localizable, PropertyName
from graphql_api.model.entity import Entity
from graphql_api.model.markers import Stored, value_of
from graphql_api.model.naming import TABLE_KEYS, camel_case
from graphql_api.model.plain_models import is_plain_model
from graphql_api.model.property_specs import parse_annotation
from graphql_api.model.specs import EntitySpec, PropertySpec, compiled_once
from graphql_api.storage import AttributeValue, Item

_set = object.__setattr__
MAX_NESTING = 29
"""nesting levels of lists and maps: engines allow 32, and a stored response has one level more than its record"""


def encode_record(spec: EntitySpec, record: Entity) -> dict[str, AttributeValue]:
    """Encode the properties of a record by stored name. Recompute derived properties, also on the record itself."""
    if not isinstance(record, spec.model):
        raise InvalidRecord(f"A {type(record).__name__} is no {spec.type_name}: pass an instance of {spec.type_name}.")
    provided, derived = _attribute_encoders(spec)
    attributes: dict[str, AttributeValue] = {}
    _add_attributes(attributes, spec, record, provided)
    # Functions receive only values of the declared types, and an error in one does not fail the records of a batch.
    try:
        record.compute_derived(spec.derived_functions)
    except Exception as problem:
        raise InvalidRecord(
            f"{spec.type_name}: a derived property cannot be computed ({problem}). Use values that its function takes."
        ) from problem
    _add_attributes(attributes, spec, record, derived)
    return attributes


_AttributeEncoder = tuple[str, str, Callable[[Any], AttributeValue], PropertySpec]
"""name, stored name, and the function that encodes a value which is not null"""


@compiled_once
def _attribute_encoders(spec: EntitySpec) -> tuple[Sequence[_AttributeEncoder], Sequence[_AttributeEncoder]]:
    """Return the encoders of the provided properties, and those of the derived ones."""

    def encoders(parts: Iterable[PropertySpec]) -> Sequence[_AttributeEncoder]:
        stores = ((part, to_attribute_value if part.codec is None else part.codec.store) for part in parts)
        return [(part.name, part.stored, store, part) for part, store in stores]

    return encoders(spec.provided_properties), encoders(spec.derived_properties)


def default_attribute(spec: EntitySpec, part: PropertySpec) -> AttributeValue:
    """Encode the value that a record without a property has; None if it is null, or depends on the record."""
    field = spec.model.model_fields[part.name]
    if field.is_required() or field.default_factory_takes_validated_data:
        return None
    value = field.get_default(call_default_factory=True)
    return value if value is None else _to_attribute(part, value)


def _to_attribute(part: PropertySpec, value: Any) -> AttributeValue:
    return to_attribute_value(value) if part.codec is None else part.codec.store(value)


def _add_attributes(
    attributes: dict[str, AttributeValue], spec: EntitySpec, record: Entity, encoders: Sequence[_AttributeEncoder]
) -> None:
    values = vars(record)
    for name, stored, store, part in encoders:
        value = values[name] if name in values else value_of(record, name)
        if value is not None:
            try:
                attributes[stored] = store(value)
            except InvalidValue as problem:
                shown = PropertyName(name, spec.type_name)
                raise InvalidValue(
                    "{name}: {problem}", name=shown, problem=problem, argument=PropertyName(name)
                ) from problem
        elif not part.nullable:
            shown = PropertyName(name, spec.type_name)
            raise InvalidRecord("{name} is null: provide a value.", name=shown, argument=PropertyName(name))
        elif part.null_is_stored:
            attributes[stored] = None


def decode_record(spec: EntitySpec, item: Item) -> Entity:
    """Decode a stored item to a record.

    The item may be older or newer than the declaration: a missing property gets its default, unknown attributes are
    ignored. Derived properties are computed.
    """
    return _decode_plain_record(spec, item) or decode_by_model(spec, item)


def _decode_plain_record(spec: EntitySpec, item: Item) -> Entity | None:
    """Decode an item by codecs alone, which costs a third. Return None if that does not suffice, or fails."""
    if not (spec.has_only_scalars and is_plain_model(spec.model)):
        return None
    values: dict[str, Any] = dict.fromkeys(spec.properties)
    try:
        for part in spec.provided_properties:
            stored = item.get(part.stored)
            if stored is not None:
                values[part.name] = part.column.codec.load(stored)
            elif not part.nullable or (part.null_is_stored and part.stored not in item):
                return None  # The record has a default, or is invalid.
        record = partial_record(spec, values)
        if spec.derived_properties:
            record.model_fields_set.difference_update(part.name for part in spec.derived_properties)
            record.compute_derived(spec.derived_functions)
    except Exception:  # noqa: BLE001 - the model reports it
        return None
    return record


def decode_by_model(spec: EntitySpec, item: Item) -> Entity:
    """Decode a stored item, and let pydantic validate it."""
    values: dict[str, Any] = {}
    for part in spec.properties.values():
        if part.function is not None:
            continue
        stored = item.get(part.stored)
        if stored is not None:
            values[part.name] = _load_property(spec, part, stored, item)
        elif part.nullable and (part.stored in item or not part.null_is_stored):
            values[part.name] = None
        elif part.is_server_set:
            path = FieldPath(spec.type_name, (part.name,))
            raise _undecodable(spec, item, path, "Field required. Declare a default for records that are older.")
    try:
        return spec.model.model_validate(values, by_name=True, by_alias=False, context=spec.derived_functions)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        remedy = " Declare a default for records that are older." if first["type"] == "missing" else ""
        path = FieldPath(spec.type_name, tuple(map(str, first["loc"])))
        raise _undecodable(spec, item, path, f"{first['msg']}.{remedy}") from invalid


def _load_property(spec: EntitySpec, part: PropertySpec, stored: AttributeValue, item: Item) -> Any:
    try:
        if part.codec is None:
            return from_attribute_value(stored, [spec.model.model_fields[part.name].annotation])
        return part.codec.load(stored)
    except InvalidValue as problem:
        raise _undecodable(spec, item, PropertyName(part.name), problem) from problem


def _undecodable(spec: EntitySpec, item: Item, name: Localizable, problem: object) -> InvalidRecord:
    keys = " / ".join(str(item[attribute]) for attribute in TABLE_KEYS if attribute in item)
    record = f"The stored {spec.type_name}{' ' if keys else ''}{keys}"
    return InvalidRecord("{record}: {name}: {problem}", record=record, name=name, problem=problem, argument=name)


def partial_record(spec: EntitySpec, values: Mapping[str, Any], provided: Iterable[str] | None = None) -> Entity:
    """Create a record with only some of its properties. The others are missing attributes, not defaults.

    Pydantic's `model_construct` would fill in defaults, including factories that depend on missing properties.
    `provided`: the properties that count as set; None: all with values.
    """
    record = spec.model.__new__(spec.model)
    vars(record).update(values)
    _set(record, "__pydantic_fields_set__", set(values if provided is None else provided))
    _set(record, "__pydantic_extra__", None)
    _set(record, "__pydantic_private__", None)
    return record


def make_records(spec: EntitySpec, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[Entity]:
    """Create records with these properties, all of which count as set: `partial_record` for each row."""
    records, model, make, set_names = [], spec.model, spec.model.__new__, set(names)
    for row in rows:
        record = make(model)
        _set(record, "__dict__", dict(zip(names, row, strict=True)))
        _set(record, "__pydantic_fields_set__", set_names.copy())
        _set(record, "__pydantic_extra__", None)
        _set(record, "__pydantic_private__", None)
        records.append(record)
    return records


def decode_property(spec: EntitySpec, part: PropertySpec, stored: AttributeValue) -> Any:
    """Decode the stored value of a single property that is no scalar."""
    if stored is None:
        return None
    plain = from_attribute_value(stored, [spec.model.model_fields[part.name].annotation])
    return property_adapter(spec.model, part.name).validate_python(plain, by_name=True, by_alias=False)


@cache
def property_adapter(model: type[Entity], name: str) -> TypeAdapter[Any]:
    """Return the validator of a property's type."""
    field = model.model_fields[name]
    annotation: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return TypeAdapter(annotation)


# --- nested values ---------------------------------------------------------------------------------------------


def to_attribute_value(value: Any, depth: int = 0) -> AttributeValue:
    """Convert a value to its stored form."""
    if depth > MAX_NESTING:
        raise InvalidValue(f"Lists and maps are nested more than {MAX_NESTING} levels deep: flatten them.")
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, RootModel):
        return to_attribute_value(value.root, depth)
    if isinstance(value, BaseModel):
        names = {stored: value_of(value, name) for stored, name in _field_names(type(value)).items()}
        return {
            key: to_attribute_value(item, depth + 1) for key, item in {**(value.model_extra or {}), **names}.items()
        }
    if isinstance(value, Mapping):
        return {_encode_key(key): to_attribute_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        items = [to_attribute_value(item, depth + 1) for item in value]
        kinds = {Decimal if type(item) is int else type(item) for item in items}
        return frozenset(items) if len(kinds) == 1 and kinds <= {str, bytes, Decimal} else items
    if isinstance(value, list | tuple):
        return [to_attribute_value(item, depth + 1) for item in value]
    return _encode_scalar(value, depth)


def _encode_scalar(value: Any, depth: int) -> AttributeValue:
    if isinstance(value, Enum):
        return to_attribute_value(value.value, depth)
    if isinstance(value, RecordKey):
        return value.to_text()
    codec = next(filter(None, map(codec_of_type, type(value).__mro__)), None)
    if codec is not None:
        return codec.store_nested(value)
    try:
        plain = to_jsonable_python(value)  # An IP address, a URL or a time: pydantic can validate its JSON form.
    except PydanticSerializationError:
        raise InvalidValue(f"A {type(value).__name__} cannot be stored: convert it to text, numbers or maps.") from None
    return to_attribute_value(plain, depth + 1)


def _encode_key(key: Any) -> str:
    plain = key.value if isinstance(key, Enum) else key
    codec = codec_of_type(type(plain))
    if codec is None:
        raise InvalidValue(f"A map has a key of type {type(key).__name__}: use text, numbers, dates or other scalars.")
    return codec.format(plain)


def _field_names(model: type[BaseModel]) -> dict[str, str]:
    """Return the Python names of a model's fields by their stored names."""
    names = {}
    for name, field in model.model_fields.items():
        markers = parse_annotation(field.annotation, field.metadata).markers
        names[next((marker.name for marker in markers if isinstance(marker, Stored)), camel_case(name))] = name
    return names


def from_attribute_value(stored: AttributeValue, annotations: Iterable[Any], *, exact: bool = False) -> Any:
    """Restore field names and number types: pydantic can validate the result as one of these annotations.

    `exact`: keep all digits of numbers whose type is not declared, which become int and float otherwise.
    """
    kinds = [kind for annotation in annotations for kind in plain_types(annotation)]
    if isinstance(stored, Mapping):
        return _decode_map(stored, kinds, exact=exact)
    if isinstance(stored, list | tuple | AbstractSet):
        item_types = [item_type for kind in kinds for item_type in _item_types(kind)]
        items = [from_attribute_value(item, item_types, exact=exact) for item in stored]
        return set(items) if isinstance(stored, AbstractSet) else items
    if isinstance(stored, str) and RecordKey in kinds and str not in kinds:
        return RecordKey.from_text(stored)
    if isinstance(stored, Decimal) and Any in kinds and not exact:
        return int(stored) if stored == stored.to_integral_value() else float(stored)
    return stored


def plain_types(annotation: Any) -> list[Any]:
    """Return the plain types that an annotation allows. A root model is replaced by the types of its root."""
    types: list[Any] = []
    for kind in parse_annotation(annotation).types:
        if isinstance(kind, type) and issubclass(kind, RootModel):
            types += plain_types(kind.model_fields["root"].annotation)
        else:
            types.append(kind)
    return types


def _item_types(kind: Any) -> tuple[Any, ...]:
    """Return the type arguments of a list, set or map, or `Any` if it has none."""
    return tuple(part for part in get_args(kind) if part is not Ellipsis) or (Any,)


def _decode_map(stored: Mapping[str, AttributeValue], kinds: list[Any], *, exact: bool) -> dict[Any, Any]:
    """Decode a map that may be any of the allowed models and mappings. Pydantic decides later which one it is."""
    names: dict[str, str] = {}
    field_annotations: dict[str, list[Any]] = {}
    value_annotations: list[Any] = []
    key_codecs = set()
    for kind in kinds:
        origin = get_origin(kind) or kind
        if isinstance(origin, type) and issubclass(origin, BaseModel):
            for key, name in _field_names(origin).items():
                names.setdefault(key, name)
                field_annotations.setdefault(key, []).append(origin.model_fields[name].annotation)
        elif isinstance(origin, type) and issubclass(origin, Mapping) and len(get_args(kind)) == 2:
            key, value = get_args(kind)
            key_codecs.add(parse_annotation(key).codec)
            value_annotations.append(value)
        elif kind is Any or (isinstance(origin, type) and issubclass(origin, Mapping)):
            value_annotations.append(Any)
    codec = key_codecs.pop() if len(key_codecs) == 1 else None
    decoded: dict[Any, Any] = {}
    for key, item in stored.items():
        if key in names:
            decoded[names[key]] = from_attribute_value(item, field_annotations[key], exact=exact)
        else:
            decoded[codec.parse(key) if codec else key] = from_attribute_value(item, value_annotations, exact=exact)
    return decoded


def stored_value(part: PropertySpec, item: Mapping[str, Any]) -> Any:
    """Return the value of a scalar in a stored record: its default if the record lacks it."""
    if part.stored not in item:
        return part.default
    stored = item[part.stored]
    return None if stored is None else part.column.codec.load(stored)
