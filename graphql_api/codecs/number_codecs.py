"""Codecs of numbers: 64-bit and 32-bit integers, floats and decimals (docs/reference/key-format.md)."""

import math
import re
import struct
from collections.abc import Sequence
from decimal import Decimal
from types import NoneType
from typing import Any, ClassVar

from graphql_api.codecs.scalar_codec import (
    HEX_COMPLEMENT,
    Codec,
    GraphQLScalar,
    Samples,
    ScalarKind,
    StoredScalar,
    T,
    short_repr,
)
from graphql_api.errors import InvalidValue

_NUMBER_PATTERN = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

_INT_BIAS = 2**63
_INT_WIDTH = 20
_EXCEEDS_INTEGERS = 10**_INT_WIDTH

_SIGN_BIT = 1 << 63
_ALL_BITS = (1 << 64) - 1

# DynamoDB's numbers: zero, and magnitudes from 1E-130 to 9.99…E+125 with 38 digits.
_MIN_EXPONENT = -130
_MAX_EXPONENT = 125
_DECIMAL_DIGITS = 38
_EXPONENT_BIAS = 500
_INT_BITS = (10 ** (_MAX_EXPONENT + 1)).bit_length()
_NUMBER_RANGE = "0, or a magnitude from 1E-130 to 9.99E+125"


_SMALLEST_USUAL, _LARGEST_USUAL = 1e-100, 1e100
"""magnitudes within which every float can be stored"""

_UNUSED = 1_999_999_999
"""Fits into 32 bits. Ids that are counted upward hardly ever reach it."""


class NumberCodec(Codec[T]):
    """A scalar that is stored as a number."""

    stored_type = "number"
    stored_label = "a stored number"
    stores_in_order = True
    step: ClassVar[Any] = 1

    def _store(self, value: T) -> StoredScalar:
        return value  # type: ignore[return-value]

    def load(self, stored: object) -> T:
        if type(stored) is not int and (isinstance(stored, bool) or not isinstance(stored, int | Decimal)):
            raise self._wrong_type(stored, self.stored_label)
        return self._load(stored)

    def _load(self, stored: int | Decimal) -> T:
        return self.check(stored)

    def _whole_number(self, stored: int | Decimal) -> int:
        if isinstance(stored, int):
            return stored
        if stored.is_finite() and stored.adjusted() <= _INT_WIDTH and stored == stored.to_integral_value():
            return int(stored)
        raise self._invalid_number(stored)

    def _invalid_number(self, stored: int | Decimal) -> InvalidValue:
        return InvalidValue(f"The stored number {short_repr(stored)} is no {self.name}. Correct the record.")

    def pack(self, value: T) -> str:
        """Return all digits: parts of record keys are not limited to the range of stored numbers."""
        return str(value)


class IntegerCodec(NumberCodec[int]):
    """Integers of a limited range: 20 digits, biased by 2^63."""

    python_type = int
    excluded_types = (bool,)
    key_tag = "i"
    example = "42"
    samples = Samples(1, 1000, typical=1_234_567, unused=_UNUSED)
    kind: ClassVar[ScalarKind] = "integer"
    stores_canonical_form = True
    text_pattern = re.compile(r"0|-?[1-9][0-9]{0,18}")
    minimum: ClassVar[int]
    maximum: ClassVar[int]
    allowed_range: ClassVar[str]

    def check(self, value: object) -> int:
        if type(value) is int and self.minimum <= value <= self.maximum:
            return value
        number = super().check(value)
        if not self.minimum <= number <= self.maximum:
            raise InvalidValue(f"{short_repr(number)} is beyond {self.name}. Give a value from {self.allowed_range}.")
        return int(number)

    def encode(self, value: int) -> str:
        is_plain = type(value) is int and self.minimum <= value <= self.maximum
        return self._encode(value if is_plain else self.check(value))

    def store(self, value: int) -> StoredScalar:
        return value if type(value) is int and self.minimum <= value <= self.maximum else self.check(value)

    def _encode(self, value: int) -> str:
        return f"{value + _INT_BIAS:020d}"

    def _decode(self, text: str) -> int:
        return int(text) - _INT_BIAS

    def _load(self, stored: int | Decimal) -> int:
        if type(stored) is int and self.minimum <= stored <= self.maximum:
            return stored
        return self.check(self._whole_number(stored))

    def column_to_json(self, stored: Sequence[object]) -> Sequence[object]:
        """Convert all values at once, if engines return them as ints."""
        numbers: Any = stored if None not in stored else [one for one in stored if one is not None]
        types = set(map(type, numbers))
        if types and (types != {int} or min(numbers) < self.minimum or max(numbers) > self.maximum):
            return super().column_to_json(stored)
        if self._is_json_native:
            return stored
        return [*map(str, numbers)] if numbers is stored else [None if one is None else str(one) for one in stored]

    def load_column(self, stored: Sequence[object]) -> Sequence[int | None]:
        numbers: Any = stored
        is_plain = set(map(type, stored)) == {int} and min(numbers) >= self.minimum and max(numbers) <= self.maximum
        return numbers if is_plain else super().load_column(stored)

    def _exact_number(self, number: float | Decimal) -> object:
        # `5.0` and `5e0` become 5, `5.5` stays and is refused.
        is_whole = -_EXCEEDS_INTEGERS < number < _EXCEEDS_INTEGERS and number == int(number)
        return int(number) if is_whole else number


class Int64(IntegerCodec):
    """`int`: a signed 64-bit integer."""

    name = "int64"
    graphql = GraphQLScalar("BigInt", "A 64-bit integer, serialized as a string. Inputs accept a string or an integer.")
    minimum = -(2**63)
    maximum = 2**63 - 1
    allowed_range = "-2^63 to 2^63 - 1"


class Int32(IntegerCodec):
    """`Int32`: a signed 32-bit integer, like a GraphQL Int."""

    name = "int32"
    graphql = GraphQLScalar("Int", is_json_native=True)
    minimum = -(2**31)
    maximum = 2**31 - 1
    allowed_range = "-2^31 to 2^31 - 1"


class Float64(NumberCodec[float]):
    """`float`: 16 hex digits of its bits, flipped so that they sort; -0.0 becomes 0.0."""

    name = "float64"
    python_type = float
    graphql = GraphQLScalar("Float", is_json_native=True)
    key_tag = None
    example = "2.5 or 1e-9"
    samples: Samples[float] = Samples(1, 1000, typical=1234.5678, unused=_UNUSED)
    kind = "number"
    complement_table = HEX_COMPLEMENT
    text_pattern = _NUMBER_PATTERN

    def check(self, value: object) -> float:
        if isinstance(value, int) and not isinstance(value, bool):
            # A rounded bound would include or exclude other records than the caller requested.
            if value.bit_length() > _INT_BITS or float(value) != value:
                raise InvalidValue(
                    f"{short_repr(value)} is an int that no float represents exactly. Give a float, or declare Decimal."
                )
            value = float(value)
        number = super().check(value)
        if not math.isfinite(number):
            raise InvalidValue(f"{number} is no number that can be stored or ordered. Give a finite number, or null.")
        if abs(number) >= 1e126 or 0 < abs(number) < 1e-130:
            raise _out_of_range(number)
        return float(number) + 0.0  # -0.0 + 0.0 is 0.0

    def _encode(self, value: float) -> str:
        bits: int = struct.unpack(">Q", struct.pack(">d", value))[0]
        return f"{bits ^ _ALL_BITS if bits & _SIGN_BIT else bits | _SIGN_BIT:016x}"

    def _decode(self, text: str) -> float:
        flipped = int(text, 16)
        bits = flipped ^ _SIGN_BIT if flipped & _SIGN_BIT else flipped ^ _ALL_BITS
        value: float = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
        return value

    def _store(self, value: float) -> StoredScalar:
        return Decimal(repr(value))

    def column_to_json(self, stored: Sequence[object]) -> Sequence[object]:
        """Convert all values at once, if they are numbers of the usual magnitudes."""
        # A Decimal is slow to compare with None.
        return super().column_to_json(stored) if NoneType in map(type, stored) else self.load_column(stored)

    def load_column(self, stored: Sequence[object]) -> Sequence[float | None]:
        if not set(map(type, stored)) <= {Decimal, int}:
            return super().load_column(stored)
        numbers: Any = stored
        values = [float(number) + 0.0 for number in numbers]
        sizes = [*filter(None, map(abs, values))]
        is_usual = not sizes or (min(sizes) > _SMALLEST_USUAL and max(sizes) < _LARGEST_USUAL)
        return values if is_usual else super().load_column(stored)

    def _load(self, stored: int | Decimal) -> float:
        # An int is converted too: the stored decimal is the shortest text of a float, which need not equal it exactly.
        return self.check(float(Decimal(stored)))

    def _parse(self, text: str) -> float:
        value = float(text)
        is_underflow = value == 0 and text.lower().partition("e")[0].strip("-0.")
        if is_underflow:
            raise _out_of_range(text)
        return value


class DecimalNumber(NumberCodec[Decimal]):
    """`Decimal`: sign, biased exponent and 38 digits; the complement for negative numbers."""

    name = "decimal"
    python_type = Decimal
    graphql = GraphQLScalar(
        "Decimal",
        "A decimal number of up to 38 digits, serialized as a string. Inputs accept a string or a number.",
    )
    key_tag = "n"
    example = "2.50"
    samples = Samples(Decimal(1), Decimal(1000), typical=Decimal("1234.56"), unused=Decimal(_UNUSED))
    kind = "number"
    stores_canonical_form = True
    text_pattern = _NUMBER_PATTERN

    def check(self, value: object) -> Decimal:
        if isinstance(value, int) and not isinstance(value, bool):
            if value.bit_length() > _INT_BITS:
                raise _out_of_range(value)
            value = Decimal(value)
        number = super().check(value)
        if not number.is_finite():
            raise InvalidValue(f"{number} is no number that can be stored or ordered. Give a finite Decimal, or null.")
        if not number:
            return Decimal(0)
        if not _MIN_EXPONENT <= number.adjusted() <= _MAX_EXPONENT:
            raise _out_of_range(number)
        digits = _significant_digits(number)
        if len(digits) > _DECIMAL_DIGITS:
            raise InvalidValue(
                f"{short_repr(number)} has {len(digits)} digits. Give a Decimal of at most {_DECIMAL_DIGITS}."
            )
        exponent = number.adjusted() - len(digits) + 1
        if exponent > 0 and number.adjusted() < _DECIMAL_DIGITS:  # Keep 100 as 100, not as 1E+2.
            digits, exponent = digits + "0" * exponent, 0
        return Decimal((int(number.is_signed()), tuple(map(int, digits)), exponent))

    def _encode(self, value: Decimal) -> str:
        if not value:
            return "1" + "0" * (3 + _DECIMAL_DIGITS)
        magnitude = f"{value.adjusted() + _EXPONENT_BIAS:03d}{_significant_digits(value):0<{_DECIMAL_DIGITS}}"
        return "0" + self.complement(magnitude) if value.is_signed() else "1" + magnitude

    def _decode(self, text: str) -> Decimal:
        sign, magnitude = text[0], text[1:]
        if sign == "0":
            magnitude = self.complement(magnitude)
        digits = magnitude[3:].rstrip("0")
        if not digits:
            return Decimal(0)
        exponent = int(magnitude[:3]) - _EXPONENT_BIAS - len(digits) + 1
        return self.check(Decimal((int(sign == "0"), tuple(map(int, digits)), exponent)))

    def _exact_number(self, number: float | Decimal) -> object:
        return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)

    def pack(self, value: Decimal) -> str:
        return str(value if value.is_finite() else self.check(value))

    def _parse(self, text: str) -> Decimal:
        try:
            return Decimal(text)
        except ArithmeticError:
            raise _out_of_range(text) from None


def _significant_digits(value: Decimal) -> str:
    return "".join(map(str, value.as_tuple().digits)).strip("0")


def _out_of_range(value: float | Decimal | str) -> InvalidValue:
    return InvalidValue(f"{short_repr(value)} is outside the range of stored numbers. Give {_NUMBER_RANGE}.")
