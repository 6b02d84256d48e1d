"""Base class of scalar codecs: validation, order-preserving key encoding, stored form and text form."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Generic, TypeVar

from graphql_api.errors import InvalidValue

T = TypeVar("T")

StoredScalar = str | int | Decimal | bool
"""Value of a scalar in a stored record."""

DIGIT_COMPLEMENT = str.maketrans("0123456789", "9876543210")
HEX_COMPLEMENT = str.maketrans("0123456789abcdef", "fedcba9876543210")


def short_repr(value: Any) -> str:
    """Return the repr of a value for an error message, cut to a limited length."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print an int of more than 4,300 digits.
        return "the value"
    return text if len(text) <= 60 else f"{text[:60]}…"


def type_label(value: object) -> str:
    """Return the name of a value's type for an error message."""
    return "null" if value is None else type(value).__name__


@dataclass(frozen=True)
class Codec(ABC, Generic[T]):
    """Validate, encode, store and format the values of one scalar type.

    Equal values have equal encodings. The UTF-8 byte order of encoded values is the order of the values.
    """

    name: ClassVar[str]
    """never changes: page tokens are bound to it"""
    fixed_width: ClassVar[bool] = True
    """all encoded values have the same length, so `desc()` can reverse their order"""
    complement_table = DIGIT_COMPLEMENT
    """translates each digit of an encoded value for descending order"""

    @abstractmethod
    def _check(self, value: object) -> T: ...

    @abstractmethod
    def _encode(self, value: T) -> str: ...

    @abstractmethod
    def _decode(self, text: str) -> T:
        """Decode text that may be malformed: return any value then, or raise an error that `decode` catches."""

    @abstractmethod
    def _store(self, value: T) -> StoredScalar: ...

    @abstractmethod
    def _load(self, stored: object) -> T: ...

    @abstractmethod
    def _format(self, value: T) -> str: ...

    @abstractmethod
    def _parse(self, text: str) -> T: ...

    def _stores_number(self) -> bool:
        return False

    @property
    def stores_number(self) -> bool:
        """Whether records store a number, which raw indexes order by value."""
        return self._stores_number()

    def check(self, value: object) -> T:
        """Return the value in canonical form. Raise `InvalidValue` if its type is wrong or it cannot be stored."""
        return self._check(value)

    def encode(self, value: T) -> str:
        """Encode the value for a key. The encoding preserves the order of values."""
        return self._encode(self._check(value))

    def decode(self, text: str) -> T:
        """Decode a value from a key; the inverse of `encode`."""
        try:
            value = self._decode(text)
            if self._encode(self._check(value)) == text:
                return value
        except (ValueError, IndexError, OverflowError, InvalidValue):
            pass
        raise InvalidValue(
            f"{short_repr(text)} is no encoded {self.name}. "
            "Read only keys that ShardQL wrote, with the same declaration."
        )

    def complement(self, encoded: str) -> str:
        """Convert an encoded value to descending order, or back."""
        if not self.fixed_width:
            raise ValueError(f"{self.name} has no fixed width, so its order cannot be reversed inside a key")
        return encoded.translate(self.complement_table)

    def store(self, value: T) -> StoredScalar:
        """Convert the value to its stored form."""
        return self._store(self._check(value))

    def load(self, stored: object) -> T:
        """Convert a stored value back; the inverse of `store`."""
        return self._load(stored)

    def format(self, value: T) -> str:
        """Format the value as text, as in composite ids."""
        return self._format(self._check(value))

    def parse(self, text: str) -> T:
        """Parse the text form of a value; the inverse of `format`."""
        return self._parse(text)

    def _wrong_type(self, value: object, expected: str) -> InvalidValue:
        return InvalidValue(f"{type_label(value)} given where {self.name} is declared. Give {expected}.")

    def _invalid_text(self, text: str, example: str) -> InvalidValue:
        return InvalidValue(f"{short_repr(text)} is no {self.name}. Write it like {example}.")
