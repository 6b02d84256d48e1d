"""Base class of scalar codecs: everything that the package knows of one scalar type."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Generic, Literal, TypeVar

from graphql_api.errors import InvalidValue

T = TypeVar("T")

StoredScalar = str | int | Decimal | bool
"""Value of a scalar in a stored record."""

StoredType = Literal["text", "number", "boolean", "mixed"]
ScalarKind = Literal["text", "integer", "number", "time", "other"]

DIGIT_COMPLEMENT = str.maketrans("0123456789", "9876543210")
HEX_COMPLEMENT = str.maketrans("0123456789abcdef", "fedcba9876543210")


def short_repr(value: Any) -> str:
    """Return the repr of a value for an error message, cut to a limited length."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print an int of more than 4,300 digits.
        return "the value"
    return text if len(text) <= 60 else f"{text[:60]}…"


@dataclass(frozen=True, slots=True)
class GraphQLScalar:
    """The GraphQL scalar of a codec."""

    name: str
    description: str | None = None
    """None for a scalar that is built into GraphQL"""
    specified_by_url: str | None = None
    is_json_native: bool = False
    """JSON holds the value itself. Otherwise JSON holds its text form, and inputs accept exact numbers too."""


@dataclass(frozen=True, slots=True)
class Samples(Generic[T]):
    """Sample values of a type, for sample operations and capacity estimates."""

    low: T
    high: T
    """greater than `low`, if values have an order: example ranges lie between them"""
    typical: T
    """a value of typical size"""
    unused: T | None = None
    """a value that stored records hardly ever have; None if the type has too few values"""


@dataclass(frozen=True)
class Codec(ABC, Generic[T]):
    """Validate, encode, store and format the values of one scalar type.

    Equal values have equal encodings. The UTF-8 byte order of encoded values is the order of the values.
    A subclass defines everything abstract, and overrides the defaults that do not fit its type.
    Then one line in `registry.py` makes the scalar known to all packages.
    """

    # --- parts of every codec ----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in messages. It never changes: page tokens are bound to it."""

    @property
    @abstractmethod
    def python_type(self) -> type:
        """Type of the values. The first codec of a type is the codec of plain annotations."""

    @property
    @abstractmethod
    def graphql(self) -> GraphQLScalar | None:
        """The GraphQL scalar; None for enums."""

    @property
    @abstractmethod
    def key_tag(self) -> str | None:
        """Character that marks the Python type in record keys; None if values cannot identify records."""

    @property
    @abstractmethod
    def samples(self) -> Samples[T]:
        """Sample values."""

    @abstractmethod
    def _encode(self, value: T) -> str:
        """Encode a checked value, so that encoded values sort by their bytes as the values do."""

    # --- properties of the type, with a default ----------------------------------------------------------------

    kind: ClassVar[ScalarKind] = "other"
    """`text` supports prefixes, `integer` counts, and values of the kind `time` are moments"""
    is_ordered: ClassVar[bool] = True
    """searches and filters accept ranges of values"""
    step: ClassVar[Any] = None
    """difference between a value and another sample value"""
    generate: ClassVar["staticmethod[[], Any] | None"] = None
    """generates an id"""
    excluded_types: ClassVar[tuple[type, ...]] = ()
    """subtypes of the Python type that are other scalars"""

    @property
    def expected(self) -> str:
        """The Python type in error messages."""
        label = self.python_type.__name__
        return f"{'an' if label[0] in 'AEIOaeio' else 'a'} {label}"

    @property
    def cardinality(self) -> int | None:
        """Number of possible values, if there are only a few."""
        return None

    # --- encoded values ----------------------------------------------------------------------------------------

    fixed_width: ClassVar[bool] = True
    """all encoded values have the same length, so `desc()` can reverse their order"""
    complement_table: ClassVar[dict[int, int]] = DIGIT_COMPLEMENT
    """translates each digit of an encoded value for descending order"""

    def check(self, value: object) -> T:
        """Return the value in canonical form. Raise `InvalidValue` if its type is wrong or it cannot be stored."""
        if type(value) is not self.python_type and (
            not isinstance(value, self.python_type) or isinstance(value, self.excluded_types)
        ):
            raise self._wrong_type(value, self.expected)
        return value  # type: ignore[return-value]

    def encode(self, value: T) -> str:
        """Encode the value for a key. The encoding preserves the order of values."""
        return self._encode(self.check(value))

    def _decode(self, text: str) -> T:
        """Decode text that may be malformed: return any value then, or raise an error that `decode` catches."""
        return self.parse(text)

    def decode(self, text: str) -> T:
        """Decode a value from a key; the inverse of `encode`."""
        try:
            value = self._decode(text)
            if self.encode(value) == text:
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

    # --- stored values -----------------------------------------------------------------------------------------

    stored_label: ClassVar[str] = "a stored text"
    """the stored value in error messages"""
    json_types: ClassVar[frozenset[type]] = frozenset()
    """types of stored values that JSON holds as they are stored: `column_to_json` returns such a column itself"""
    stores_canonical_form: ClassVar[bool] = False
    """Equal values have one stored form, also if other writers stored them. Engines then compare stored values."""
    stores_in_order: ClassVar[bool] = False
    """the order of stored values is the order of the values, so that filters narrow ranges of raw indexes"""

    @property
    def stored_type(self) -> StoredType:
        """Type of stored values. Raw indexes order numbers by value."""
        return "text"

    def _store(self, value: T) -> StoredScalar:
        return self._format(value)

    def store(self, value: T) -> StoredScalar:
        """Convert the value to its stored form."""
        return self._store(self.check(value))

    def load(self, stored: object) -> T:
        """Convert a stored value back; the inverse of `store`."""
        if not isinstance(stored, str):
            raise self._wrong_type(stored, self.stored_label)
        return self.parse(stored)

    def store_nested(self, value: T) -> StoredScalar:
        """Convert the value to a form that pydantic can validate, for models, lists and maps."""
        return self.store(value)

    # --- texts and JSON ----------------------------------------------------------------------------------------

    text_pattern: ClassVar[re.Pattern[str] | None] = None
    """matches the texts that may be parsed; None if `_parse` refuses all others"""

    @property
    def example(self) -> str:
        """The text form of a value, for error messages."""
        return self.format(self.samples.typical)

    def _format(self, value: T) -> str:
        return str(value)

    def format(self, value: T) -> str:
        """Format the value as text, as in composite ids."""
        return self._format(self.check(value))

    def _parse(self, text: str) -> T:
        value: T = self.python_type(text)
        return value

    def parse(self, text: str) -> T:
        """Parse the text form of a value; the inverse of `format`."""
        if self.text_pattern is None or self.text_pattern.fullmatch(text):
            try:
                return self.check(self._parse(text))
            except ValueError:
                pass
        raise InvalidValue(f"{short_repr(text)} is no {self.name}. Write it like {self.example}.")

    def to_json(self, value: T) -> object:
        """Convert the value to JSON."""
        return value if self._is_json_native else self.format(value)

    def column_to_json(self, stored: Sequence[object]) -> Sequence[object]:
        """Convert the stored values of one property of several records to JSON. None stays None.

        The result is that of `load` and `to_json`. Codecs that convert all values at once override it.
        """
        return [None if one is None else self.to_json(self.load(one)) for one in stored]

    def load_column(self, stored: Sequence[object]) -> Sequence[T | None]:
        """Convert the stored values of one property of several records back: `load` of each. None stays None.

        Codecs that convert all values at once override it.
        """
        return [None if one is None else self.load(one) for one in stored]

    def from_json(self, value: object) -> T:
        """Convert a JSON value, or the value of a literal."""
        if isinstance(value, str) and not self._is_json_native:
            return self.parse(value)
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            value = self._exact_number(value)
        return self.check(value)

    @property
    def _is_json_native(self) -> bool:
        return self.graphql is not None and self.graphql.is_json_native

    def _exact_number(self, number: float | Decimal) -> object:
        """Convert a number of JSON to the type of the codec, if no digit is lost."""
        return number

    def literal(self, value: T) -> str:
        """Format the value as a literal of a GraphQL document."""
        is_native = self.python_type in (bool, int, float)
        return json.dumps(value if is_native else self.format(value), ensure_ascii=False)

    def display(self, value: T) -> str:
        """Format the value for a table in a terminal."""
        return str(value)

    def pack(self, value: T) -> str:
        """Convert a part of a record key to text."""
        return self.format(value)

    def unpack(self, text: str) -> T:
        """Convert a part of a record key back; the inverse of `pack`."""
        return self._parse(text)

    def to_key_part(self, value: T) -> Any:
        """Return the part of a record key that represents the value."""
        return self.check(value)

    def from_key_part(self, part: Any) -> T:
        """Return the value of a part of a record key; the inverse of `to_key_part`."""
        return self.check(part)

    def at(self, seconds: float) -> T | None:  # noqa: ARG002
        """Return the value of a moment, in seconds since 1970; None if the type has no moments."""
        return None

    def first_since(self, moment: datetime) -> T:
        """Return the first value at or after a moment."""
        raise NotImplementedError(f"{self.name} has no moments")

    def sample(self, seed: str, *, unused: bool = False) -> T | None:  # noqa: ARG002
        """Return a sample value, or one that is not stored yet. Types with many values derive it from the seed."""
        return self.samples.unused if unused else self.samples.low

    def other_sample(self, value: T) -> T | None:
        """Return a value different from this one; None if there is none."""
        if self.step is not None:
            return value + self.step  # type: ignore[no-any-return]
        return next((one for one in (self.samples.low, self.samples.high) if one != value), None)

    @property
    def example_range(self) -> tuple[str, str]:
        """Literals of two bounds between which most values lie."""
        return self.literal(self.samples.low), self.literal(self.samples.high)

    def _wrong_type(self, value: object, expected: str) -> InvalidValue:
        given = "null" if value is None else type(value).__name__
        return InvalidValue(f"{given} given where {self.name} is declared. Give {expected}.")


class SortableTextCodec(Codec[T]):
    """A scalar whose text form sorts as its values do: keys, records, texts and JSON hold the same text."""

    stores_in_order = True

    def _encode(self, value: T) -> str:
        return self._format(value)
