"""Key sets and signatures: which key may verify which token."""

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.bearer_tokens import MAX_TOKEN_LENGTH, parse_signed_token
from graphql_api.server.auth.jwks import (
    HMAC,
    KNOWN_ALGORITHMS,
    PUBLIC_KEY_ALGORITHMS,
    JwksUnavailable,
    KeySet,
    read_key_set,
)
from tests.support.token_issuer import (
    ALGORITHMS,
    hmac_token,
    jwks,
    private_key,
    public_der,
    public_jwk,
    public_pem,
    sign_token,
    token_segment,
)

CLAIMS = {"sub": "alice", "exp": 1}
SECRET = bytes(range(64))


def secret_jwk(secret: bytes, **members: Any) -> dict[str, Any]:
    """Return a secret as a member of a key set."""
    return {"kty": "oct", "k": urlsafe_b64encode(secret).rstrip(b"=").decode(), **members}


def key_set(*members: dict[str, Any], algorithms: Any = PUBLIC_KEY_ALGORITHMS) -> KeySet:
    """Read a key set with these members."""
    return read_key_set(jwks(*members), algorithms)


def verified(token: str, keys: KeySet) -> dict[str, Any] | None:
    """Return the claims of a token, or None if no key matches or its signature is invalid."""
    text = parse_signed_token(token)
    key = keys.key_for(text.algorithm, text.kid)
    try:
        return None if key is None else text.verified_claims(key)
    except Unauthenticated:
        return None


# --- keys ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "Ed448"])
def test_every_algorithm_with_a_public_key(algorithm: str) -> None:
    """A signature is verified with the public key, for each algorithm that is accepted by default."""
    key = private_key(algorithm)
    keys = key_set(public_jwk(algorithm, key, kid="k"))
    token = sign_token("EdDSA" if algorithm == "Ed448" else algorithm, key, CLAIMS, "k")
    assert verified(token, keys) == CLAIMS
    head, body, signature = token.split(".")
    assert verified(f"{head}.{token_segment({**CLAIMS, 'sub': 'bob'})}.{signature}", keys) is None
    assert verified(f"{head}.{body}.", keys) is None
    assert verified(f"{head}.{body}.{'A' * len(signature)}", keys) is None


def test_algorithms_of_a_key() -> None:
    """The type of a key determines its algorithms, and its `alg` limits them."""
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
        secret_jwk(SECRET),
        {},
        [],
        None,
        "key",
    ],
)
def test_unusable_keys_are_skipped(member: Any) -> None:
    """A key that is unsupported, too weak or broken is skipped. The other keys stay usable."""
    keys = key_set(member, public_jwk("ES256", private_key("ES256"), kid="good"))
    assert [key.kid for key in keys.keys] == ["good"]
    assert keys.skipped == 1


def test_a_private_key_is_read_as_a_public_one() -> None:
    """Only the public part of a private key in a key set is read."""
    key = private_key("RS256")
    whole = json.loads(str(RSAAlgorithm.to_jwk(key)))
    keys = key_set({**whole, "kid": "k", "key_ops": ["sign", "verify"]})
    assert "d" in whole
    assert not hasattr(keys.keys[0].key, "private_numbers")
    assert verified(sign_token("RS256", key, CLAIMS, "k"), keys) == CLAIMS


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"keys": {}}', "<html>", '{"keys": [', '{"keys": [], "keys": []}', "\xff"]
)
def test_invalid_key_sets(text: str) -> None:
    """An invalid key set is refused as a whole, with a reason."""
    with pytest.raises(JwksUnavailable, match=r"\w"):
        read_key_set(text.encode("latin-1"), PUBLIC_KEY_ALGORITHMS)


def test_empty_key_set() -> None:
    """A key set without keys is valid. Its issuer has withdrawn all keys."""
    assert key_set() == KeySet(())


def test_key_selection() -> None:
    """The key id selects the key. A token without one, or with an ambiguous one, needs a single matching key."""
    first, second = private_key("ES256", 1), private_key("ES256", 2)
    one = key_set(public_jwk("ES256", first, kid="a"), public_jwk("RS256", private_key("RS256"), kid="b"))
    two = key_set(public_jwk("ES256", first, kid="a"), public_jwk("ES256", second, kid="b"))
    twice = key_set(public_jwk("ES256", first, kid="a"), public_jwk("ES256", second, kid="a"))
    assert verified(sign_token("ES256", first, CLAIMS), one) == CLAIMS
    assert verified(sign_token("ES256", first, CLAIMS), two) is None
    assert verified(sign_token("ES256", first, CLAIMS, "a"), two) == CLAIMS
    assert verified(sign_token("ES256", first, CLAIMS, "b"), two) is None
    assert verified(sign_token("ES256", first, CLAIMS, "c"), two) is None
    assert verified(sign_token("ES256", first, CLAIMS, "a"), twice) is None


# --- secrets ---------------------------------------------------------------------------------------------------


def test_secrets_need_a_configured_algorithm() -> None:
    """A secret in the key set is usable for HMAC if configured, and only if it is long enough."""
    everything = key_set(secret_jwk(SECRET, kid="k"), algorithms=KNOWN_ALGORITHMS)
    short = key_set(secret_jwk(SECRET[:32], kid="k"), algorithms=KNOWN_ALGORITHMS)
    assert everything.keys[0].algorithms == set(HMAC)
    assert short.keys[0].algorithms == {"HS256"}
    assert not key_set(secret_jwk(SECRET[:31]), algorithms=KNOWN_ALGORITHMS).keys
    assert verified(sign_token("HS512", SECRET, CLAIMS, "k"), everything) == CLAIMS
    assert verified(sign_token("HS512", SECRET, CLAIMS, "k"), short) is None


@pytest.mark.parametrize("form", [public_pem, public_der, lambda key: json.dumps(public_jwk("RS256", key)).encode()])
@pytest.mark.parametrize("kid", ["rsa", "secret", None])
def test_a_public_key_is_never_a_secret(form: Any, kid: str | None) -> None:
    """A token signed by HMAC with the text of the public key is refused, even if HMAC is accepted."""
    key = private_key("RS256")
    keys = key_set(public_jwk("RS256", key, kid="rsa"), secret_jwk(SECRET, kid="secret"), algorithms=KNOWN_ALGORITHMS)
    forged = hmac_token(form(key), CLAIMS, kid)
    assert verified(forged, keys) is None
    assert verified(sign_token("HS256", SECRET, CLAIMS, "secret"), keys) == CLAIMS


# --- headers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "message"),
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
def test_invalid_headers(head: object, message: str) -> None:
    """A header of an unsupported form is refused before a key is looked up."""
    with pytest.raises(Unauthenticated, match=message):
        parse_signed_token(f"{token_segment(head)}.{token_segment(CLAIMS)}.AAAA")


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
        f"{token_segment({'alg': 'RS256'})}\n.e30.x",
    ],
)
def test_malformed_tokens(token: str) -> None:
    """A text without three parts in base64url is refused."""
    with pytest.raises(Unauthenticated, match="three parts"):
        parse_signed_token(token)


def test_token_size_limit() -> None:
    """A token above the size limit is refused before it is parsed."""
    key = private_key("ES256")
    keys = key_set(public_jwk("ES256", key))
    assert verified(sign_token("ES256", key, {"pad": "x" * 10_000}), keys) == {"pad": "x" * 10_000}
    with pytest.raises(Unauthenticated, match=f"at most {MAX_TOKEN_LENGTH:,}"):
        parse_signed_token(sign_token("ES256", key, {"pad": "x" * MAX_TOKEN_LENGTH}))


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"\xff", b'{"sub": "a", "sub": "b"}', b'{"exp": NaN}', b"[" * 3000]
)
def test_invalid_claims(body: bytes) -> None:
    """A body that is not an unambiguous JSON object is refused, even with a valid signature."""
    key = private_key("ES256")
    keys = key_set(public_jwk("ES256", key))
    assert verified(sign_token("ES256", key, b'{"sub": "a"}'), keys) == {"sub": "a"}
    assert is_refused(sign_token("ES256", key, body), keys)


def is_refused(token: str, keys: KeySet) -> bool:
    """Return whether a token is refused, by its form or its content."""
    try:
        return verified(token, keys) is None
    except Unauthenticated:
        return True


TOKEN = sign_token("ES256", private_key("ES256"), CLAIMS, "k")
KEYS = key_set(public_jwk("ES256", private_key("ES256"), kid="k"))


@given(st.integers(0, len(TOKEN) - 1), st.sampled_from("ABCDxyz019-_.=~ "))
@example(len(TOKEN) - 1, "A")
def test_any_changed_character(at: int, character: str) -> None:
    """A token is refused after any change of one character."""
    changed = TOKEN[:at] + character + TOKEN[at + 1 :]
    assert verified(TOKEN, KEYS) == CLAIMS
    assert changed == TOKEN or is_refused(changed, KEYS)


@given(st.text(max_size=60) | st.lists(st.binary(max_size=30).map(token_segment), min_size=3, max_size=3).map(".".join))
def test_any_text(text: str) -> None:
    """Any text is refused as a token, without an unexpected error."""
    assert is_refused(text, KEYS)
