"""Validate histories with a current record (`current=`)."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from graphql_api.codecs import MAX_KEY_BYTES, Text
from graphql_api.errors import InvalidValue
from graphql_api.model.specs import EntitySpec, PropertySpec

Violations = Iterator[tuple[str | None, str, str]]
"""violations of one entity: property or None, problem, remedy"""


def history_violations(spec: EntitySpec) -> Violations:
    """Yield the violations of `current=` of one entity."""
    if spec.current is None:
        return
    if not spec.sub_ids:
        yield None, f"has current={spec.current!r} and no SubId.", "Mark the property that distinguishes entries."
    elif len(spec.sub_ids) > 1:
        names = " and ".join(part.name for part in spec.sub_ids)
        yield (
            None,
            f"has current={spec.current!r} and several sub ids, {names}.",
            "Keep one SubId of str, or remove current=.",
        )
    else:
        sub_id = spec.sub_ids[0]
        for problem, remedy in (*_sub_id_problems(spec, sub_id), *_current_value_problems(spec, sub_id)):
            yield sub_id.name, problem, remedy


def _sub_id_problems(spec: EntitySpec, sub_id: PropertySpec) -> Iterator[tuple[str, str]]:
    """Check that the sub id of the current record can differ from that of the latest entry."""
    if not isinstance(sub_id.codec, Text):
        yield (
            f"is no text, and the current record needs the value {spec.current!r}.",
            "Make the SubId a str, or remove current=.",
        )
    if sub_id.function is not None:
        yield (
            f"is derived, and the current record needs the value {spec.current!r}.",
            "Mark a property with SubId that is not derived.",
        )
    if spec.created is not None and spec.created.name == sub_id.name:
        yield (
            "is both Created and the SubId that the current record changes.",
            "Mark a property that is the same in all entries of an id with Created[…].",
        )


def _current_value_problems(spec: EntitySpec, sub_id: PropertySpec) -> Iterator[tuple[str, str]]:
    """Check that the sub id of the current record is a valid key and a valid value of the property."""
    current: Any = spec.current
    remedy = 'Declare another current=, for instance "~current".'
    if not isinstance(sub_id.codec, Text):
        return
    if not isinstance(current, str) or not current:
        yield f"needs a non-empty string, and current={current!r} is none.", remedy
        return
    try:
        size = len(sub_id.column.segment(current).encode())
    except InvalidValue as problem:
        yield f"cannot be {current!r}: {problem.message}", remedy
        return
    if size >= MAX_KEY_BYTES:
        yield (
            f"takes {size:,} bytes in the current record's key, where at most {MAX_KEY_BYTES:,} fit with the id.",
            remedy,
        )
    reason = _refusal_reason(spec, sub_id, current)
    if reason is not None:
        yield f"does not accept current={current!r}: {reason}.", remedy


def _refusal_reason(spec: EntitySpec, part: PropertySpec, current: str) -> str | None:
    """Return why the property's type rejects or changes the value, or None."""
    field = spec.model.model_fields[part.name]
    annotation: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    try:
        validated = TypeAdapter(annotation).validate_python(current)
    except ValidationError as invalid:
        return str(invalid.errors(include_url=False, include_input=False)[0]["msg"])
    return None if validated == current else f"its type changes it to {validated!r}"
