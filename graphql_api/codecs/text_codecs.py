"""Codecs of text, booleans, UUIDs and enums (docs/key-format.md)."""

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import ClassVar
from uuid import UUID

from graphql_api.codecs.key_segments import check_well_formed, escape_text, unescape_text
from graphql_api.codecs.scalar_codec import HEX_COMPLEMENT, Codec, StoredScalar, short_repr
from graphql_api.errors import InvalidValue, Suggestion, suggest


class Text(Codec[str]):
    """`str`: the text, with three control characters escaped."""

    name = "text"
    fixed_width = False

    def _check(self, value: object) -> str:
        if not isinstance(value, str):
            raise self._wrong_type(value, "a str")
        return check_well_formed(value if type(value) is str else str.__str__(value))

    def _encode(self, value: str) -> str:
        return escape_text(value)

    def _decode(self, text: str) -> str:
        return unescape_text(text)

    def _store(self, value: str) -> StoredScalar:
        return value

    def _load(self, stored: object) -> str:
        return self._check(stored)

    def _format(self, value: str) -> str:
        return value

    def _parse(self, text: str) -> str:
        return self._check(text)


class Boolean(Codec[bool]):
    """`bool`: one digit, false first."""

    name = "boolean"

    def _check(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise self._wrong_type(value, "a bool")
        return value

    def _encode(self, value: bool) -> str:
        return "1" if value else "0"

    def _decode(self, text: str) -> bool:
        return text == "1"

    def _store(self, value: bool) -> StoredScalar:
        return value

    def _load(self, stored: object) -> bool:
        return self._check(stored)

    def _format(self, value: bool) -> str:
        return "true" if value else "false"

    def _parse(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise self._invalid_text(text, "true or false")
        return text == "true"


class Uuid(Codec[UUID]):
    """`UUID`: its canonical 36 characters."""

    name = "uuid"
    complement_table = HEX_COMPLEMENT

    def _check(self, value: object) -> UUID:
        if not isinstance(value, UUID):
            raise self._wrong_type(value, "a UUID")
        return value

    def _encode(self, value: UUID) -> str:
        return str(value)

    def _decode(self, text: str) -> UUID:
        return UUID(text)

    def _store(self, value: UUID) -> StoredScalar:
        return str(value)

    def _load(self, stored: object) -> UUID:
        if not isinstance(stored, str):
            raise self._wrong_type(stored, "a stored UUID")
        return self._parse(stored)

    def _format(self, value: UUID) -> str:
        return str(value)

    def _parse(self, text: str) -> UUID:
        try:
            value = UUID(text)
            if str(value) == text.lower():
                return value
        except ValueError:
            pass
        raise self._invalid_text(text, "6f1f6d4e-3c56-4f6f-9d7a-0d4a3c1c2b1a")


@dataclass(frozen=True)
class EnumCodec(Codec[Enum]):
    """An enum: the ordinal of the member in declared order, as three digits. Append new members at the end."""

    name = "enum"
    max_members: ClassVar[int] = 1000

    enum_class: type[Enum]

    def __post_init__(self) -> None:
        problem = enum_problem(self.enum_class)
        if problem:
            raise ValueError(f"{self.enum_class.__name__} {problem}")

    def _stores_number(self) -> bool:
        return all(isinstance(member.value, int) for member in self._members)

    @cached_property
    def _members(self) -> tuple[Enum, ...]:
        return tuple(self.enum_class)

    @cached_property
    def _ordinals(self) -> dict[Enum, int]:
        return {member: ordinal for ordinal, member in enumerate(self._members)}

    @cached_property
    def _by_text(self) -> dict[str, Enum]:
        return {str(member.value): member for member in self._members}

    def _check(self, value: object) -> Enum:
        if not isinstance(value, self.enum_class):
            raise self._wrong_type(value, f"a member of {self.enum_class.__name__}")
        if value not in self._ordinals:  # a combination of flags
            raise InvalidValue(
                f"{short_repr(value)} is no single member of {self.enum_class.__name__}. Give one member."
            )
        return value

    def _encode(self, value: Enum) -> str:
        return f"{self._ordinals[value]:03d}"

    def _decode(self, text: str) -> Enum:
        return self._members[int(text)]

    def _store(self, value: Enum) -> StoredScalar:
        stored: StoredScalar = value.value
        return stored

    def _load(self, stored: object) -> Enum:
        if isinstance(stored, bool) or not isinstance(stored, str | int | Decimal):
            raise self._wrong_type(stored, f"a stored value of {self.enum_class.__name__}")
        for member in self._members:
            if member.value == stored:
                return member
        raise self._unknown(short_repr(stored))

    def _format(self, value: Enum) -> str:
        return str(value.value)

    def _parse(self, text: str) -> Enum:
        if text not in self._by_text:
            raise self._unknown(short_repr(text), suggest(text, self._by_text))
        return self._by_text[text]

    def _unknown(self, value: str, hint: Suggestion | str = "") -> InvalidValue:
        known = ", ".join(list(self._by_text)[:10]) + (", …" if len(self._by_text) > 10 else "")
        return InvalidValue(
            "{value} is no value of {enum}, which has {known}.{hint}",
            value=value,
            enum=self.enum_class.__name__,
            known=known,
            hint=hint,
        )


def enum_problem(enum_class: type[Enum]) -> str | None:
    """Return why an enum cannot have a codec, or None if it can. Catalogs report the reason as a violation."""
    values = [member.value for member in enum_class]
    if not values:
        return "has no members."
    if len(values) > EnumCodec.max_members:
        return f"has {len(values)} members; at most {EnumCodec.max_members:,} can be ordered."
    if any(isinstance(value, bool) or not isinstance(value, str | int) for value in values):
        return "has values that are neither str nor int."
    if len({str(value) for value in values}) < len(values):
        return "has two values with the same text."
    return None
