"""Token seals: everything except an issued token is rejected, always with the same message."""

import string
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.codecs.base64url import base64url_decode, base64url_encode
from graphql_api.errors import InvalidToken
from graphql_api.query.token_seal import MAX_TOKEN_CHARACTERS, VERSION, TokenSeal
from tests.support.run_depth import examples

OLD, NEW = b"the secret of yesterday, 32 bytes.", b"the secret of today is long enough"
SEAL = TokenSeal([OLD])
PAYLOAD = b"somewhere in the result, after wf5y"
TOKEN = SEAL.seal(PAYLOAD, "acme", "ann")
OTHER = SEAL.seal(b"somewhere else in the result, at ba4x", "acme", "ann")
REPLACEMENTS = "AQgwZ_-9+/=. é\x00\ud800"
URL_ALPHABET = string.ascii_letters + string.digits + "-_"


def _error_of(
    token: object, *, seal: TokenSeal = SEAL, tenant: str | None = "acme", principal: str | None = "ann"
) -> tuple[str, str, str | None]:
    with pytest.raises(InvalidToken) as caught:
        seal.open(token, tenant, principal, "after")  # type: ignore[arg-type]
    return caught.value.code, caught.value.message, caught.value.argument


EXPECTED_ERROR = _error_of("")


def _tokens_with_a_changed_character() -> Iterator[str]:
    for at, character in enumerate(TOKEN):
        yield from (TOKEN[:at] + other + TOKEN[at + 1 :] for other in REPLACEMENTS if other != character)


def _shortened_tokens() -> Iterator[str]:
    yield from (TOKEN[:end] for end in range(len(TOKEN)))
    yield from (TOKEN[start:] for start in range(1, len(TOKEN)))
    yield from (TOKEN[:at] + TOKEN[at + length :] for at in range(len(TOKEN)) for length in (1, 2, 4, 8) if at + length)


def _spliced_tokens() -> Iterator[str]:
    yield from (TOKEN[:at] + OTHER[at:] for at in range(1, len(TOKEN)) if TOKEN[:at] != OTHER[:at])
    yield from (OTHER[:at] + TOKEN[at:] for at in range(1, len(TOKEN)) if TOKEN[:at] != OTHER[:at])


INVALID_TOKENS = {
    "empty": "",
    "doubled": TOKEN + TOKEN,
    "two of them": TOKEN + OTHER,
    "padded": TOKEN + "=",
    "padded twice": TOKEN + "==",
    "a character more": TOKEN + "A",
    "four characters more": TOKEN + "AAAA",
    "a character before": "A" + TOKEN,
    "blank before": " " + TOKEN,
    "blank after": TOKEN + " ",
    "line end after": TOKEN + "\n",
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
    "longer than the maximum": "A" * (MAX_TOKEN_CHARACTERS + 1),
    "very long": "A" * 1_000_000,
    "True": True,
    "a number": 5,
    "bytes": TOKEN.encode(),
    "a list": [TOKEN],
    "a mapping": {"token": TOKEN},
}


def test_a_token_returns_its_payload() -> None:
    """A token opens for its tenant and principal, and returns the payload."""
    assert SEAL.open(TOKEN, "acme", "ann", "after") == PAYLOAD


def test_forged_samples_are_many_and_invalid() -> None:
    """The forged samples are many, and differ from both valid tokens."""
    assert len(set(_tokens_with_a_changed_character())) > 1_000
    assert len(set(_spliced_tokens())) > 50
    assert not {TOKEN, OTHER} & {*_tokens_with_a_changed_character(), *_shortened_tokens(), *_spliced_tokens()}


def test_every_changed_character_is_rejected() -> None:
    """A token with any single character changed is rejected."""
    assert {_error_of(forged) for forged in _tokens_with_a_changed_character()} == {EXPECTED_ERROR}


@pytest.mark.parametrize("length", [35, 36, 37])
def test_the_last_character_has_one_valid_form(length: int) -> None:
    """Only one of the 64 letters is valid at the end, even if some of its bits are unused."""
    token = SEAL.seal(b"x" * length, None, None)
    others = [token[:-1] + last for last in URL_ALPHABET if last != token[-1]]
    assert {_error_of(forged, tenant=None, principal=None) for forged in others} == {EXPECTED_ERROR}


def test_every_shortened_token_is_rejected() -> None:
    """A token with characters removed anywhere is rejected."""
    assert {_error_of(forged) for forged in _shortened_tokens()} == {EXPECTED_ERROR}


def test_every_splice_is_rejected() -> None:
    """The beginning of one token joined to the end of another is rejected."""
    assert {_error_of(forged) for forged in _spliced_tokens()} == {EXPECTED_ERROR}


@pytest.mark.parametrize("invalid", INVALID_TOKENS.values(), ids=INVALID_TOKENS.keys())
def test_values_that_are_no_tokens_are_rejected(invalid: object) -> None:
    """Values that are no tokens are rejected like forged tokens, including values that are no texts."""
    assert _error_of(invalid) == EXPECTED_ERROR


@examples(300)
@given(
    random_value=st.one_of(
        st.text(), st.text(URL_ALPHABET), st.binary().map(base64url_encode), st.none(), st.integers()
    )
)
def test_random_values_are_rejected(random_value: object) -> None:
    """Random texts and values are rejected."""
    assert _error_of(random_value) == EXPECTED_ERROR


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
def test_other_tenants_and_principals_are_rejected(tenant: str | None, principal: str | None) -> None:
    """A token is rejected for any other tenant or principal like a forged token."""
    assert _error_of(TOKEN, tenant=tenant, principal=principal) == EXPECTED_ERROR


TENANTS_AND_PRINCIPALS: list[tuple[str | None, str | None]] = [
    (None, None),
    (None, ""),
    ("", None),
    ("", ""),
    ("-", None),
    (None, "-"),
    ("+", ""),
]


def test_absent_and_empty_names_differ() -> None:
    """An absent, an empty and a marker-like name are three different tenants, and three different principals."""
    tokens = {
        tenant_and_principal: SEAL.seal(PAYLOAD, *tenant_and_principal)
        for tenant_and_principal in TENANTS_AND_PRINCIPALS
    }
    assert len(set(tokens.values())) == len(TENANTS_AND_PRINCIPALS)
    for tenant_and_principal, token in tokens.items():
        assert SEAL.open(token, *tenant_and_principal, "after") == PAYLOAD
        for other in TENANTS_AND_PRINCIPALS:
            if other != tenant_and_principal:
                assert _error_of(token, tenant=other[0], principal=other[1]) == EXPECTED_ERROR


def test_the_error_names_argument_and_remedy() -> None:
    """The error names the argument and the remedy, and contains no part of the token."""
    code, message, argument = EXPECTED_ERROR
    assert (code, argument) == ("INVALID_TOKEN", "after")
    assert "after" in message
    assert "exactly as you received it" in message
    assert "leave it out" in message
    assert TOKEN not in message


def test_an_old_secret_still_opens_tokens() -> None:
    """During a rotation the old secret still opens tokens, and the new one seals them."""
    both = TokenSeal([NEW, OLD])
    assert both.open(TOKEN, "acme", "ann", "after") == PAYLOAD
    fresh = both.seal(PAYLOAD, "acme", "ann")
    assert fresh == TokenSeal([NEW]).seal(PAYLOAD, "acme", "ann") != TOKEN
    assert both.open(fresh, "acme", "ann", "after") == PAYLOAD


def test_a_removed_secret_opens_no_token() -> None:
    """Tokens of a removed secret are rejected like forged tokens."""
    assert _error_of(TOKEN, seal=TokenSeal([NEW])) == EXPECTED_ERROR


def test_secrets_with_equal_key_ids_open_their_own_tokens() -> None:
    """The key id is one byte; tokens of secrets with the same key id open by their own secret."""
    by_id: dict[bytes, list[bytes]] = {}
    for secret in (b"secret number %020d" % number for number in range(80)):
        data = base64url_decode(TokenSeal([secret]).seal(b"x", None, None), MAX_TOKEN_CHARACTERS)
        assert data is not None
        by_id.setdefault(data[:2], []).append(secret)
    same_id = next(same_id for same_id in by_id.values() if len(same_id) > 1)
    for order in (same_id, same_id[::-1]):
        for secret in same_id:
            assert TokenSeal(order).open(TokenSeal([secret]).seal(PAYLOAD, None, None), None, None, "after") == PAYLOAD


@pytest.mark.parametrize("secrets", [[], [b""], [b"short"], [NEW, b"x" * 31]])
def test_weak_secrets_are_rejected(secrets: list[bytes]) -> None:
    """A seal without a secret, or with a secret shorter than 32 bytes, is rejected."""
    with pytest.raises(ValueError, match="at least 32 random bytes"):
        TokenSeal(secrets)


def test_new_secrets_are_long_and_different() -> None:
    """A generated secret has 32 bytes, and differs from other ones."""
    one, other = TokenSeal.new_secret(), TokenSeal.new_secret()
    assert len(one) == len(other) == 32
    assert one != other


@given(payload=st.binary(max_size=300), tenant=st.none() | st.text(), principal=st.none() | st.text())
def test_sealing_is_reversible_and_deterministic(payload: bytes, tenant: str | None, principal: str | None) -> None:
    """Any payload opens again for its tenant and principal, and equal payloads have equal tokens."""
    token = SEAL.seal(payload, tenant, principal)
    assert token == SEAL.seal(payload, tenant, principal)
    assert set(token) <= set(URL_ALPHABET)
    if payload:
        assert SEAL.open(token, tenant, principal, "after") == payload


def test_the_length_depends_only_on_the_payload() -> None:
    """A sealed payload is 18 bytes longer than the payload, for any tenant and principal."""
    for length in (1, 2, 3, 100):
        texts = {
            len(SEAL.seal(b"x" * length, *tenant_and_principal)) for tenant_and_principal in TENANTS_AND_PRINCIPALS
        }
        assert texts == {-(-(length + 18) * 4 // 3)}


@given(data=st.binary())
def test_base64url_text_has_one_form(data: bytes) -> None:
    """Bytes have exactly one base64url text."""
    text = base64url_encode(data)
    assert base64url_decode(text, len(text)) == data
    assert base64url_decode(text, len(text) - 1) is None
    for other in (text + "=", text + "\n", " " + text, text + "+", text + "A" * (1 + len(text) % 4 % 2)):
        assert base64url_decode(other, 10_000) != data
