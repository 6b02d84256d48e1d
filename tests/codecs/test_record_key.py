"""Record keys: permanent, signed identifiers of records. Only texts that were issued unchanged can be opened."""

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
from graphql_api.codecs.record_key import MAX_KEY_CHARACTERS, RecordKey, RecordKeySeal
from graphql_api.codecs.scalar_codec import short_repr
from graphql_api.errors import InvalidRecordKey
from tests.laws.key_strategies import texts
from tests.support.run_depth import examples

SECRET = b"this secret never changes at all"
SEAL = RecordKeySeal(SECRET)
KEY = RecordKey("email", ("jo@example.com",), (7,), "acme", 1)
TEXT = SEAL.seal(KEY)
OTHER = SEAL.seal(RecordKey("email", ("al@example.com",), (9,), "acme", 0))
URL_ALPHABET = string.ascii_letters + string.digits + "-_"


class Colour(StrEnum):
    RED = "red"


def _refusal_message(
    text: object, *, seal: RecordKeySeal = SEAL, origin: str = "email", tenant: str | None = "acme"
) -> str:
    with pytest.raises(InvalidRecordKey) as caught:
        seal.open(text, origin=origin, tenant=tenant, argument="ids")
    assert caught.value.argument == "ids"
    return caught.value.message


REFUSAL = _refusal_message("")

offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.builds(
    lambda seconds, offset: (datetime(2000, 1, 1, tzinfo=UTC) + seconds).astimezone(offset),
    st.timedeltas(timedelta(days=-700_000), timedelta(days=2_900_000)),
    offsets,
)
parts: st.SearchStrategy[Any] = st.one_of(
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


# --- round trip --------------------------------------------------------------------------------------------------


def _exact(value: Any) -> tuple[Any, ...]:
    """Type and exact representation of a value."""
    if isinstance(value, Decimal):
        return Decimal, value.as_tuple()
    if isinstance(value, datetime):
        return datetime, value, value.utcoffset()
    return type(value), value


@examples(300)
@given(key=keys)
def test_opening_reverses_sealing(key: RecordKey) -> None:
    """Opening a sealed key returns its origin, tenant, generation and parts, with exact types. Datetimes are in UTC."""
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
def test_types_and_digits_are_preserved(one: Any, other: Any) -> None:
    """Values that differ in type or in decimal digits give different keys, and are restored exactly."""
    for value in (one, other):
        (found,) = SEAL.open(SEAL.seal(RecordKey("line", (value,))), origin="line", tenant=None).ids
        assert _exact(found) == _exact(value)
    assert SEAL.seal(RecordKey("line", (one,))) != SEAL.seal(RecordKey("line", (other,)))
    assert (RecordKey("line", (one,)) == RecordKey("line", (other,))) == (type(one) is type(other) and one == other)


def test_equal_points_in_time_have_one_key() -> None:
    """Equal points in time give the same key in every UTC offset, with microsecond precision."""
    utc = datetime(2026, 1, 31, 23, 30, 0, 1, tzinfo=UTC)
    local = utc.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert SEAL.seal(RecordKey("line", (utc,))) == SEAL.seal(RecordKey("line", (local,)))
    found = SEAL.open(SEAL.seal(RecordKey("line", (local,))), origin="line", tenant=None)
    assert _exact(found.ids[0]) == (datetime, utc, timedelta(0))


def test_roles_of_parts_are_part_of_the_key() -> None:
    """Keys with the same text but other roles of their parts (id, child, tenant, origin) are different."""
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


def test_keys_compare_by_value() -> None:
    """Record keys compare and hash by value. The generation does not count."""
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
def test_different_keys_are_not_equal(other: object) -> None:
    """Keys differ if entity, id, child id, type or tenant differs. A key never equals another type."""
    assert other != KEY
    assert other != KEY


def test_empty_key() -> None:
    """The empty key is false and has no parts. A key with parts requires an origin."""
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
def test_string_form(key: RecordKey, text: str) -> None:
    """The string form of a key shows tenant, origin, ids and child ids."""
    assert str(key) == text


def test_key_format_is_frozen() -> None:
    """The text and the bytes of a known key are frozen."""
    assert TEXT == "AQIABWVtYWlsAQAEYWNtZQEBcwAOam9AZXhhbXBsZS5jb21pAAE3bpQzQv7EzZ0"
    assert PAYLOAD == b"\x01\x02\x00\x05email\x01\x00\x04acme\x01\x01s\x00\x0ejo@example.comi\x00\x017"


def test_opening_without_expected_entity() -> None:
    """Without an expected entity, opening a key still verifies the tenant."""
    assert SEAL.open(TEXT, tenant="acme") == KEY
    assert SEAL.is_sealed(TEXT)
    with pytest.raises(InvalidRecordKey):
        SEAL.open(TEXT, tenant=None)


# --- refused texts -----------------------------------------------------------------------------------------------


def _forged_texts() -> Iterator[str]:
    for at, character in enumerate(TEXT):
        yield from (TEXT[:at] + other + TEXT[at + 1 :] for other in "AQgwZ_-9+/=. é" if other != character)
        yield TEXT[:at]
        yield TEXT[at + 1 :]
        yield TEXT[:at] + TEXT[at + 1 :]
        yield TEXT[:at] + TEXT[at + 4 :]
        yield from (one[:at] + other[at:] for one, other in ((TEXT, OTHER), (OTHER, TEXT)) if one[:at] != other[:at])


def test_every_change_is_refused() -> None:
    """A key with any changed, cut or spliced character is refused, always with the same message."""
    forged = set(_forged_texts()) - {TEXT, OTHER}
    assert len(forged) > 1_000
    assert {_refusal_message(text) for text in forged} == {REFUSAL}


def test_many_forged_ids_are_refused(random: Random) -> None:
    """None of 100,000 forged ids is accepted, and no id is accepted for another entity or tenant."""
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
            assert _refusal_message(forged) == REFUSAL
    assert min(kinds.values()) > 10_000
    for id in ids:
        assert "one of 'user' is expected" in _refusal_message(id, origin="user")
        assert _refusal_message(id, tenant="other") == _refusal_message(id, tenant=None) == REFUSAL


@pytest.mark.parametrize(
    "value", ["", TEXT * 2, TEXT + "=", TEXT + "\n", "\ud800", "A" * 10_000, None, 5, b"x", [TEXT]], ids=short_repr
)
def test_values_that_are_not_keys_are_refused(value: object) -> None:
    """Anything that is not a record key gets the same message as a forged key."""
    assert _refusal_message(value) == REFUSAL


@examples(300)
@given(text=st.one_of(st.text(), st.text(URL_ALPHABET), st.binary().map(base64url_encode), st.none(), st.floats()))
def test_unsigned_text_is_refused(text: object) -> None:
    """A text without a valid signature is refused."""
    assert _refusal_message(text) == REFUSAL


def test_refusal_message_names_the_remedy() -> None:
    """The message names the argument and the remedy, but neither the key nor the tenant."""
    assert REFUSAL == "ids is no record key: pass one exactly as you received it."


@pytest.mark.parametrize("tenant", [None, "", "ACME", "other"])
def test_keys_of_other_tenants_are_refused_like_forged_ones(tenant: str | None) -> None:
    """A key of another tenant gets the same message as a forged key."""
    assert _refusal_message(TEXT, tenant=tenant) == REFUSAL


def test_wrong_tenant_hides_the_origin() -> None:
    """If both tenant and origin are wrong, the message does not name the origin."""
    assert _refusal_message(TEXT, tenant="other", origin="user") == REFUSAL


def test_key_of_another_entity_is_refused_by_name() -> None:
    """A key of another entity is refused with the names of both entities."""
    message = _refusal_message(TEXT, origin="user")
    assert message == "ids is the key of a record of 'email', and one of 'user' is expected: pass one of 'user'."


def test_key_of_another_secret_is_refused() -> None:
    """A key signed with another secret is refused."""
    assert _refusal_message(TEXT, seal=RecordKeySeal(b"another secret of thirty-two byte")) == REFUSAL


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
    """A correctly signed payload that cannot be decoded is refused as the key of another release."""
    assert payload != PAYLOAD
    assert "another release" in _refusal_message(_signed(payload))


@examples(300)
@given(payload=st.binary(max_size=60), data=st.data())
def test_any_signed_bytes_are_opened_or_refused(payload: bytes, data: st.DataObject) -> None:
    """Any signed bytes either decode to a key or raise `InvalidRecordKey`."""
    at = data.draw(st.integers(0, len(PAYLOAD)))
    damaged = data.draw(st.sampled_from([payload, PAYLOAD[:at] + payload[:2] + PAYLOAD[at + len(payload[:2]) :]]))
    try:
        SEAL.open(_signed(damaged), origin="email", tenant="acme")
    except InvalidRecordKey as problem:
        assert problem.argument == "id"  # noqa: PT017 - some damaged payloads are still valid


# --- keys that cannot be sealed ----------------------------------------------------------------------------------


def test_at_most_three_child_ids() -> None:
    """A record key has at most three child ids."""
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
def test_unsupported_parts_are_refused(value: Any) -> None:
    """Sealing a part of an unsupported type, or one that would not round-trip, raises `ValueError`."""
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
def test_unsupported_keys_are_refused(key: RecordKey) -> None:
    """Sealing a key without an origin, or beyond the limits of the format, raises `ValueError`."""
    with pytest.raises(ValueError):
        SEAL.seal(key)


@pytest.mark.parametrize("count", [1, 2, 3, 200])
def test_every_sealed_key_can_be_opened(count: int) -> None:
    """Every key that can be sealed can also be opened; longer keys are refused."""
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
    """A secret of fewer than 32 bytes is refused. New secrets are long enough and random."""
    with pytest.raises(ValueError, match="at least 32 random bytes"):
        RecordKeySeal(secret)
    assert len(RecordKeySeal.new_secret()) == 32
    assert not RecordKeySeal.new().is_sealed(RecordKeySeal.new().seal(KEY))


# --- size and signature ------------------------------------------------------------------------------------------


def test_key_lengths() -> None:
    """The lengths of keys match docs/reference/record-keys.md."""
    assert len(SEAL.seal(RecordKey("user", ("wf5yU_5f63gqauSOLpP5O",)))) == 58
    assert len(SEAL.seal(RecordKey("email", ("jo@example.com",), (), "acme", 1))) == 58
    assert len(SEAL.seal(RecordKey("orderLine", ("o-1",), ("electronics", 3)))) == 64


def test_signature_depends_on_the_purpose_of_the_secret() -> None:
    """The signature depends on the purpose of the secret, so that other uses of the secret give other signatures."""
    assert SEAL._mac(b"payload") != blake2b(b"payload", key=SECRET, digest_size=8).digest()
    assert len(SEAL._mac(b"payload")) == 8
