"""Keys and signatures: which key may vouch for which token, and what no key vouches for."""

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.jwks import (
    HMAC,
    KNOWN_ALGORITHMS,
    PUBLIC_KEY_ALGORITHMS,
    InvalidKeySet,
    KeySet,
    read_key_set,
)
from graphql_api.server.auth.jws import MAX_CHARACTERS, parse_signed_token
from tests.issuer import ALGORITHMS, hmac_token, jwks, part, private_key, public_der, public_jwk, public_pem, signed

SAID = {"sub": "alice", "exp": 1}
SECRET = bytes(range(64))


def octets(secret: bytes, **members: Any) -> dict[str, Any]:
    """A secret as a member of a key set."""
    return {"kty": "oct", "k": urlsafe_b64encode(secret).rstrip(b"=").decode(), **members}


def key_set(*members: dict[str, Any], algorithms: Any = PUBLIC_KEY_ALGORITHMS) -> KeySet:
    """The keys that a server finds in a key set."""
    return read_key_set(jwks(*members), algorithms)


def checked(token: str, keys: KeySet) -> dict[str, Any] | None:
    """The claims of a token, or None where no key is for it or its key does not vouch for it."""
    text = parse_signed_token(token)
    key = keys.key_for(text.algorithm, text.kid)
    try:
        return None if key is None else text.verified_claims(key)
    except Unauthenticated:
        return None


# --- keys ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "Ed448"])
def test_every_algorithm_with_a_public_key(algorithm: str) -> None:
    """A token is checked with the public key of its signer, by each algorithm that is accepted by default."""
    key = private_key(algorithm)
    keys = key_set(public_jwk(algorithm, key, kid="k"))
    token = signed("EdDSA" if algorithm == "Ed448" else algorithm, key, SAID, "k")
    assert checked(token, keys) == SAID
    head, body, signature = token.split(".")
    assert checked(f"{head}.{part({**SAID, 'sub': 'bob'})}.{signature}", keys) is None
    assert checked(f"{head}.{body}.", keys) is None
    assert checked(f"{head}.{body}.{'A' * len(signature)}", keys) is None


def test_what_a_key_serves() -> None:
    """The type of a key decides what it checks, and its own `alg` narrows that."""
    rsa, curve = private_key("RS256"), private_key("ES384")
    keys = key_set(
        public_jwk("RS256", rsa, kid="rsa"),
        public_jwk("RS256", rsa, kid="one", alg="PS256"),
        public_jwk("ES384", curve),
    )
    assert [sorted(key.algorithms) for key in keys.keys] == [
        ["PS256", "PS384", "PS512", "RS256", "RS384", "RS512"],
        ["PS256"],
        ["ES384"],
    ]
    assert keys.key_for("RS256", "one") is None
    assert keys.key_for("ES384", "rsa") is None
    assert [sorted(key.algorithms) for key in key_set(public_jwk("RS256", rsa), algorithms={"RS512"}).keys] == [
        ["RS512"]
    ]


RSA_KEY = public_jwk("RS256", private_key("RS256"))


@pytest.mark.parametrize(
    "member",
    [
        {**RSA_KEY, "use": "enc"},
        {**RSA_KEY, "key_ops": ["encrypt"]},
        {**RSA_KEY, "key_ops": "verify"},
        {**RSA_KEY, "alg": "RSA-OAEP"},
        {**RSA_KEY, "alg": ["RS256"]},
        {**RSA_KEY, "alg": "HS256"},
        {**RSA_KEY, "kid": 7},
        {**RSA_KEY, "n": "!"},
        {**RSA_KEY, "n": None},
        {**RSA_KEY, "e": "AQ"},
        {**RSA_KEY, "kty": "rsa"},
        {**RSA_KEY, "kty": ["RSA"]},
        {"kty": "RSA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": {}, "x": 1, "y": 2},
        {"kty": "OKP", "crv": "X25519", "x": "AA"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
        public_jwk("RS256", private_key("RS256", bits=1024)),
        octets(SECRET),
        {},
        [],
        None,
        "key",
    ],
)
def test_keys_that_are_left_out(member: Any) -> None:
    """A key for other purposes, of other kinds, too weak or broken is left out, and the others serve all the same."""
    keys = key_set(member, public_jwk("ES256", private_key("ES256"), kid="good"))
    assert [key.kid for key in keys.keys] == ["good"]
    assert keys.skipped == 1


def test_a_private_key_is_read_as_a_public_one() -> None:
    """A private key that strayed into a key set is only read for its public part."""
    key = private_key("RS256")
    whole = json.loads(str(RSAAlgorithm.to_jwk(key)))
    keys = key_set({**whole, "kid": "k", "key_ops": ["sign", "verify"]})
    assert "d" in whole
    assert not hasattr(keys.keys[0].key, "private_numbers")
    assert checked(signed("RS256", key, SAID, "k"), keys) == SAID


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"keys": {}}', "<html>", '{"keys": [', '{"keys": [], "keys": []}', "\xff"]
)
def test_texts_that_are_no_key_sets(text: str) -> None:
    """What is no key set is refused as a whole, and says why."""
    with pytest.raises(InvalidKeySet, match=r"\w"):
        read_key_set(text.encode("latin-1"), PUBLIC_KEY_ALGORITHMS)


def test_an_empty_key_set_is_one() -> None:
    """A key set without keys is one: its issuer has withdrawn them all."""
    assert key_set() == KeySet(())


def test_which_key_by_its_id() -> None:
    """The id picks the key; a token without one is only checked where a single key fits, and so is a doubled id."""
    first, second = private_key("ES256", 1), private_key("ES256", 2)
    one = key_set(public_jwk("ES256", first, kid="a"), public_jwk("RS256", private_key("RS256"), kid="b"))
    two = key_set(public_jwk("ES256", first, kid="a"), public_jwk("ES256", second, kid="b"))
    twice = key_set(public_jwk("ES256", first, kid="a"), public_jwk("ES256", second, kid="a"))
    assert checked(signed("ES256", first, SAID), one) == SAID
    assert checked(signed("ES256", first, SAID), two) is None
    assert checked(signed("ES256", first, SAID, "a"), two) == SAID
    assert checked(signed("ES256", first, SAID, "b"), two) is None
    assert checked(signed("ES256", first, SAID, "c"), two) is None
    assert checked(signed("ES256", first, SAID, "a"), twice) is None


# --- secrets ---------------------------------------------------------------------------------------------------


def test_secrets_serve_if_they_are_asked_for() -> None:
    """A secret in the key set serves HMAC where that is named, and only as far as it is long enough."""
    everything = key_set(octets(SECRET, kid="k"), algorithms=KNOWN_ALGORITHMS)
    short = key_set(octets(SECRET[:32], kid="k"), algorithms=KNOWN_ALGORITHMS)
    assert everything.keys[0].algorithms == set(HMAC)
    assert short.keys[0].algorithms == {"HS256"}
    assert not key_set(octets(SECRET[:31]), algorithms=KNOWN_ALGORITHMS).keys
    assert checked(signed("HS512", SECRET, SAID, "k"), everything) == SAID
    assert checked(signed("HS512", SECRET, SAID, "k"), short) is None


@pytest.mark.parametrize("form", [public_pem, public_der, lambda key: json.dumps(public_jwk("RS256", key)).encode()])
@pytest.mark.parametrize("kid", ["rsa", "secret", None])
def test_a_public_key_is_never_a_secret(form: Any, kid: str | None) -> None:
    """A token signed by HMAC with the text of the public key is refused, even where HMAC is accepted."""
    key = private_key("RS256")
    keys = key_set(public_jwk("RS256", key, kid="rsa"), octets(SECRET, kid="secret"), algorithms=KNOWN_ALGORITHMS)
    forged = hmac_token(form(key), SAID, kid)
    assert checked(forged, keys) is None
    assert checked(signed("HS256", SECRET, SAID, "secret"), keys) == SAID


# --- heads -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ({"typ": "JWT"}, "has no algorithm"),
        ({"alg": None}, "has no algorithm"),
        ({"alg": ["RS256"]}, "has no algorithm"),
        ({"alg": "RS256", "kid": 7}, "not a text"),
        ({"alg": "RS256", "crit": ["exp"], "exp": 1}, "extensions"),
        ({"alg": "RS256", "b64": False}, "extensions"),
        ({"alg": "RS256", "typ": "logout+jwt"}, "a typ that is neither JWT"),
        ({"alg": "RS256", "typ": None}, "a typ that is neither JWT"),
        ([], "not a JSON object"),
        (b"[" * 5000, "not a JSON object"),
        (b'{"alg": "none", "alg": "RS256"}', "not a JSON object"),
        (b'{"alg": "RS256", "kid": "\\ud800"}', "not a JSON object"),
        (b"\xff\xfe", "not a JSON object"),
        (b"", "three parts"),
    ],
)
def test_heads_that_are_refused(head: object, said: str) -> None:
    """A head of an unknown form is refused before any key is looked for."""
    with pytest.raises(Unauthenticated, match=said):
        parse_signed_token(f"{part(head)}.{part(SAID)}.AAAA")


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "a.b",
        "a.b.c.d",
        "a.b.c.d.e",
        "a b.c.d",
        "a=.b.c",
        "\u00e9.b.c",
        f"{part({'alg': 'RS256'})}\n.e30.x",
    ],
)
def test_texts_that_are_no_tokens(token: str) -> None:
    """What has not three parts in base64url is refused."""
    with pytest.raises(Unauthenticated, match="three parts"):
        parse_signed_token(token)


def test_long_tokens_are_not_read() -> None:
    """A token beyond the limit is refused before anything of it is read; one below it is not."""
    key = private_key("ES256")
    keys = key_set(public_jwk("ES256", key))
    assert checked(signed("ES256", key, {"pad": "x" * 10_000}), keys) == {"pad": "x" * 10_000}
    with pytest.raises(Unauthenticated, match=f"at most {MAX_CHARACTERS:,}"):
        parse_signed_token(signed("ES256", key, {"pad": "x" * MAX_CHARACTERS}))


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"\xff", b'{"sub": "a", "sub": "b"}', b'{"exp": NaN}', b"[" * 3000]
)
def test_signed_bodies_that_are_no_claims(body: bytes) -> None:
    """Even the signature of the issuer makes no claims of what is no JSON object of one meaning."""
    key = private_key("ES256")
    keys = key_set(public_jwk("ES256", key))
    assert checked(signed("ES256", key, b'{"sub": "a"}'), keys) == {"sub": "a"}
    assert checked_or_refused(signed("ES256", key, body), keys)


def checked_or_refused(token: str, keys: KeySet) -> bool:
    """Whether a token is refused, by its form or by its contents."""
    try:
        return checked(token, keys) is None
    except Unauthenticated:
        return True


TOKEN = signed("ES256", private_key("ES256"), SAID, "k")
KEYS = key_set(public_jwk("ES256", private_key("ES256"), kid="k"))


@given(st.integers(0, len(TOKEN) - 1), st.sampled_from("ABCDxyz019-_.=~ "))
@example(len(TOKEN) - 1, "A")
def test_any_changed_character(at: int, character: str) -> None:
    """A token of which one character was changed is refused."""
    changed = TOKEN[:at] + character + TOKEN[at + 1 :]
    assert checked(TOKEN, KEYS) == SAID
    assert changed == TOKEN or checked_or_refused(changed, KEYS)


@given(st.text(max_size=60) | st.lists(st.binary(max_size=30).map(part), min_size=3, max_size=3).map(".".join))
def test_any_text(text: str) -> None:
    """Any text is refused as a token, and nothing else happens."""
    assert checked_or_refused(text, KEYS)
