"""The input types of mutations: one for each entity and manner of writing, one for each model inside of a record."""

import inspect
from collections.abc import Iterator
from typing import Any

import strawberry
from pydantic import BaseModel
from strawberry.types.field import StrawberryField

from graphql_api.errors import InvalidValue
from graphql_api.model import EntitySpec, PropertySpec, camel_case, read_annotation
from graphql_api.schema.document_literals import literal
from graphql_api.schema.graphql_names import Names, Register, at, property_name, with_article
from graphql_api.schema.types.field_arguments import Argument
from graphql_api.schema.types.graphql_scalars import Json, or_null
from graphql_api.schema.types.object_types import RecordTypes, deprecation, has_own_type, input_type, plain_field
from graphql_api.schema.validation_messages import UNTAKEN, untaken

ID = "id"
EXPECTED_VERSION = "expectedVersion"
IDEMPOTENCY_KEY = "idempotencyKey"
EXPECTED = "expected_version"
"""the attribute of inputs, as hooks see them, in which that stands"""

IDEMPOTENCY_WORDS = (
    "A text of your making that stands for this request, such as a new UUID: sent again under it within 24 hours, the "
    "request has no further effect and gets its first answer."
)

_KEPT = frozenset({EXPECTED_VERSION, IDEMPOTENCY_KEY})
"""fields and arguments that are no properties: a property of such a name has an underscore behind it"""


class InputTypes:
    """Makes the input types of entities, each once."""

    def __init__(self, names: Names, records: RecordTypes, register: Register) -> None:
        self._names = names
        self._records = records
        self._register = register
        self._models: dict[type[BaseModel], type] = {}
        self._open: list[type[BaseModel]] = []

    def create(self, entity: EntitySpec) -> type | None:
        """What a new record is made of; None where everything of it is made by the server."""
        fields = [self._property(entity, part) for part in writable(entity)]
        return self._type(entity, "create", fields, f"A new {entity.type_name}. What the server sets is not in it.")

    def put(self, entity: EntitySpec) -> type | None:
        """What a whole record is made of, whether it is there or not."""
        fields = [self._property(entity, part, needed=part in entity.primary) for part in writable(entity)]
        return self._type(
            entity,
            "put",
            [*fields, *self._version(entity)],
            f"The whole of {with_article(entity.type_name)}, whether it is there or not.",
        )

    def update(self, entity: EntitySpec) -> type | None:
        """Which record is changed, and in what; None where nothing of it can be changed."""
        fields = [self._changed(entity, part) for part in changeable(entity)]
        # With an id and sub ids alone there are new entries to make of the last one.
        if not fields and not entity.sub_ids:
            return None
        words = (
            f"Which {entity.type_name} is changed, and in what: what is left out stays as it is, and null clears. "
            "What never changes is not in it."
        )
        return self._type(entity, "update", [*self._key(entity), *fields, *self._version(entity)], words)

    def delete(self, entity: EntitySpec) -> type | None:
        """Which record is removed; None where there is only one."""
        if not entity.primary:
            return None
        words = f"Which {entity.type_name} is removed."
        return self._type(entity, "delete", [*self._key(entity), *self._version(entity)], words)

    def arguments(self, entity: EntitySpec, verb: str) -> Iterator[Argument]:
        """What a mutation of one record takes beside its input, or instead of one."""
        if verb == "delete":
            if entity.ids:
                yield Argument(ID, strawberry.ID, key_words(entity), required=True)
            for part in entity.sub_ids:
                scalar, words = self._records.scalar(entity, part), sub_id_words(entity, part)
                yield Argument(input_name(part.name), scalar, words, required=not entity.ids)
        if verb != "create" and entity.version is not None:
            yield Argument(EXPECTED_VERSION, self._records.scalar(entity, entity.version), version_words(entity))
        yield Argument(IDEMPOTENCY_KEY, str, IDEMPOTENCY_WORDS)

    def _type(self, entity: EntitySpec, verb: str, fields: list[StrawberryField], words: str) -> type | None:
        if not fields:
            return None
        name = self._names.type(f"{self._names.edited(verb.capitalize(), entity)}Input")
        self._register.type(name, at(entity), f"what {self._names.edited(verb, entity)} takes")
        made = input_type(name, fields, words)
        setattr(made, UNTAKEN, {**_beside(entity, verb), **untaken(entity, verb)})
        return made

    # --- fields ------------------------------------------------------------------------------------------------

    def _property(self, entity: EntitySpec, part: PropertySpec, *, needed: bool = False) -> StrawberryField:
        """A property of a whole record; it may be left out where something else says what it is then."""
        optional = not needed and may_be_left_out(entity, part)
        further = default_words(entity, part) if optional else ""
        return self._field(entity, part, needed=not optional and not part.nullable, further=further)

    def _changed(self, entity: EntitySpec, part: PropertySpec) -> StrawberryField:
        return self._field(entity, part, needed=False)

    def _field(self, entity: EntitySpec, part: PropertySpec, *, needed: bool, further: str = "") -> StrawberryField:
        field = entity.model.model_fields[part.name]
        if part.codec is not None:
            annotation = self._records.scalar(entity, part)
        else:
            annotation = self._records.value(entity, part.name, field.annotation, field.metadata, model=self._model)
        return _given(
            attribute_name(part.name),
            input_name(part.name),
            annotation,
            " ".join(filter(None, [part.description or f"The {part.stored}.", further])),
            needed=needed,
            deprecated=deprecation(field),
        )

    def _key(self, entity: EntitySpec) -> Iterator[StrawberryField]:
        """What names a record that is there."""
        if entity.ids:
            yield _given(ID, ID, strawberry.ID, key_words(entity), needed=True)
        for part in entity.sub_ids:
            scalar, words = self._records.scalar(entity, part), sub_id_words(entity, part)
            yield _given(attribute_name(part.name), input_name(part.name), scalar, words, needed=not entity.ids)

    def _version(self, entity: EntitySpec) -> Iterator[StrawberryField]:
        if entity.version is not None:
            scalar = self._records.scalar(entity, entity.version)
            yield _given(EXPECTED, EXPECTED_VERSION, scalar, version_words(entity), needed=False)

    # --- models ------------------------------------------------------------------------------------------------

    def _model(self, entity: EntitySpec, place: str, model: type[BaseModel]) -> Any:
        """The input type of a model inside a record, where it has a type of its own in answers."""
        if model in self._models:
            return self._models[model]
        if model in self._open or not has_own_type(model):
            return Json
        name = self._names.type(f"{model.__name__}Input")
        self._register.type(name, at(entity, place), f"the input of {model.__name__}")
        self._open.append(model)
        fields = []
        for python_name, field in model.model_fields.items():
            annotation = self._records.value(entity, place, field.annotation, field.metadata, model=self._model)
            nullable = read_annotation(field.annotation, field.metadata).nullable
            needed = field.is_required() and not nullable
            words = field.description or f"The {camel_case(python_name)}."
            name_in_graphql = camel_case(python_name)
            fields.append(
                _given(python_name, name_in_graphql, annotation, words, needed=needed, deprecated=deprecation(field))
            )
        self._open.remove(model)
        words = inspect.cleandoc(model.__doc__) if model.__doc__ else f"A {model.__name__}."
        self._models[model] = input_type(name, fields, words)
        return self._models[model]


# --- what is asked for -----------------------------------------------------------------------------------------


def writable(entity: EntitySpec) -> list[PropertySpec]:
    """What a client may say of a record: neither what is derived, nor what the server alone sets."""
    own = {part.name for part in (entity.updated, entity.version) if part is not None}
    return [
        part
        for part in entity.properties.values()
        if part.function is None and part.counts is None and part.name not in own
    ]


def changeable(entity: EntitySpec) -> list[PropertySpec]:
    """What a client may say of a record that is there."""
    fixed = {part.name for part in (*entity.primary, entity.created) if part is not None}
    return [part for part in writable(entity) if part.name not in fixed and not part.immutable]


def may_be_left_out(entity: EntitySpec, part: PropertySpec) -> bool:
    """Whether something else says what a property is."""
    return part.nullable or part is entity.created or not entity.model.model_fields[part.name].is_required()


def _beside(entity: EntitySpec, verb: str) -> dict[str, str]:
    """Why the input of a verb does not take what goes with writes."""
    reasons = {IDEMPOTENCY_KEY: "it stands beside the input, as an argument of its own"}
    if verb == "create":
        reasons[EXPECTED_VERSION] = "what is created has no version yet; leave it out"
    elif entity.version is None:
        reasons[EXPECTED_VERSION] = f"{entity.type_name} keeps no version that could be expected; leave it out"
    for name in {property_name(part.name) for part in writable(entity)} & reasons.keys():
        reasons[name] = f"what records have under this name is {name}_ in inputs; give that"
    return reasons


def input_name(python_name: str) -> str:
    """What a property is called in inputs."""
    name = property_name(python_name)
    return f"{name}_" if name in _KEPT else name


def attribute_name(python_name: str) -> str:
    """Where a property stands in input objects, as hooks see them: two names belong to what is no property."""
    return {ID: f"row_{ID}", EXPECTED: f"{EXPECTED}_"}.get(python_name, python_name)


def _given(
    python_name: str, name: str, annotation: Any, description: str, *, needed: bool, deprecated: str | None = None
) -> StrawberryField:
    if needed:
        return plain_field(python_name, annotation, name=name, description=description)
    return plain_field(
        python_name,
        or_null(annotation),
        name=name,
        description=description,
        deprecated=deprecated,
        default=strawberry.UNSET,
    )


# --- words -----------------------------------------------------------------------------------------------------


def key_words(entity: EntitySpec) -> str:
    """What an id says."""
    names = [part.stored for part in entity.ids]
    if len(names) == 1:
        return f"The {names[0]}, or the id of the record."
    together = f"The {' and '.join(names)} with {entity.separator!r} between"
    return f"{together}, as in {entity.separator.join(names)!r}, or the id of the record."


def sub_id_words(entity: EntitySpec, part: PropertySpec) -> str:
    """What a part of a sub id says."""
    words = part.description or f"The {part.stored}."
    return f"{words} Not needed where `id` is that of an entry, which says it." if entity.ids else words


def version_words(entity: EntitySpec) -> str:
    """What an expected version does."""
    assert entity.version is not None, "only entities with versions are asked for one"
    return (
        f"Refuses the write, by `VERSION_CONFLICT`, unless the {entity.version.stored} of the record is still this one."
    )


def default_words(entity: EntitySpec, part: PropertySpec) -> str:
    """What a property of a whole record is where it is left out, if that is not null."""
    field = entity.model.model_fields[part.name]
    if part is entity.created:
        return "Left out, it is the moment at which the record is created."
    if field.default_factory is not None:
        return "Left out, the server makes one." if part in entity.primary else ""
    if field.is_required() or field.default is None or part.codec is None:
        return ""
    try:
        return f"Left out, it is `{literal(part.codec, field.default)}`."
    except InvalidValue:  # pydantic takes a default of another type at its word, and so does the record.
        return ""
