"""Codecs of numbers: 64-bit and 32-bit integers, timestamps, floats and decimals (docs/key-format.md)."""

import math
import re
import struct
from decimal import Decimal
from typing import ClassVar

from graphql_api.codecs.scalar_codec import HEX_COMPLEMENT, Codec, StoredScalar, T, short_repr
from graphql_api.errors import InvalidValue

_INTEGER_PATTERN = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NUMBER_PATTERN = re.compile(r"-?(?P<digits>[0-9]+(?:\.[0-9]+)?)(?:[eE][+-]?[0-9]+)?")

_INT_BIAS = 2**63
_INT_WIDTH = 20

_SIGN_BIT = 1 << 63
_ALL_BITS = (1 << 64) - 1

# DynamoDB's numbers: zero, and magnitudes from 1E-130 to 9.99…E+125 with 38 digits.
_MIN_EXPONENT = -130
_MAX_EXPONENT = 125
_DECIMAL_DIGITS = 38
_EXPONENT_BIAS = 500
_INT_BITS = (10 ** (_MAX_EXPONENT + 1)).bit_length()
_NUMBER_RANGE = "0, or a magnitude from 1E-130 to 9.99E+125"


class _Number(Codec[T]):
    """A scalar that is stored as a number."""

    def _stores_number(self) -> bool:
        return True

    def _check_number(self, stored: object) -> int | Decimal:
        if isinstance(stored, bool) or not isinstance(stored, int | Decimal):
            raise self._wrong_type(stored, "a stored number")
        return stored


class _Integer(_Number[int]):
    """Integers of a limited range: 20 digits, biased by 2^63."""

    minimum: ClassVar[int]
    maximum: ClassVar[int]
    allowed_range: ClassVar[str]

    def _check(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong_type(value, "an int")
        if not self.minimum <= value <= self.maximum:
            raise InvalidValue(f"{short_repr(value)} is beyond {self.name}. Give a value from {self.allowed_range}.")
        return int(value)

    def _encode(self, value: int) -> str:
        return f"{value + _INT_BIAS:0{_INT_WIDTH}d}"

    def _decode(self, text: str) -> int:
        return int(text) - _INT_BIAS

    def _store(self, value: int) -> StoredScalar:
        return value

    def _load(self, stored: object) -> int:
        number = self._check_number(stored)
        if isinstance(number, Decimal):
            if not number.is_finite() or number.adjusted() > _INT_WIDTH or number != number.to_integral_value():
                raise InvalidValue(f"The stored number {short_repr(number)} is no {self.name}. Correct the record.")
            number = int(number)
        return self._check(number)

    def _format(self, value: int) -> str:
        return str(value)

    def _parse(self, text: str) -> int:
        if not _INTEGER_PATTERN.fullmatch(text):
            raise self._invalid_text(text, "42")
        return self._check(int(text))


class Int64(_Integer):
    """`int`: a signed 64-bit integer."""

    name = "int64"
    minimum = -(2**63)
    maximum = 2**63 - 1
    allowed_range = "-2^63 to 2^63 - 1"


class Int32(_Integer):
    """`Int32`: a signed 32-bit integer, like a GraphQL Int."""

    name = "int32"
    minimum = -(2**31)
    maximum = 2**31 - 1
    allowed_range = "-2^31 to 2^31 - 1"


class Timestamp(_Integer):
    """`Timestamp`: seconds since 1970, limited to the range that JSON numbers represent exactly."""

    name = "timestamp"
    minimum = -(2**53)
    maximum = 2**53
    allowed_range = "-2^53 to 2^53"


class TimestampMs(_Integer):
    """`TimestampMs`: milliseconds since 1970, limited to the range that JSON numbers represent exactly."""

    name = "timestampMs"
    minimum = -(2**53)
    maximum = 2**53
    allowed_range = "-2^53 to 2^53"


class Float64(_Number[float]):
    """`float`: 16 hex digits of its bits, flipped so that they sort; -0.0 becomes 0.0."""

    name = "float64"
    complement_table = HEX_COMPLEMENT

    def _check(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong_type(value, "a float")
        if isinstance(value, int):
            value = self._to_exact_float(value)
        if not math.isfinite(value):
            raise InvalidValue(f"{value} is no number that can be stored or ordered. Give a finite number, or null.")
        if abs(value) >= 1e126 or 0 < abs(value) < 1e-130:
            raise _out_of_range(value)
        return float(value) + 0.0  # -0.0 + 0.0 is 0.0

    def _to_exact_float(self, value: int) -> float:
        # A rounded bound would include or exclude other records than the caller requested.
        if value.bit_length() <= _INT_BITS and float(value) == value:
            return float(value)
        raise InvalidValue(
            f"{short_repr(value)} is an int that no float represents exactly. Give a float, or declare Decimal."
        )

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

    def _load(self, stored: object) -> float:
        # Not `_to_exact_float`: the stored decimal is the shortest text of a float, which need not equal it exactly.
        return self._check(float(Decimal(self._check_number(stored))))

    def _format(self, value: float) -> str:
        return repr(value)

    def _parse(self, text: str) -> float:
        match = _NUMBER_PATTERN.fullmatch(text)
        if not match:
            raise self._invalid_text(text, "2.5 or 1e-9")
        value = float(text)
        is_underflow = value == 0 and match["digits"].strip("0.")
        if is_underflow:
            raise _out_of_range(text)
        return self._check(value)


class DecimalNumber(_Number[Decimal]):
    """`Decimal`: sign, biased exponent and 38 digits; the complement for negative numbers."""

    name = "decimal"

    def _check(self, value: object) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise self._wrong_type(value, "a Decimal")
        if isinstance(value, int):
            if value.bit_length() > _INT_BITS:
                raise _out_of_range(value)
            value = Decimal(value)
        if not value.is_finite():
            raise InvalidValue(f"{value} is no number that can be stored or ordered. Give a finite Decimal, or null.")
        if not value:
            return Decimal(0)
        if not _MIN_EXPONENT <= value.adjusted() <= _MAX_EXPONENT:
            raise _out_of_range(value)
        return self._canonical(value)

    def _canonical(self, value: Decimal) -> Decimal:
        digits = "".join(map(str, value.as_tuple().digits)).strip("0")
        if len(digits) > _DECIMAL_DIGITS:
            raise InvalidValue(
                f"{short_repr(value)} has {len(digits)} digits. Give a Decimal of at most {_DECIMAL_DIGITS}."
            )
        exponent = value.adjusted() - len(digits) + 1
        if exponent > 0 and value.adjusted() < _DECIMAL_DIGITS:  # Keep 100 as 100, not as 1E+2.
            digits, exponent = digits + "0" * exponent, 0
        return Decimal((int(value.is_signed()), tuple(map(int, digits)), exponent))

    def _encode(self, value: Decimal) -> str:
        if not value:
            return "1" + "0" * (3 + _DECIMAL_DIGITS)
        digits = "".join(map(str, value.as_tuple().digits)).strip("0")
        magnitude = f"{value.adjusted() + _EXPONENT_BIAS:03d}{digits:0<{_DECIMAL_DIGITS}}"
        return "0" + self.complement(magnitude) if value.is_signed() else "1" + magnitude

    def _decode(self, text: str) -> Decimal:
        sign, magnitude = text[0], text[1:]
        if sign == "0":
            magnitude = self.complement(magnitude)
        digits = magnitude[3:].rstrip("0")
        if not digits:
            return Decimal(0)
        exponent = int(magnitude[:3]) - _EXPONENT_BIAS - len(digits) + 1
        return self._check(Decimal((int(sign == "0"), tuple(map(int, digits)), exponent)))

    def _store(self, value: Decimal) -> StoredScalar:
        return value

    def _load(self, stored: object) -> Decimal:
        return self._check(self._check_number(stored))

    def _format(self, value: Decimal) -> str:
        return str(value)

    def _parse(self, text: str) -> Decimal:
        if not _NUMBER_PATTERN.fullmatch(text):
            raise self._invalid_text(text, "2.50")
        try:
            value = Decimal(text)
        except ArithmeticError:
            raise _out_of_range(text) from None
        return self._check(value)


def _out_of_range(value: float | Decimal | str) -> InvalidValue:
    return InvalidValue(f"{short_repr(value)} is outside the range of stored numbers. Give {_NUMBER_RANGE}.")
