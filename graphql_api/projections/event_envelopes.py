"""Events, and the envelopes in which sources deliver them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from orjson import Fragment, dumps
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from graphql_api.codecs import LiteralFloat, Text, read_json, write_json
from graphql_api.errors import InvalidEvent, ShardQLError
from graphql_api.model import camel_case

MAX_EVENT_BYTES = 256 * 1024
"""of one envelope as JSON, so that a dead letter can hold it"""
MAX_STREAM_BYTES = 512
"""of the name of a stream in UTF-8"""
MAX_SEQ = 2**63 - 1


class Event(BaseModel):
    """Base of event models, whose fields have camelCase names in JSON: `order_id` is `orderId`.

    A model declares its type: `type: Literal["OrderPlaced"] = "OrderPlaced"`. Any pydantic model that does so will do.
    """

    model_config = ConfigDict(frozen=True, alias_generator=camel_case, validate_by_name=True, validate_by_alias=True)


@dataclass(frozen=True, slots=True)
class Envelope:
    """An event as its source delivers it."""

    stream: str
    """empty: the only stream of a source that is one log"""
    seq: int
    type: str
    data: Mapping[str, Any]
    tags: tuple[str, ...]
    text: bytes
    """the envelope as JSON"""


class _Fields(BaseModel):
    """What an envelope must hold. Other fields are left to the source."""

    model_config = ConfigDict(strict=True, extra="ignore")

    stream: str = ""
    seq: Annotated[int, Field(ge=0, le=MAX_SEQ)]
    type: Annotated[str, Field(min_length=1, max_length=255)]
    data: dict[str, Any] = {}
    tags: Annotated[list[str], Field(max_length=100)] = []


_FIELDS = TypeAdapter(_Fields)


def read_envelope(text: bytes) -> Envelope:
    """Return the envelope in a JSON text. Raise `InvalidEvent` if it is none."""
    if len(text) > MAX_EVENT_BYTES:
        raise _too_large(len(text))
    try:
        value = read_json(text.removeprefix(b"\xef\xbb\xbf"), "The event")
    except ShardQLError as problem:
        raise InvalidEvent("{problem}", problem=problem) from problem
    return parse_envelope(value)


def parse_envelope(value: Any) -> Envelope:
    """Return the envelope in decoded JSON. Raise `InvalidEvent` if it is none."""
    try:
        fields = _FIELDS.validate_python(value)
    except ValidationError as problem:
        raise InvalidEvent(f"The envelope of the event is invalid: {first_problem(problem)}.") from problem
    if len(Text().encode(fields.stream).encode()) > MAX_STREAM_BYTES:  # Control characters take two bytes in keys.
        raise InvalidEvent(f"The name of the stream has more than {MAX_STREAM_BYTES} bytes: shorten it.")
    text = event_text(
        {name: value for name in _Fields.model_fields if (value := getattr(fields, name)) or name == "seq"}
    )
    if len(text) > MAX_EVENT_BYTES:
        raise _too_large(len(text))
    return Envelope(fields.stream, fields.seq, fields.type, fields.data, tuple(fields.tags), text)


def _too_large(size: int) -> InvalidEvent:
    return InvalidEvent(f"The event has {size:,} bytes, and at most {MAX_EVENT_BYTES:,} are accepted: shorten it.")


def event_text(value: Any) -> bytes:
    """Return an envelope as JSON, with every digit of its fractions."""
    try:
        return dumps(value, default=_literal)
    except TypeError:
        return write_json(value)  # It has an integer of more than 64 bits.


def _literal(value: Any) -> Fragment:
    if isinstance(value, LiteralFloat):
        return Fragment(value.literal)
    raise TypeError


def first_problem(problem: ValidationError) -> str:
    """Return the first validation error of an envelope or event, and how many follow."""
    errors = problem.errors(include_url=False, include_input=False, include_context=False)
    path = ".".join(map(str, errors[0]["loc"]))
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"{path + ': ' if path else ''}{errors[0]['msg']}{more}"
