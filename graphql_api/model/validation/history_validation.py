"""What must hold of an entity whose histories keep a current record beside their entries."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from graphql_api.codecs import MAX_KEY_BYTES, Text
from graphql_api.errors import InvalidValue
from graphql_api.model.specs import EntitySpec, PropertySpec

Found = Iterator[tuple[str | None, str, str]]
"""violations of one entity: property or nothing, problem, remedy"""


def history_violations(spec: EntitySpec) -> Found:
    """Everything that is wrong with `current=` of one entity."""
    if spec.current is None:
        return
    if not spec.sub_ids:
        yield None, f"has current={spec.current!r} and no history.", "Mark what tells its entries apart with SubId."
    elif len(spec.sub_ids) > 1:
        names = " and ".join(part.name for part in spec.sub_ids)
        yield (
            None,
            f"has current={spec.current!r} and several sub ids, {names}.",
            "Keep one SubId of str, or leave current= out.",
        )
    else:
        for problem, remedy in (*_sub_id(spec, spec.sub_ids[0]), *_value(spec, spec.sub_ids[0])):
            yield spec.sub_ids[0].name, problem, remedy


def _sub_id(spec: EntitySpec, part: PropertySpec) -> Iterator[tuple[str, str]]:
    """The current record is the last entry under another sub id: that must be free to be any text."""
    if not isinstance(part.codec, Text):
        yield (
            f"is no text, and the current record is to have {spec.current!r} there.",
            "Make the SubId a str, or leave current= out.",
        )
    if part.function is not None:
        yield (
            f"is derived, and the current record is to have {spec.current!r} there.",
            "Give the entity a SubId that is not derived.",
        )
    if spec.created is not None and spec.created.name == part.name:
        yield (
            "is both Created and what the current record is told by.",
            "Mark a property that is the same in all entries of an id with Created[…].",
        )


def _value(spec: EntitySpec, part: PropertySpec) -> Iterator[tuple[str, str]]:
    """The sub id of the current record is a key like any other, which the property itself must admit."""
    given: Any = spec.current
    remedy = 'Declare another current=, for instance "~current".'
    if not isinstance(part.codec, Text):
        return
    if not isinstance(given, str) or not given:
        yield f"is a text that is never empty, and current={given!r} is none.", remedy
        return
    try:
        size = len(part.column.segment(given).encode())
    except InvalidValue as problem:
        yield f"cannot be {given!r}: {problem.message}", remedy
        return
    if size >= MAX_KEY_BYTES:
        yield f"has {size:,} bytes in the current record's key, where {MAX_KEY_BYTES:,} hold the id too.", remedy
    problem_told = _refusal(spec, part, given)
    if problem_told is not None:
        yield f"does not admit current={given!r}: {problem_told}.", remedy


def _refusal(spec: EntitySpec, part: PropertySpec, given: str) -> str | None:
    """Why the property's type does not take the text as it is."""
    field = spec.model.model_fields[part.name]
    annotation: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    try:
        taken = TypeAdapter(annotation).validate_python(given)
    except ValidationError as wrong:
        return str(wrong.errors(include_url=False, include_input=False)[0]["msg"])
    return None if taken == given else f"its type makes {taken!r} of it"
