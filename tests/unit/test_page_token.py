"""What a page token says, as octets: it comes back whole, stays small, and never says what cannot be read again."""

from contextlib import suppress
from dataclasses import replace
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
from tests.depth import examples
from tests.laws.strategies import texts

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
SHARDS = 150
MAX_WORDS_LENGTH = short_description("w" * 100)
BASE = PageToken(
    issued_hour=490_000,
    generations=1,
    index_digest=digest("index"),
    search_digest=digest("search"),
    description=MAX_WORDS_LENGTH,
    cursor=Cursor(0),
)

ordinals = st.integers(0, 36**5)
values = st.one_of(texts(min_size=1, max_size=300), st.text(min_size=1, max_size=50))
decimals = st.decimals(allow_nan=False, allow_infinity=False)


@st.composite
def numbers(draw: st.DrawFn) -> int | Decimal:
    """What a raw index may be ordered by."""
    drawn = draw(st.integers(-(2**63), 2**63 - 1) | decimals)
    try:
        return DecimalNumber().check(drawn)
    except InvalidValue:
        assume(False)
        raise


records = st.builds(RecordPosition, ordinals, values)
places = st.one_of(
    st.builds(Cursor, st.integers(0, 20)),
    st.builds(Cursor, st.integers(0, 20), values, ordinals),
    st.builds(Cursor, st.integers(0, 20), values, ordinals, records),
    st.builds(Cursor, st.integers(0, 20), numbers(), ordinals, records),
)
lagging = st.builds(
    LaggingShards,
    places,
    st.lists(ordinals, min_size=1, unique=True, max_size=20).map(lambda found: tuple(sorted(found))),
)
tokens = st.builds(
    PageToken,
    issued_hour=st.integers(0, 2**24 - 1),
    generations=st.integers(1, 1_000),
    index_digest=st.binary(min_size=8, max_size=8),
    search_digest=st.binary(min_size=8, max_size=8),
    description=st.text().map(short_description),
    cursor=places,
    selectivity_hint=st.integers(0, 255),
    lagging=st.lists(lagging, max_size=8).map(tuple),
)


def _sealed(place: Cursor, **changes: object) -> str:
    return SEAL.seal(pack(replace(BASE, cursor=place, **changes)), None, None)  # type: ignore[arg-type]


# --- there and back --------------------------------------------------------------------------------------------


@examples(500)
@given(token=tokens)
def test_tokens_come_back(token: PageToken) -> None:
    """Whatever a token says, its hint, lagging shards, numbers and raw places included, can be read again."""
    assert unpack(pack(token), "after") == token


@examples(200)
@given(place=places)
def test_no_token_is_made_that_would_be_refused(place: Cursor) -> None:
    """A place that the longest keys allow gives a token that opens again."""
    token = _sealed(place)
    assert len(token) <= MAX_TOKEN_CHARACTERS
    assert unpack(SEAL.open(token, None, None, "after"), "after").cursor == place


def test_largest_place_is_accepted() -> None:
    """The longest value beside the longest key of the last shard is still far from what is looked at."""
    largest = Cursor(0, "\U0010ffff" * 256, 36**5, RecordPosition(36**5, "\U0010ffff" * 256))
    token = _sealed(largest, generations=10_000, selectivity_hint=255)
    assert len(token) < MAX_TOKEN_CHARACTERS / 2
    assert unpack(SEAL.open(token, None, None, "after"), "after").cursor == largest


def test_gap_and_beginning_differ_from_records() -> None:
    """The gap before an index is another place than any record of it."""
    gap = unpack(pack(replace(BASE, cursor=Cursor(1))), "after").cursor
    assert gap.value is None
    assert gap == Cursor(1) != Cursor(1, "a")


@given(number=numbers(), record=records)
def test_numbers_come_back_as_numbers(number: int | Decimal, record: RecordPosition) -> None:
    """A number is the same number afterwards, also beside a text that reads like it."""
    token = replace(BASE, cursor=Cursor(0, number, 1, record))
    found = unpack(pack(token), "after").cursor.value
    assert found == number
    assert not isinstance(found, str)
    as_text = unpack(pack(replace(BASE, cursor=Cursor(0, str(number), 1, record))), "after").cursor.value
    assert as_text == str(number)


# --- what cannot be read ---------------------------------------------------------------------------------------


def _is_refused_or_read(payload: bytes) -> None:
    with suppress(InvalidToken):
        assert unpack(payload, "after").cursor.index >= 0


@examples(500)
@given(payload=st.binary(max_size=200))
def test_random_octets_are_read_or_refused(payload: bytes) -> None:
    """Octets that nobody packed give a token or `InvalidToken`, and nothing else."""
    _is_refused_or_read(payload)


@examples(300)
@given(token=tokens, data=st.data())
def test_damaged_octets_are_read_or_refused(token: PageToken, data: st.DataObject) -> None:
    """A payload with octets changed, cut or added gives a token or `InvalidToken`, and nothing else."""
    payload = bytearray(pack(token))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payload)))
        payload[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    _is_refused_or_read(bytes(payload))


@pytest.mark.parametrize("number", ["NaN", "sNaN", "Infinity", "-Infinity", "1E+999999", "9" * 300, "x", ""])
def test_numbers_of_no_index_are_refused(number: str) -> None:
    """A number that no engine orders is refused, and not worked out."""
    payload = pack(replace(BASE, cursor=Cursor(0, Decimal(1234567), 1, RecordPosition(1, "key"))))
    assert payload.count(b"\x071234567") == 1
    length = len(number).to_bytes(1, "big") if len(number) < 128 else b"\xac\x02"
    with pytest.raises(InvalidToken):
        unpack(payload.replace(b"\x071234567", length + number.encode()), "after")


def test_other_forms_are_refused() -> None:
    """A payload of another form is said to come from another release."""
    payload = pack(replace(BASE, cursor=Cursor(0, "a", 1)))
    for form in set(range(64)) - {PAYLOAD_FORMAT}:
        with pytest.raises(InvalidToken, match=r"another release.*omit it to start from the first page") as caught:
            unpack(bytes((form,)) + payload[1:], "after")
        assert caught.value.argument == "after"


def test_rest_behind_a_gap_is_refused() -> None:
    """Octets behind the end of a token are nothing that was packed."""
    with pytest.raises(InvalidToken):
        unpack(pack(BASE) + b"\x00", "after")


# --- size ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("octets", "most"), [(53, 182), (100, 244), (1020, 1471)])
@pytest.mark.parametrize("ordinal", [0, 1, 127, 128, SHARDS])
def test_sizes_are_kept(octets: int, most: int, ordinal: int) -> None:
    """With the longest words, in any of 150 shards, a token is as short as docs/tokens.md promises."""
    for generations in (1, 100):
        assert len(_sealed(Cursor(0, "v" * octets, ordinal), generations=generations)) <= most


def test_place_of_two_indexes_and_many_shards_stays_below_250() -> None:
    """A place of up to 100 octets in the second index of 150 shards takes at most 250 characters."""
    assert all(len(_sealed(Cursor(1, "v" * octets, SHARDS), selectivity_hint=9)) <= 250 for octets in range(1, 101))


def test_raw_places_stay_small() -> None:
    """Where rows tie, the record's own key comes on top, and still nothing of the other shards."""
    raw = Cursor(0, "+41791234567", SHARDS, RecordPosition(SHARDS, "userId#wf5yU_5f63gqauSOLpP5O"))
    number = Cursor(0, 1_700_000_000_000, SHARDS, RecordPosition(SHARDS, "userId#wf5yU_5f63gqauSOLpP5O"))
    assert len(_sealed(raw)) <= 182
    assert len(_sealed(number)) <= 182


# --- digests and words -----------------------------------------------------------------------------------------


def test_digests_differ_with_every_part() -> None:
    """A digest depends on every part, on where one ends and the next begins, and on nothing else."""
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


def test_digests_take_any_text() -> None:
    """Lone surrogates do not stop a digest."""
    assert digest("\ud800") != digest("\ud801")


@given(words=texts(max_size=60) | st.text(max_size=60))
def test_words_are_cut_visibly(words: str) -> None:
    """Words of up to 40 octets stay as they are; of longer ones a beginning is kept that shows where it was cut."""
    short = short_description(words)
    assert len(short.encode()) <= 40
    if len(words.encode()) <= 40:
        assert short == words
    else:
        assert short.endswith("…")
        assert words.startswith(short[:-1])
        assert len(short.encode()) > 40 - 4
