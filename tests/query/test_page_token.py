"""The payload of page tokens: every payload that is packed can be unpacked, and stays small."""

from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphql_api.codecs import DecimalNumber
from graphql_api.errors import InvalidToken, InvalidValue
from graphql_api.query.page_token import (
    PAYLOAD_FORMAT,
    Cursor,
    LaggingShards,
    PageToken,
    RecordPosition,
    digest,
    pack,
    short_description,
    unpack,
)
from graphql_api.query.token_seal import MAX_TOKEN_CHARACTERS, TokenSeal
from tests.laws.key_strategies import texts
from tests.support.run_depth import examples

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
SHARDS = 150
LONGEST_DESCRIPTION = short_description("w" * 100)
BASE = PageToken(
    issued_hour=490_000,
    generations=1,
    index_digest=digest("index"),
    search_digest=digest("search"),
    description=LONGEST_DESCRIPTION,
    cursor=Cursor(0),
)

ordinals = st.integers(0, 36**5)
values = st.one_of(texts(min_size=1, max_size=300), st.text(min_size=1, max_size=50))
decimals = st.decimals(allow_nan=False, allow_infinity=False)


@st.composite
def numbers(draw: st.DrawFn) -> int | Decimal:
    """Draws the numbers that a raw index may be sorted by."""
    drawn = draw(st.integers(-(2**63), 2**63 - 1) | decimals)
    try:
        return DecimalNumber().check(drawn)
    except InvalidValue:
        assume(False)
        raise


records = st.builds(RecordPosition, ordinals, values)
positions = st.one_of(
    st.integers(0, 20).map(Cursor),
    st.builds(Cursor, st.integers(0, 20), values, ordinals, st.none()),
    st.builds(Cursor, st.integers(0, 20), values, ordinals, records),
    st.builds(Cursor, st.integers(0, 20), numbers(), ordinals, records),
)
lagging = st.builds(
    LaggingShards,
    positions,
    st.lists(ordinals, min_size=1, unique=True, max_size=20).map(lambda found: tuple(sorted(found))),
)
tokens = st.builds(
    PageToken,
    issued_hour=st.integers(0, 2**24 - 1),
    generations=st.integers(1, 1_000),
    index_digest=st.binary(min_size=8, max_size=8),
    search_digest=st.binary(min_size=8, max_size=8),
    description=st.text().map(short_description),
    cursor=positions,
    selectivity_hint=st.integers(0, 255),
    lagging=st.lists(lagging, max_size=8).map(tuple),
)


def _seal_token(position: Cursor, **changes: object) -> str:
    return SEAL.seal(pack(BASE._replace(cursor=position, **changes)), None, None)  # type: ignore[arg-type]


# --- round trip ------------------------------------------------------------------------------------------------


@examples(500)
@given(token=tokens)
def test_unpacking_reverses_packing(token: PageToken) -> None:
    """Unpacking reverses packing, including hints, lagging shards, numbers and positions on raw indexes."""
    assert unpack(pack(token), "after") == token


@examples(200)
@given(position=positions)
def test_every_sealed_token_opens(position: Cursor) -> None:
    """The token of any position that the longest keys allow can be opened again."""
    token = _seal_token(position)
    assert len(token) <= MAX_TOKEN_CHARACTERS
    assert unpack(SEAL.open(token, None, None, "after"), "after").cursor == position


def test_largest_position_fits_into_a_token() -> None:
    """A token with the longest value and the longest key is far below the maximum length."""
    largest = Cursor(0, "\U0010ffff" * 256, 36**5, RecordPosition(36**5, "\U0010ffff" * 256))
    token = _seal_token(largest, generations=10_000, selectivity_hint=255)
    assert len(token) < MAX_TOKEN_CHARACTERS / 2
    assert unpack(SEAL.open(token, None, None, "after"), "after").cursor == largest


def test_a_gap_differs_from_every_record_position() -> None:
    """The gap before an index is another position than any of its records."""
    gap = unpack(pack(BASE._replace(cursor=Cursor(1))), "after").cursor
    assert gap.value is None
    assert gap == Cursor(1) != Cursor(1, "a")


@given(number=numbers(), record=records)
def test_numbers_are_unpacked_as_numbers(number: int | Decimal, record: RecordPosition) -> None:
    """Numbers are unpacked as equal numbers, and texts that look like numbers as texts."""
    token = BASE._replace(cursor=Cursor(0, number, 1, record))
    found = unpack(pack(token), "after").cursor.value
    assert found == number
    assert not isinstance(found, str)
    as_text = unpack(pack(BASE._replace(cursor=Cursor(0, str(number), 1, record))), "after").cursor.value
    assert as_text == str(number)


# --- invalid payloads ------------------------------------------------------------------------------------------


def _assert_unpacked_or_rejected(payload: bytes) -> None:
    with suppress(InvalidToken):
        assert unpack(payload, "after").cursor.index >= 0


@examples(500)
@given(payload=st.binary(max_size=200))
def test_random_bytes_are_unpacked_or_rejected(payload: bytes) -> None:
    """Random bytes are unpacked or raise `InvalidToken`, and no other error."""
    _assert_unpacked_or_rejected(payload)


@examples(300)
@given(token=tokens, data=st.data())
def test_damaged_payloads_are_unpacked_or_rejected(token: PageToken, data: st.DataObject) -> None:
    """A payload with changed, removed or added bytes is unpacked or raises `InvalidToken`, and no other error."""
    payload = bytearray(pack(token))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payload)))
        payload[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    _assert_unpacked_or_rejected(bytes(payload))


@pytest.mark.parametrize("number", ["NaN", "sNaN", "Infinity", "-Infinity", "1E+999999", "9" * 300, "x", ""])
def test_numbers_that_no_index_holds_are_rejected(number: str) -> None:
    """A number that no engine can sort by is rejected without being evaluated."""
    payload = pack(BASE._replace(cursor=Cursor(0, Decimal(1234567), 1, RecordPosition(1, "key"))))
    assert payload.count(b"\x071234567") == 1
    length = len(number).to_bytes(1, "big") if len(number) < 128 else b"\xac\x02"
    with pytest.raises(InvalidToken):
        unpack(payload.replace(b"\x071234567", length + number.encode()), "after")


def test_other_payload_formats_are_rejected() -> None:
    """A payload in another format is rejected as from another release."""
    payload = pack(BASE._replace(cursor=Cursor(0, "a", 1)))
    for form in set(range(64)) - {PAYLOAD_FORMAT}:
        with pytest.raises(InvalidToken, match=r"another release.*omit it to start from the first page") as caught:
            unpack(bytes((form,)) + payload[1:], "after")
        assert caught.value.argument == "after"


def test_bytes_after_the_end_are_rejected() -> None:
    """Bytes after the end of a payload are rejected."""
    with pytest.raises(InvalidToken):
        unpack(pack(BASE) + b"\x00", "after")


# --- size ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "most"), [(53, 182), (100, 244), (1020, 1471)])
@pytest.mark.parametrize("ordinal", [0, 1, 127, 128, SHARDS])
def test_token_sizes_keep_the_documented_limits(size: int, most: int, ordinal: int) -> None:
    """In any of 150 shards, with the longest description, a token is as short as docs/reference/tokens.md promises."""
    for generations in (1, 100):
        assert len(_seal_token(Cursor(0, "v" * size, ordinal), generations=generations)) <= most


def test_position_in_a_second_index_stays_below_250_characters() -> None:
    """A position of up to 100 bytes in the second index of 150 shards takes at most 250 characters."""
    assert all(len(_seal_token(Cursor(1, "v" * size, SHARDS), selectivity_hint=9)) <= 250 for size in range(1, 101))


def test_positions_on_raw_indexes_stay_small() -> None:
    """On a raw index the token also contains the key of the record, but nothing of other shards."""
    raw = Cursor(0, "+41791234567", SHARDS, RecordPosition(SHARDS, "userId#wf5yU_5f63gqauSOLpP5O"))
    number = Cursor(0, 1_700_000_000_000, SHARDS, RecordPosition(SHARDS, "userId#wf5yU_5f63gqauSOLpP5O"))
    assert len(_seal_token(raw)) <= 182
    assert len(_seal_token(number)) <= 182


# --- digests and descriptions ----------------------------------------------------------------------------------


def test_digests_differ_with_every_part() -> None:
    """A digest depends on every part and its boundaries, and on nothing else."""
    parts = [
        ("a", "b"),
        ("ab",),
        ("a", "b", ""),
        ("b", "a"),
        (("a", "b"),),
        ("a", None),
        ("a", "None"),
        ("a", 1),
        ("a", "1"),
    ]
    assert len({digest(*some) for some in parts}) == len(parts)
    assert digest("a", 1, True) == digest("a", 1, True)
    assert {len(digest(*some)) for some in parts} == {8}


def test_digests_accept_lone_surrogates() -> None:
    """Texts with lone surrogates have a digest."""
    assert digest("\ud800") != digest("\ud801")


@given(description=texts(max_size=60) | st.text(max_size=60))
def test_long_descriptions_are_cut_visibly(description: str) -> None:
    """Descriptions of up to 40 bytes stay unchanged; longer ones are cut, with a visible mark."""
    short = short_description(description)
    assert len(short.encode()) <= 40
    if len(description.encode()) <= 40:
        assert short == description
    else:
        assert short.endswith("…")
        assert description.startswith(short[:-1])
        assert len(short.encode()) > 40 - 4
