"""What every scalar's codec promises: strict checks, encodings in value order, a stored and an outside form."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Generic, TypeVar

from graphql_api.errors import InvalidValue

T = TypeVar("T")

Stored = str | int | Decimal | bool
"""A scalar as the record keeps it."""

DIGIT_COMPLEMENT = str.maketrans("0123456789", "9876543210")
HEX_COMPLEMENT = str.maketrans("0123456789abcdef", "fedcba9876543210")


def shown(value: Any) -> str:
    """A value as an error message quotes it: short, whatever its size."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no int of more than 4,300 digits
        return "the value"
    return text if len(text) <= 60 else f"{text[:60]}…"


def kind_of(value: object) -> str:
    """The type of a value as an error message names it."""
    return "null" if value is None else type(value).__name__


@dataclass(frozen=True)
class Codec(ABC, Generic[T]):
    """One scalar type: how its values are checked, ordered inside keys, kept in records and written outside.

    Equal values encode equally, and the UTF-8 byte order of encoded values is the order of the values.
    """

    name: ClassVar[str]
    """stable for ever: page tokens are bound to it"""
    fixed_width: ClassVar[bool] = True
    """all encoded values have one length, so `desc()` can reverse their order"""
    complements = DIGIT_COMPLEMENT
    """what each digit of an encoded value becomes in reversed order"""

    @abstractmethod
    def _check(self, value: object) -> T: ...

    @abstractmethod
    def _encode(self, value: T) -> str: ...

    @abstractmethod
    def _decode(self, text: str) -> T:
        """Anything malformed may come back as any value or as one of the errors that `decode` catches."""

    @abstractmethod
    def _store(self, value: T) -> Stored: ...

    @abstractmethod
    def _load(self, stored: object) -> T: ...

    @abstractmethod
    def _format(self, value: T) -> str: ...

    @abstractmethod
    def _parse(self, text: str) -> T: ...

    def _is_number(self) -> bool:
        return False

    @property
    def number(self) -> bool:
        """The record keeps a number, which a raw index orders by value."""
        return self._is_number()

    def check(self, value: object) -> T:
        """The value in its one canonical form; `InvalidValue` if it is of another type or cannot be stored."""
        return self._check(value)

    def encode(self, value: T) -> str:
        """The value as it stands in a range value."""
        return self._encode(self._check(value))

    def decode(self, text: str) -> T:
        """The inverse of `encode`."""
        try:
            value = self._decode(text)
            if self._encode(self._check(value)) == text:
                return value
        except (ValueError, IndexError, OverflowError, InvalidValue):
            pass
        raise InvalidValue(
            f"{shown(text)} is no encoded {self.name}. "
            "Read keys only from where ShardQL wrote them, with the same declaration."
        )

    def complement(self, encoded: str) -> str:
        """The encoded value in reversed order; its own inverse."""
        if not self.fixed_width:
            raise ValueError(f"{self.name} has no fixed width, so its order cannot be reversed inside a key")
        return encoded.translate(self.complements)

    def store(self, value: T) -> Stored:
        """The value as the record keeps it."""
        return self._store(self._check(value))

    def load(self, stored: object) -> T:
        """The value that the record keeps; the inverse of `store`."""
        return self._load(stored)

    def format(self, value: T) -> str:
        """The value as it is written outside, in composite ids."""
        return self._format(self._check(value))

    def parse(self, text: str) -> T:
        """The value that an outside text means; the inverse of `format`."""
        return self._parse(text)

    def _wrong_type(self, value: object, wanted: str) -> InvalidValue:
        return InvalidValue(f"{kind_of(value)} given where {self.name} is declared. Give {wanted}.")

    def _unreadable(self, text: str, example: str) -> InvalidValue:
        return InvalidValue(f"{shown(text)} is no {self.name}. Write it like {example}.")
