"""Record keys: they name one record for ever, and nothing but the very text that was handed out opens."""

import string
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from hashlib import blake2b
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.codecs.base64url import base64url_decode, base64url_encode
from graphql_api.codecs.record_key import MAX_KEY_CHARACTERS, KeyValue, RecordKey, RecordKeySeal
from graphql_api.codecs.scalar_codec import short_repr
from graphql_api.errors import InvalidRecordKey
from tests.depth import examples
from tests.laws.strategies import texts

SECRET = b"this secret never changes at all"
SEAL = RecordKeySeal(SECRET)
KEY = RecordKey("email", ("jo@example.com",), (7,), "acme", 1)
TEXT = SEAL.seal(KEY)
OTHER = SEAL.seal(RecordKey("email", ("al@example.com",), (9,), "acme", 0))
URL_ALPHABET = string.ascii_letters + string.digits + "-_"


class Colour(StrEnum):
    RED = "red"


def _refusal(text: object, *, seal: RecordKeySeal = SEAL, origin: str = "email", tenant: str | None = "acme") -> str:
    with pytest.raises(InvalidRecordKey) as caught:
        seal.open(text, origin=origin, tenant=tenant, argument="ids")
    assert caught.value.argument == "ids"
    return caught.value.message


THE_REFUSAL = _refusal("")

offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.builds(
    lambda seconds, offset: (datetime(2000, 1, 1, tzinfo=UTC) + seconds).astimezone(offset),
    st.timedeltas(timedelta(days=-700_000), timedelta(days=2_900_000)),
    offsets,
)
parts: st.SearchStrategy[KeyValue] = st.one_of(
    texts(),
    st.text(max_size=20),
    st.integers(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.uuids(),
    st.dates(),
    moments,
    st.timedeltas(),
)
keys = st.builds(
    RecordKey,
    origin=st.text(min_size=1, max_size=20),
    ids=st.lists(parts, max_size=4).map(tuple),
    children=st.lists(parts, max_size=3).map(tuple),
    tenant=st.none() | st.text(max_size=20),
    generation=st.none() | st.integers(0, 254),
)


# --- there and back --------------------------------------------------------------------------------------------


def _exact(value: KeyValue) -> tuple[Any, ...]:
    """Everything about a value that has to survive."""
    if isinstance(value, Decimal):
        return Decimal, value.as_tuple()
    if isinstance(value, datetime):
        return datetime, value, value.utcoffset()
    return type(value), value


@examples(300)
@given(key=keys)
def test_record_keys_come_back(key: RecordKey) -> None:
    """Origin, tenant, generation and every part come back, with type and exact value; moments come back in UTC."""
    text = SEAL.seal(key)
    found = SEAL.open(text, origin=key.origin, tenant=key.tenant)
    assert found == key
    assert found.generation == key.generation
    in_utc = [part.astimezone(UTC) if isinstance(part, datetime) else part for part in (*key.ids, *key.children)]
    assert [*map(_exact, (*found.ids, *found.children))] == [*map(_exact, in_utc)]
    assert len(found.ids) == len(key.ids)
    assert set(text) <= set(URL_ALPHABET)
    assert SEAL.seal(key) == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (5, "5"),
        (5, Decimal(5)),
        (Decimal("1.0"), Decimal("1.00")),
        (Decimal("1E+2"), Decimal(100)),
        (Decimal("-0"), Decimal(0)),
        (date(2026, 1, 31), "2026-01-31"),
        (date(2026, 1, 31), datetime(2026, 1, 31, tzinfo=UTC)),
        (timedelta(microseconds=5), 5),
        (UUID(int=5), UUID(int=5).hex),
        ("", 0),
        ("é", "e\u0301"),
    ],
)
def test_types_and_digits_are_kept(one: KeyValue, other: KeyValue) -> None:
    """Values of different types, and equal numbers of different digits, are different parts and come back as such."""
    for value in (one, other):
        (found,) = SEAL.open(SEAL.seal(RecordKey("line", (value,))), origin="line", tenant=None).ids
        assert _exact(found) == _exact(value)
    assert SEAL.seal(RecordKey("line", (one,))) != SEAL.seal(RecordKey("line", (other,)))
    assert (RecordKey("line", (one,)) == RecordKey("line", (other,))) == (type(one) is type(other) and one == other)


def test_one_moment_has_one_key() -> None:
    """A moment gives the same key in every offset, to the microsecond."""
    utc = datetime(2026, 1, 31, 23, 30, 0, 1, tzinfo=UTC)
    there = utc.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert SEAL.seal(RecordKey("line", (utc,))) == SEAL.seal(RecordKey("line", (there,)))
    found = SEAL.open(SEAL.seal(RecordKey("line", (there,))), origin="line", tenant=None)
    assert _exact(found.ids[0]) == (datetime, utc, timedelta(0))


def test_parts_cannot_be_confused() -> None:
    """What is an id, a child, a tenant or an origin is told by the key, not by what the parts look like."""
    lookalikes = [
        RecordKey("a", ("b", "c")),
        RecordKey("a", ("b",), ("c",)),
        RecordKey("a", (), ("b", "c")),
        RecordKey("a", ("bc",)),
        RecordKey("a", ("b", "c"), tenant=""),
        RecordKey("a", ("c",), tenant="b"),
        RecordKey("ab", ("c",)),
        RecordKey("a", ("b", "c"), generation=0),
        RecordKey("a", ("b", "c"), generation=1),
    ]
    assert len({SEAL.seal(key) for key in lookalikes}) == len(lookalikes)
    assert all(SEAL.open(SEAL.seal(key), origin=key.origin, tenant=key.tenant) == key for key in lookalikes)


def test_keys_are_values() -> None:
    """Equal record keys are equal, hash equally, and can stand in sets; where a record is found is no part of it."""
    assert len({KEY, RecordKey("email", ("jo@example.com",), (7,), "acme", 1), RecordKey("email", ("x",))}) == 2
    elsewhere = RecordKey("email", ("jo@example.com",), (7,), "acme", 0)
    assert elsewhere == KEY
    assert hash(elsewhere) == hash(KEY)


@pytest.mark.parametrize(
    "other",
    [
        RecordKey("mail", ("jo@example.com",), (7,), "acme", 1),
        RecordKey("email", ("Jo@example.com",), (7,), "acme", 1),
        RecordKey("email", ("jo@example.com",), (8,), "acme", 1),
        RecordKey("email", ("jo@example.com",), (Decimal(7),), "acme", 1),
        RecordKey("email", ("jo@example.com", 7), (), "acme", 1),
        RecordKey("email", ("jo@example.com",), (7,), "other", 1),
        RecordKey("email", ("jo@example.com",), (7,), None, 1),
        RecordKey.EMPTY,
        TEXT,
        None,
    ],
    ids=str,
)
def test_what_makes_another_key(other: object) -> None:
    """Another entity, id, child id, type of either, or tenant is another key; and no key is equal to anything else."""
    assert other != KEY
    assert other != KEY


def test_the_empty_key() -> None:
    """The empty key names nothing: it is false and has no parts, and nothing can be a key without an origin."""
    assert not RecordKey.EMPTY
    assert KEY
    assert RecordKey("", ()) == RecordKey.EMPTY
    for parts in ({"ids": ("a",)}, {"children": ("a",)}, {"tenant": ""}, {"generation": 0}):
        with pytest.raises(ValueError, match="without an origin"):
            RecordKey("", **{"ids": (), **parts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (KEY, "acme|email(jo@example.com; 7)"),
        (RecordKey("line", ("o-1", 5), ("books", Decimal("2.50"))), "line(o-1, 5; books, 2.50)"),
        (
            RecordKey("day", (date(2026, 1, 31), datetime(2026, 1, 31, 12, tzinfo=UTC))),
            "day(2026-01-31, 2026-01-31T12:00:00+00:00)",
        ),
        (RecordKey("paint", (Colour.RED,)), "paint(red)"),
        (RecordKey("settings", ()), "settings()"),
        (RecordKey.EMPTY, "(empty)"),
    ],
)
def test_text_form(key: RecordKey, text: str) -> None:
    """The text of a key is for people: its tenant, origin, ids and child ids."""
    assert str(key) == text


def test_these_bytes_never_change() -> None:
    """A key that was handed out years ago is read as ever, and written as ever."""
    assert TEXT == "AQIABWVtYWlsAQAEYWNtZQEBcwAOam9AZXhhbXBsZS5jb21pAAE3bpQzQv7EzZ0"
    assert PAYLOAD == b"\x01\x02\x00\x05email\x01\x00\x04acme\x01\x01s\x00\x0ejo@example.comi\x00\x017"


def test_opening_without_an_entity() -> None:
    """Whoever asks for no entity learns it from the key; the tenant has to be right all the same."""
    assert SEAL.open(TEXT, tenant="acme") == KEY
    assert SEAL.is_sealed(TEXT)
    with pytest.raises(InvalidRecordKey):
        SEAL.open(TEXT, tenant=None)


# --- what is refused -------------------------------------------------------------------------------------------


def _forged() -> Iterator[str]:
    for at, character in enumerate(TEXT):
        yield from (TEXT[:at] + other + TEXT[at + 1 :] for other in "AQgwZ_-9+/=. é" if other != character)
        yield TEXT[:at]
        yield TEXT[at + 1 :]
        yield TEXT[:at] + TEXT[at + 1 :]
        yield TEXT[:at] + TEXT[at + 4 :]
        yield from (one[:at] + other[at:] for one, other in ((TEXT, OTHER), (OTHER, TEXT)) if one[:at] != other[:at])


def test_every_change_is_refused() -> None:
    """A key with any character changed, with any part cut, or spliced from two keys is refused, always alike."""
    forged = set(_forged()) - {TEXT, OTHER}
    assert len(forged) > 1_000
    assert {_refusal(text) for text in forged} == {THE_REFUSAL}


def test_a_hundred_thousand_forged_ids(random: Random) -> None:
    """Of 100,000 ids with a changed, swapped or cut character none is taken for one, nor is any other's."""
    ids = [SEAL.seal(RecordKey("email", (f"u{number}",), (number,), "acme", number % 3)) for number in range(500)]
    known, refused, kinds = set(ids), 0, Counter[str]()
    while refused < 100_000:
        id = random.choice(ids)
        at, kind = random.randrange(len(id)), random.choice(("changed", "swapped", "cut", "spliced"))
        if kind == "changed":
            forged = id[:at] + random.choice(URL_ALPHABET) + id[at + 1 :]
        elif kind == "swapped":
            other = random.randrange(len(id))
            first, last = sorted((at, other))
            forged = id[:first] + id[last : last + 1] + id[first + 1 : last] + id[first : first + 1] + id[last + 1 :]
        elif kind == "cut":
            forged = id[:at] + id[at + random.choice((1, 4)) :]
        else:
            forged = id[:at] + random.choice(ids)[at:]
        if forged in known:
            continue
        assert not SEAL.is_sealed(forged), (kind, id, forged)
        refused, kinds = refused + 1, kinds + Counter([kind])
        if refused % 100 == 0:
            assert _refusal(forged) == THE_REFUSAL
    assert min(kinds.values()) > 10_000
    for id in ids:
        assert "one of 'user' is expected" in _refusal(id, origin="user")
        assert _refusal(id, tenant="other") == _refusal(id, tenant=None) == THE_REFUSAL


@pytest.mark.parametrize(
    "odd", ["", TEXT * 2, TEXT + "=", TEXT + "\n", "\ud800", "A" * 10_000, None, 5, b"x", [TEXT]], ids=short_repr
)
def test_odd_keys_are_refused(odd: object) -> None:
    """Whatever is no record key is refused with the words that a forged one gets."""
    assert _refusal(odd) == THE_REFUSAL


@examples(300)
@given(junk=st.one_of(st.text(), st.text(URL_ALPHABET), st.binary().map(base64url_encode), st.none(), st.floats()))
def test_junk_is_refused(junk: object) -> None:
    """No text that was not signed opens."""
    assert _refusal(junk) == THE_REFUSAL


def test_refusal_says_what_to_do() -> None:
    """The refusal names the argument and the remedy, and neither key nor tenant."""
    assert THE_REFUSAL == "ids is no record key: pass one exactly as you received it."


@pytest.mark.parametrize("tenant", [None, "", "ACME", "other"])
def test_other_tenants_keys_are_refused_like_forged_ones(tenant: str | None) -> None:
    """A key of another tenant is nothing here, and nobody is told whose it is."""
    assert _refusal(TEXT, tenant=tenant) == THE_REFUSAL


def test_other_tenants_learn_nothing_of_the_origin() -> None:
    """Where tenant and origin are both wrong, the origin is not named."""
    assert _refusal(TEXT, tenant="other", origin="user") == THE_REFUSAL


def test_other_origin_is_refused_by_name() -> None:
    """A key of another entity is refused by naming both, so that a mix-up is found at once."""
    message = _refusal(TEXT, origin="user")
    assert message == "ids is the key of a record of 'email', and one of 'user' is expected: pass one of 'user'."


def test_other_secret_is_refused() -> None:
    """A key that another installation has signed is nothing here."""
    assert _refusal(TEXT, seal=RecordKeySeal(b"another secret of thirty-two byte")) == THE_REFUSAL


def _signed(payload: bytes) -> str:
    return base64url_encode(payload + SEAL._mac(payload))


PAYLOAD = (base64url_decode(TEXT, MAX_KEY_CHARACTERS) or b"")[:-8]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x02" + PAYLOAD[1:],
        b"\x00" + PAYLOAD[1:],
        PAYLOAD + b"\x00",
        PAYLOAD.replace(b"i\x00\x017", b"q\x00\x017"),
        PAYLOAD.replace(b"i\x00\x017", b"i\x00\x01x"),
        PAYLOAD.replace(b"i\x00\x017", b"d\x00\x017"),
        PAYLOAD.replace(b"i\x00\x017", b"n\x00\x01x"),
        PAYLOAD.replace(b"i\x00\x017", b"i\xff\xff7"),
        PAYLOAD.replace(b"email", b"em\xffil"),
        *(PAYLOAD[:end] for end in range(1, len(PAYLOAD))),
    ],
    ids=lambda payload: payload.hex()[-24:],
)
def test_signed_payloads_of_other_releases_are_refused(payload: bytes) -> None:
    """What was rightly signed, but cannot be read, is refused as the key of another release."""
    assert payload != PAYLOAD
    assert "another release" in _refusal(_signed(payload))


@examples(300)
@given(payload=st.binary(max_size=60), data=st.data())
def test_signed_junk_is_read_or_refused(payload: bytes, data: st.DataObject) -> None:
    """No octets, not even signed ones, lead to anything but a key or `InvalidRecordKey`."""
    at = data.draw(st.integers(0, len(PAYLOAD)))
    damaged = data.draw(st.sampled_from([payload, PAYLOAD[:at] + payload[:2] + PAYLOAD[at + len(payload[:2]) :]]))
    try:
        SEAL.open(_signed(damaged), origin="email", tenant="acme")
    except InvalidRecordKey as problem:
        assert problem.argument == "id"  # noqa: PT017 - some of the damaged ones are still keys


# --- what is never written -------------------------------------------------------------------------------------


def test_up_to_three_children() -> None:
    """A record key carries up to three child ids, and not a fourth one."""
    for count in range(4):
        key = RecordKey("line", ("o-1",), (1, 2, 3)[:count])
        assert SEAL.open(SEAL.seal(key), origin="line", tenant=None) == key
    with pytest.raises(ValueError, match="at most 3 child ids"):
        SEAL.seal(RecordKey("line", ("o-1",), (1, 2, 3, 4)))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1.5,
        b"x",
        ("a",),
        Colour.RED,
        Decimal("NaN"),
        Decimal("Infinity"),
        datetime(2026, 1, 31),  # noqa: DTZ001
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2))),
        "\ud800",
        10**5000,
        "x" * 9000,
        "x" * 70_000,
    ],
    ids=short_repr,
)
def test_what_can_be_no_part(value: Any) -> None:
    """Values that name nothing, or that would not come back as they are, are refused at once."""
    for key in (RecordKey("line", (value,)), RecordKey("line", ("o-1",), (value,))):
        with pytest.raises(ValueError):
            SEAL.seal(key)


@pytest.mark.parametrize(
    "key",
    [
        RecordKey.EMPTY,
        RecordKey("line", ("a",), generation=255),
        RecordKey("line", ("a",), generation=-1),
        RecordKey("line", ("a",) * 256),
        RecordKey("line", ("a",), tenant="\ud800"),
        RecordKey("\ud800", ("a",)),
    ],
    ids=lambda key: repr(key)[:40].encode("ascii", "replace").decode(),
)
def test_what_is_no_record_key(key: RecordKey) -> None:
    """A key without origin, or beyond what its octets hold, is refused at once."""
    with pytest.raises(ValueError):
        SEAL.seal(key)


@pytest.mark.parametrize("count", [1, 2, 3, 200])
def test_no_key_is_written_that_would_be_refused(count: int) -> None:
    """A key is either short enough to be read again, or not written."""
    opened = 0
    for length in (1, 10, 100, 2_000, 6_000, 6_117, 6_118, 6_119, 6_120, 6_200):
        key = RecordKey("line", ("x" * (length // count),) * count)
        try:
            text = SEAL.seal(key)
        except ValueError:
            continue
        assert SEAL.open(text, origin="line", tenant=None) == key
        opened += 1
    assert 0 < opened < 10


@pytest.mark.parametrize("secret", [b"", b"x" * 31])
def test_short_secrets_are_refused(secret: bytes) -> None:
    """A secret that could be guessed is refused; a new one is long enough, and another each time."""
    with pytest.raises(ValueError, match="at least 32 random bytes"):
        RecordKeySeal(secret)
    assert len(RecordKeySeal.new_secret()) == 32
    assert not RecordKeySeal.new().is_sealed(RecordKeySeal.new().seal(KEY))


# --- size and secrecy ------------------------------------------------------------------------------------------


def test_sizes_are_kept() -> None:
    """Keys are as short as docs/record-keys.md says."""
    assert len(SEAL.seal(RecordKey("user", ("wf5yU_5f63gqauSOLpP5O",)))) == 58
    assert len(SEAL.seal(RecordKey("email", ("jo@example.com",), (), "acme", 1))) == 58
    assert len(SEAL.seal(RecordKey("orderLine", ("o-1",), ("electronics", 3)))) == 64


def test_signature_depends_on_the_use_of_the_secret() -> None:
    """The same secret used for anything else gives other signatures: its use is part of the key."""
    assert SEAL._mac(b"payload") != blake2b(b"payload", key=SECRET, digest_size=8).digest()
    assert len(SEAL._mac(b"payload")) == 8
