"""The registry of codecs: every codec has all parts of a scalar, and they agree with each other."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from graphql_api.codecs import CODECS, Codec, DecimalNumber, Int64, RecordKey, RecordKeySeal, Text, codec_of_type
from graphql_api.codecs.registry import CODEC_BY_TAG, index_by_type
from graphql_api.codecs.scalar_codec import GraphQLScalar, Samples
from graphql_api.errors import InvalidValue
from graphql_api.model import parse_annotation
from graphql_api.ops.record_capacity import typical_value
from graphql_api.schema.types.graphql_scalars import SCALAR_MAP, graphql_scalar_name, strawberry_annotation
from tests.laws.key_strategies import VALUES

PARTS = ("name", "python_type", "graphql", "key_tag", "samples", "_encode")
"""what each codec must define"""


@dataclass(frozen=True, order=True)
class Month:
    """A type without a registered codec."""

    year: int
    number: int


class MonthCodec(Codec[Month]):
    """A complete codec, which is not registered."""

    name = "month"
    python_type = Month
    graphql = GraphQLScalar("Month", "A month, such as `2026-01`.")
    key_tag = "m"
    samples = Samples(Month(2024, 1), Month(2024, 12), typical=Month(2026, 1), unused=Month(2099, 12))

    def _format(self, value: Month) -> str:
        return f"{value.year:04d}-{value.number:02d}"

    _encode = _format

    def _parse(self, text: str) -> Month:
        year, _, number = text.partition("-")
        return Month(int(year), int(number))


def _sample_values(codec: Codec[Any]) -> list[Any]:
    samples = codec.samples
    values = [samples.low, samples.high, samples.typical, samples.unused, codec.sample("a"), codec.sample("b")]
    return [value for value in values if value is not None]


every_codec = pytest.mark.parametrize("codec", [*CODECS, MonthCodec()], ids=lambda codec: codec.name)
every_registered_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)


# --- parts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", PARTS)
def test_codec_without_a_part_is_refused(part: str) -> None:
    """A codec that lacks a part cannot be created; the message names the part."""
    parts = {name: value for name, value in vars(MonthCodec).items() if name != part}
    incomplete = type("Incomplete", (Codec,), parts)
    with pytest.raises(TypeError, match=rf"abstract class Incomplete .*\b{part}\b"):
        incomplete()


@every_codec
def test_type_of_samples(codec: Codec[Any]) -> None:
    """Samples have the Python type of the codec, and are valid and canonical."""
    for value in _sample_values(codec):
        assert codec.check(value) == value
        assert type(codec.check(value)) is codec.python_type


@every_codec
def test_wrong_types_are_refused(codec: Codec[Any]) -> None:
    """A value of another type is refused with the name of the codec."""
    with pytest.raises(InvalidValue, match=f"^object given where {codec.name} is declared"):
        codec.check(object())
    with pytest.raises(InvalidValue):
        codec.load(None)


@every_codec
def test_samples_can_be_encoded(codec: Codec[Any]) -> None:
    """Samples survive keys, storage, text, JSON and nested values."""
    for value in _sample_values(codec):
        assert codec.decode(codec.encode(value)) == value
        assert codec.load(codec.store(value)) == value
        assert codec.parse(codec.format(value)) == value
        assert codec.from_json(codec.to_json(value)) == value
        assert codec.store_nested(value) in (codec.store(value), codec.format(value))


@every_codec
def test_stored_type(codec: Codec[Any]) -> None:
    """Stored values have the declared type."""
    types = {bool: "boolean", str: "text"}
    assert {types.get(type(codec.store(value)), "number") for value in _sample_values(codec)} == {codec.stored_type}


@every_codec
def test_order_of_samples(codec: Codec[Any]) -> None:
    """Encoded samples sort like the samples. Complements of fixed width sort in reverse order."""
    samples = sorted(set(_sample_values(codec)))
    encoded = [codec.encode(value) for value in samples]
    assert encoded == sorted(encoded, key=str.encode)
    if codec.is_ordered:
        assert codec.samples.low < codec.samples.high
    if codec.fixed_width:
        assert len({*map(len, encoded)}) == 1
        assert all(codec.complement(low) > codec.complement(high) for low, high in pairwise(encoded))
        assert [codec.complement(codec.complement(text)) for text in encoded] == encoded


@every_codec
def test_stored_order(codec: Codec[Any]) -> None:
    """If the codec declares that stored values sort like the values, they do."""
    samples = sorted(set(_sample_values(codec)))
    if codec.stores_in_order:
        assert [*map(codec.store, samples)] == sorted(map(codec.store, samples))


@every_codec
def test_examples_can_be_parsed(codec: Codec[Any]) -> None:
    """The examples of error messages are valid texts."""
    for text in codec.example.split(" or "):
        codec.parse(text)


@every_codec
def test_invalid_texts_name_the_codec_and_an_example(codec: Codec[Any]) -> None:
    """A text that no value has is refused with an example. Without an example of its own, it is the typical sample."""
    if codec.kind != "text":
        with pytest.raises(InvalidValue) as caught:
            codec.parse("~")
        assert caught.value.message == f"'~' is no {codec.name}. Write it like {codec.example}."
    assert MonthCodec().example == "2026-01"


@every_codec
def test_other_sample(codec: Codec[Any]) -> None:
    """Another sample differs from the value, and is valid."""
    for value in _sample_values(codec):
        other = codec.other_sample(value)
        assert other is None or codec.check(other) != value


@every_codec
def test_kind_decides_on_moments(codec: Codec[Any]) -> None:
    """Exactly the codecs of times have a value for each moment."""
    moment = codec.at(1_767_225_600.0)
    assert (moment is not None) == (codec.kind == "time")
    assert moment is None or codec.check(moment) == moment


# --- use of the registry ---------------------------------------------------------------------------------------


@every_registered_codec
def test_record_keys(codec: Codec[Any]) -> None:
    """Samples survive record keys, unless the type cannot identify records."""
    seal = RecordKeySeal(bytes(32))
    for value in _sample_values(codec):
        part = codec.to_key_part(value)
        if codec.key_tag is None:
            with pytest.raises(ValueError, match="can be no part of a record key"):
                seal.seal(RecordKey("thing", (part,)))
        else:
            opened = seal.open(seal.seal(RecordKey("thing", (part,))), tenant=None).ids[0]
            assert codec.from_key_part(opened) == value
            assert type(opened) is type(part)


@every_registered_codec
def test_annotations(codec: Codec[Any]) -> None:
    """The first codec of a Python type is the codec of its plain annotation."""
    plain = codec_of_type(codec.python_type)
    assert plain == parse_annotation(codec.python_type).codec
    assert plain == next(one for one in CODECS if one.python_type is codec.python_type)


@every_registered_codec
def test_graphql_scalars(codec: Codec[Any]) -> None:
    """Each codec has a GraphQL scalar with a description, unless GraphQL defines it."""
    assert codec.graphql is not None
    assert graphql_scalar_name(codec, str) == codec.graphql.name
    annotation = strawberry_annotation(codec, str)
    if codec.graphql.description is None:
        assert annotation is {"String": str, "Int": int, "Float": float, "Boolean": bool}[codec.graphql.name]
        return
    assert SCALAR_MAP[annotation].name == codec.graphql.name
    assert SCALAR_MAP[annotation].description == codec.graphql.description
    if codec == codec_of_type(codec.python_type) and codec.python_type is not int:
        assert SCALAR_MAP[codec.python_type] is SCALAR_MAP[annotation]


@every_registered_codec
def test_typical_values(codec: Codec[Any]) -> None:
    """Capacity estimates use the typical sample."""
    plain = codec_of_type(codec.python_type)
    assert plain is not None
    assert typical_value(codec.python_type) == plain.samples.typical


def test_every_codec_is_tested() -> None:
    """The laws of keys draw values of every registered codec."""
    assert {*CODECS} <= {*VALUES}


# --- uniqueness ------------------------------------------------------------------------------------------------


def test_names_and_tags_are_frozen() -> None:
    """Names are part of page tokens, and tags are part of record keys: they never change."""
    known = {"s": "text", "i": "int64", "n": "decimal", "u": "uuid", "d": "date", "t": "datetime", "p": "duration"}
    assert {tag: CODEC_BY_TAG[tag].name for tag in known} == known


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "text"}, "^Two codecs have the name text: rename one of them\\.$"),
        ({"key_tag": "i"}, "^Two codecs have the key_tag i: rename one of them\\.$"),
        ({"graphql": GraphQLScalar("UUID", "Another.")}, "^Two codecs have the GraphQL name UUID: rename"),
        ({"python_type": str}, "^Text\\(\\) and Copy\\(\\) have one Python type and different key_tags: use one\\.$"),
        ({"key_tag": "aa"}, "^Copy\\(\\) has the key_tag 'aa': use one ASCII character\\.$"),
    ],
    ids=str,
)
def test_repeated_parts_are_refused(changes: dict[str, Any], message: str) -> None:
    """Codecs that share what must be unique are refused with the name of the part."""
    copy = type("Copy", (MonthCodec,), changes)
    with pytest.raises(ValueError, match=message):
        index_by_type([*CODECS, copy()])


def test_another_codec_can_be_registered() -> None:
    """A complete codec with parts of its own is accepted."""
    assert index_by_type([*CODECS, MonthCodec()])[Month] == MonthCodec()
    assert index_by_type([Text(), Int64(), DecimalNumber()]).keys() == {str, int, DecimalNumber.python_type}


@pytest.mark.parametrize("kind", [object, list, Month, list[str], "str", None], ids=str)
def test_other_types_have_no_codec(kind: Any) -> None:
    """Types that are no scalars have no codec."""
    assert codec_of_type(kind) is None
