"""Codecs of text, booleans, UUIDs and enums (docs/reference/key-format.md)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from secrets import choice
from string import ascii_lowercase, digits
from types import NoneType
from typing import Any, ClassVar
from uuid import UUID, uuid4

from graphql_api.codecs.scalar_codec import (
    HEX_COMPLEMENT,
    Codec,
    GraphQLScalar,
    Samples,
    SortableTextCodec,
    StoredScalar,
    StoredType,
    short_repr,
)
from graphql_api.errors import InvalidValue, suggest

_CHARACTER_BY_ESCAPE = {"\x020": "\x00", "\x021": "\x01", "\x022": "\x02"}
_ESCAPE_TABLE = str.maketrans({character: escape for escape, character in _CHARACTER_BY_ESCAPE.items()})
_ESCAPE_PATTERN = re.compile("\x02[012]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_ID_LETTERS = ascii_lowercase + digits
_ID_LENGTH = 22
"""113 random bits: even the ids of a full table do not collide"""


def check_well_formed(text: str) -> str:
    """Return the text unchanged. Raise `InvalidValue` if it cannot be encoded as UTF-8."""
    surrogate = None if text.isascii() else _LONE_SURROGATE.search(text)
    if surrogate:
        raise InvalidValue(
            f"The text holds a lone surrogate (U+{ord(surrogate[0]):04X}) at position {surrogate.start()}, "
            "which cannot be stored. Give well-formed Unicode text."
        )
    return text


def escape_text(text: str) -> str:
    """Escape U+0000, U+0001 and U+0002 for a segment. Escaping keeps the order of texts."""
    # Fast path: printable text has neither control characters nor surrogates.
    return text if text.isprintable() else check_well_formed(text).translate(_ESCAPE_TABLE)


def unescape_text(text: str) -> str:
    """Unescape the text of a segment; the inverse of `escape_text`."""
    unescaped = _ESCAPE_PATTERN.sub(lambda escape: _CHARACTER_BY_ESCAPE[escape[0]], text)
    if escape_text(unescaped) != text:
        raise InvalidValue("The text is no encoded segment value. Read only keys that ShardQL wrote.")
    return unescaped


def new_id() -> str:
    """Generate a globally unique id of lower-case letters and digits."""
    return "".join(choice(_ID_LETTERS) for _ in range(_ID_LENGTH))


class Text(Codec[str]):
    """`str`: the text, with three control characters escaped."""

    name = "text"
    python_type = str
    graphql = GraphQLScalar("String")
    key_tag = "s"
    example = "any text"
    samples = Samples("a", "m", typical="typical text of some ")  # 21 characters, like random ids
    kind = "text"
    fixed_width = False
    stored_label = "a str"
    json_types = frozenset({str})
    stores_canonical_form = True
    stores_in_order = True
    generate = staticmethod(new_id)

    def check(self, value: object) -> str:
        if type(value) is str and value.isascii():
            return value
        text = super().check(value)
        return check_well_formed(text if type(text) is str else str.__str__(text))

    def encode(self, value: str) -> str:
        # Fast path: printable text has neither control characters nor surrogates.
        return value if type(value) is str and value.isprintable() else escape_text(self.check(value))

    def store(self, value: str) -> str:
        return self.check(value)

    def load(self, stored: object) -> str:
        return stored if type(stored) is str and stored.isascii() else super().load(stored)

    def column_to_json(self, stored: Sequence[object]) -> Sequence[object]:
        """Return the column: JSON holds well-formed text as it is stored."""
        return stored if set(map(type, stored)) <= {str, NoneType} else super().column_to_json(stored)

    def load_column(self, stored: Sequence[object]) -> Sequence[str | None]:
        texts: Any = stored
        if set(map(type, stored)) != {str}:
            return super().load_column(stored)
        return texts if all(map(str.isascii, texts)) else [one if one.isascii() else self.load(one) for one in texts]

    def _encode(self, value: str) -> str:
        return escape_text(value)

    def _decode(self, text: str) -> str:
        return unescape_text(text)

    def _parse(self, text: str) -> str:
        return text

    def other_sample(self, value: str) -> str:
        return f"{value} 2"


class Boolean(Codec[bool]):
    """`bool`: one digit, false first."""

    name = "boolean"
    python_type = bool
    graphql = GraphQLScalar("Boolean", is_json_native=True)
    json_types = frozenset({bool})
    key_tag = None
    example = "true or false"
    samples = Samples(True, False, typical=True)
    stored_type = "boolean"
    is_ordered = False
    stores_canonical_form = True
    cardinality = 2
    text_pattern = re.compile("true|false")

    def _encode(self, value: bool) -> str:
        return "1" if value else "0"

    def _decode(self, text: str) -> bool:
        return text == "1"

    def _store(self, value: bool) -> StoredScalar:
        return value

    def load(self, stored: object) -> bool:
        return self.check(stored)

    def load_column(self, stored: Sequence[object]) -> Sequence[bool | None]:
        flags: Any = stored
        return flags if set(map(type, stored)) == {bool} else super().load_column(stored)

    def column_to_json(self, stored: Sequence[object]) -> Sequence[object]:
        """Return the column: JSON holds what is stored."""
        return stored if set(map(type, stored)) <= {bool, NoneType} else super().column_to_json(stored)

    def _format(self, value: bool) -> str:
        return "true" if value else "false"

    def _parse(self, text: str) -> bool:
        return text == "true"


class Uuid(SortableTextCodec[UUID]):
    """`UUID`: its canonical 36 characters."""

    name = "uuid"
    python_type = UUID
    graphql = GraphQLScalar("UUID", "A UUID in hyphenated form.", "https://www.rfc-editor.org/rfc/rfc9562")
    key_tag = "u"
    samples = Samples(UUID(int=1), UUID(int=2), typical=UUID("6f1f6d4e-3c56-4f6f-9d7a-0d4a3c1c2b1a"))
    complement_table = HEX_COMPLEMENT
    stored_label = "a stored UUID"
    generate = staticmethod(uuid4)
    text_pattern = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

    def pack(self, value: UUID) -> str:
        return value.hex

    def sample(self, seed: str, *, unused: bool = False) -> UUID:  # noqa: ARG002 - random UUIDs are unused
        """Return a random UUID that depends on the seed."""
        return UUID(bytes=blake2b(seed.encode(), digest_size=16).digest(), version=4)

    def other_sample(self, value: UUID) -> None:
        """Return None: a UUID identifies something, so sample operations do not change it."""


@dataclass(frozen=True)
class EnumCodec(Codec[Enum]):
    """An enum: the ordinal of the member in declared order, as three digits. Append new members at the end."""

    name = "enum"
    graphql = None
    key_tag = "i"
    example = ""
    stores_canonical_form = True
    max_members: ClassVar[int] = 1000

    enum_class: type[Enum]

    def __post_init__(self) -> None:
        problem = enum_problem(self.enum_class)
        if problem:
            raise ValueError(f"{self.enum_class.__name__} {problem}")

    @property
    def python_type(self) -> type[Enum]:
        return self.enum_class

    @property
    def expected(self) -> str:
        return f"a member of {self.enum_class.__name__}"

    @property
    def stored_type(self) -> StoredType:
        types: set[StoredType] = {"number" if isinstance(one.value, int) else "text" for one in self._members}
        return types.pop() if len(types) == 1 else "mixed"

    @property
    def samples(self) -> Samples[Enum]:
        """The first two members, and the one with the longest value."""
        first, *others = self._members
        return Samples(first, (others or [first])[0], max(self._members, key=lambda member: len(str(member.value))))

    @property
    def cardinality(self) -> int:
        return len(self._members)

    @cached_property
    def _members(self) -> tuple[Enum, ...]:
        return tuple(self.enum_class)

    @cached_property
    def _ordinals(self) -> dict[Enum, int]:
        return {member: ordinal for ordinal, member in enumerate(self._members)}

    @cached_property
    def _by_text(self) -> dict[str, Enum]:
        return {str(member.value): member for member in self._members}

    def check(self, value: object) -> Enum:
        member = super().check(value)
        if member not in self._ordinals:  # a combination of flags
            raise InvalidValue(
                f"{short_repr(value)} is no single member of {self.enum_class.__name__}. Give one member."
            )
        return member

    def _encode(self, value: Enum) -> str:
        return f"{self._ordinals[value]:03d}"

    def _decode(self, text: str) -> Enum:
        return self._members[int(text)]

    def _store(self, value: Enum) -> StoredScalar:
        stored: StoredScalar = value.value
        return stored

    def load(self, stored: object) -> Enum:
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

    def to_key_part(self, value: Enum) -> int:
        """Return the ordinal, because record keys know no enums."""
        return self._ordinals[self.check(value)]

    def from_key_part(self, part: int) -> Enum:
        return self.decode(f"{part:03d}")

    def literal(self, value: Enum) -> str:
        return value.name

    def _unknown(self, value: str, hint: str = "") -> InvalidValue:
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
