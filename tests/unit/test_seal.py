"""Seals: whatever is not exactly what was handed out is refused, always with the same words."""

import string
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.codecs.base64url import base64url_decode, base64url_encode
from graphql_api.errors import InvalidToken
from graphql_api.query.token_seal import MAX_TOKEN_CHARACTERS, VERSION, TokenSeal
from tests.depth import examples

OLD, NEW = b"the secret of yesterday, 32 bytes.", b"the secret of today is long enough"
SEAL = TokenSeal([OLD])
PAYLOAD = b"somewhere in the answer, behind wf5y"
TOKEN = SEAL.seal(PAYLOAD, "acme", "ann")
OTHER = SEAL.seal(b"somewhere else in the answer, at ba4x", "acme", "ann")
REPLACEMENTS = "AQgwZ_-9+/=. é\x00\ud800"
URL_ALPHABET = string.ascii_letters + string.digits + "-_"


def _refusal(
    token: object, *, seal: TokenSeal = SEAL, tenant: str | None = "acme", principal: str | None = "ann"
) -> tuple[str, str, str | None]:
    with pytest.raises(InvalidToken) as caught:
        seal.open(token, tenant, principal, "after")  # type: ignore[arg-type]
    return caught.value.code, caught.value.message, caught.value.argument


THE_REFUSAL = _refusal("")


def _changed() -> Iterator[str]:
    for at, character in enumerate(TOKEN):
        yield from (TOKEN[:at] + other + TOKEN[at + 1 :] for other in REPLACEMENTS if other != character)


def _cut() -> Iterator[str]:
    yield from (TOKEN[:end] for end in range(len(TOKEN)))
    yield from (TOKEN[start:] for start in range(1, len(TOKEN)))
    yield from (TOKEN[:at] + TOKEN[at + length :] for at in range(len(TOKEN)) for length in (1, 2, 4, 8) if at + length)


def _spliced() -> Iterator[str]:
    yield from (TOKEN[:at] + OTHER[at:] for at in range(1, len(TOKEN)) if TOKEN[:at] != OTHER[:at])
    yield from (OTHER[:at] + TOKEN[at:] for at in range(1, len(TOKEN)) if TOKEN[:at] != OTHER[:at])


ODD = {
    "empty": "",
    "doubled": TOKEN + TOKEN,
    "two of them": TOKEN + OTHER,
    "padded": TOKEN + "=",
    "padded twice": TOKEN + "==",
    "a character more": TOKEN + "A",
    "four characters more": TOKEN + "AAAA",
    "a character in front": "A" + TOKEN,
    "blank in front": " " + TOKEN,
    "blank behind": TOKEN + " ",
    "line end behind": TOKEN + "\n",
    "quoted": f'"{TOKEN}"',
    "standard alphabet": TOKEN.replace("-", "+").replace("_", "/") + "+/",
    "lower case": TOKEN.lower(),
    "reversed": TOKEN[::-1],
    "foreign letters": "ключ" * 20,
    "lone surrogate": "\ud800",
    "NUL": "\x00" * 40,
    "only the head": TOKEN[:2],
    "nothing but zeros": "A" * len(TOKEN),
    "another version": base64url_encode(bytes((VERSION + 1,)) + (base64url_decode(TOKEN, 8192) or b"")[1:]),
    "longer than is looked at": "A" * (MAX_TOKEN_CHARACTERS + 1),
    "very long": "A" * 1_000_000,
    "True": True,
    "a number": 5,
    "octets": TOKEN.encode(),
    "a list": [TOKEN],
    "a mapping": {"token": TOKEN},
}


def test_sealed_payload_comes_back() -> None:
    """A token opens for the tenant and principal that it was sealed for, and gives the payload back."""
    assert SEAL.open(TOKEN, "acme", "ann", "after") == PAYLOAD


def test_splices_and_changes_are_many() -> None:
    """The samples of forged tokens differ from both honest tokens, so that their refusal means something."""
    assert len(set(_changed())) > 1_000
    assert len(set(_spliced())) > 50
    assert not {TOKEN, OTHER} & {*_changed(), *_cut(), *_spliced()}


def test_every_changed_character_is_refused() -> None:
    """A token with one other character, at any place, is refused."""
    assert {_refusal(forged) for forged in _changed()} == {THE_REFUSAL}


@pytest.mark.parametrize("length", [35, 36, 37])
def test_last_character_has_one_form(length: int) -> None:
    """Of the 64 letters only the right one is accepted at the end, also where some of its bits say nothing."""
    token = SEAL.seal(b"x" * length, None, None)
    others = [token[:-1] + last for last in URL_ALPHABET if last != token[-1]]
    assert {_refusal(forged, tenant=None, principal=None) for forged in others} == {THE_REFUSAL}


def test_every_cut_is_refused() -> None:
    """A token that lacks characters at its beginning, its end or anywhere between is refused."""
    assert {_refusal(forged) for forged in _cut()} == {THE_REFUSAL}


def test_every_splice_is_refused() -> None:
    """The beginning of one token with the end of another one is refused, wherever they are joined."""
    assert {_refusal(forged) for forged in _spliced()} == {THE_REFUSAL}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_odd_tokens_are_refused(odd: object) -> None:
    """Whatever is no token is refused with the same words as a forged one, also what is no text at all."""
    assert _refusal(odd) == THE_REFUSAL


@examples(300)
@given(junk=st.one_of(st.text(), st.text(URL_ALPHABET), st.binary().map(base64url_encode), st.none(), st.integers()))
def test_junk_is_refused(junk: object) -> None:
    """No text that was not sealed opens, whatever it is."""
    assert _refusal(junk) == THE_REFUSAL


@pytest.mark.parametrize(
    ("tenant", "principal"),
    [
        ("acme", "bob"),
        ("acme", None),
        ("acme", ""),
        ("ACME", "ann"),
        ("", "ann"),
        (None, "ann"),
        (None, None),
        ("ann", "acme"),
        ("acmeann", ""),
        ("acm", "eann"),
        ("acme", "ann\ud800"),
    ],
)
def test_others_are_refused(tenant: str | None, principal: str | None) -> None:
    """Another tenant or principal is told the same as a forger, in every combination."""
    assert _refusal(TOKEN, tenant=tenant, principal=principal) == THE_REFUSAL


NOBODIES: list[tuple[str | None, str | None]] = [
    (None, None),
    (None, ""),
    ("", None),
    ("", ""),
    ("-", None),
    (None, "-"),
    ("+", ""),
]


def test_nobody_and_empty_names_differ() -> None:
    """No tenant, an empty one and one that is called like a mark are three, and so are principals."""
    tokens = {who: SEAL.seal(PAYLOAD, *who) for who in NOBODIES}
    assert len(set(tokens.values())) == len(NOBODIES)
    for who, token in tokens.items():
        assert SEAL.open(token, *who, "after") == PAYLOAD
        for other in NOBODIES:
            if other != who:
                assert _refusal(token, tenant=other[0], principal=other[1]) == THE_REFUSAL


def test_refusal_says_what_to_do() -> None:
    """The refusal names the argument and what to do, and nothing of the token."""
    code, message, argument = THE_REFUSAL
    assert (code, argument) == ("INVALID_TOKEN", "after")
    assert "after" in message
    assert "exactly as you received it" in message
    assert "leave it out" in message
    assert TOKEN not in message


def test_old_secret_still_opens() -> None:
    """While a secret is rotated out, what it sealed still opens, and new tokens are sealed by the new one."""
    both = TokenSeal([NEW, OLD])
    assert both.open(TOKEN, "acme", "ann", "after") == PAYLOAD
    fresh = both.seal(PAYLOAD, "acme", "ann")
    assert fresh == TokenSeal([NEW]).seal(PAYLOAD, "acme", "ann") != TOKEN
    assert both.open(fresh, "acme", "ann", "after") == PAYLOAD


def test_removed_secret_opens_nothing() -> None:
    """Once a secret is gone, its tokens are told what forged ones are told."""
    assert _refusal(TOKEN, seal=TokenSeal([NEW])) == THE_REFUSAL


def test_secrets_with_one_key_id_do_not_get_into_each_others_way() -> None:
    """The key id is one octet; with secrets that share it, each token still opens by its own."""
    by_id: dict[bytes, list[bytes]] = {}
    for secret in (b"secret number %020d" % number for number in range(80)):
        octets = base64url_decode(TokenSeal([secret]).seal(b"x", None, None), MAX_TOKEN_CHARACTERS)
        assert octets is not None
        by_id.setdefault(octets[:2], []).append(secret)
    twins = next(twins for twins in by_id.values() if len(twins) > 1)
    for order in (twins, twins[::-1]):
        for secret in twins:
            assert TokenSeal(order).open(TokenSeal([secret]).seal(PAYLOAD, None, None), None, None, "after") == PAYLOAD


@pytest.mark.parametrize("secrets", [[], [b""], [b"short"], [NEW, b"x" * 31]])
def test_weak_secrets_are_refused(secrets: list[bytes]) -> None:
    """A seal without a secret, or with one that is shorter than 32 octets, is not made."""
    with pytest.raises(ValueError, match="at least 32 random bytes"):
        TokenSeal(secrets)


def test_new_secrets_are_long_and_new() -> None:
    """A generated secret is long enough, and no other one."""
    one, other = TokenSeal.new_secret(), TokenSeal.new_secret()
    assert len(one) == len(other) == 32
    assert one != other


@given(payload=st.binary(max_size=300), tenant=st.none() | st.text(), principal=st.none() | st.text())
def test_sealing_is_reversible_and_repeatable(payload: bytes, tenant: str | None, principal: str | None) -> None:
    """Whatever is sealed opens again for the same ones, and the same payload gives the same token."""
    token = SEAL.seal(payload, tenant, principal)
    assert token == SEAL.seal(payload, tenant, principal)
    assert set(token) <= set(URL_ALPHABET)
    if payload:
        assert SEAL.open(token, tenant, principal, "after") == payload


def test_lengths_tell_nothing_but_the_payloads_length() -> None:
    """A sealed payload is 18 octets longer than the payload, whoever it is for."""
    for length in (1, 2, 3, 100):
        texts = {len(SEAL.seal(b"x" * length, *who)) for who in NOBODIES}
        assert texts == {-(-(length + 18) * 4 // 3)}


@given(octets=st.binary())
def test_url_text_has_one_form(octets: bytes) -> None:
    """Octets as URL text come back, and no other text stands for them."""
    text = base64url_encode(octets)
    assert base64url_decode(text, len(text)) == octets
    assert base64url_decode(text, len(text) - 1) is None
    for other in (text + "=", text + "\n", " " + text, text + "+", text + "A" * (1 + len(text) % 4 % 2)):
        assert base64url_decode(other, 10_000) != octets
