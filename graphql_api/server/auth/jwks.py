"""A JWKS: the keys that verify tokens. The type of a key decides which algorithms it verifies, never the token."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from jwt.algorithms import Algorithm, get_default_algorithms
from jwt.exceptions import PyJWTError

from graphql_api.errors import InvalidJson
from graphql_api.server import read_json

RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVES: Mapping[tuple[str, str], str] = {
    ("EC", "P-256"): "ES256",
    ("EC", "P-384"): "ES384",
    ("EC", "P-521"): "ES512",
    ("OKP", "Ed25519"): "EdDSA",
    ("OKP", "Ed448"): "EdDSA",
}
PUBLIC_KEY_ALGORITHMS = (*RSA, "ES256", "ES384", "ES512", "EdDSA")
HMAC = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Each HMAC algorithm with the minimum size of its secret, in bytes."""
KNOWN_ALGORITHMS = frozenset([*PUBLIC_KEY_ALGORITHMS, *HMAC])
MIN_RSA_BITS = 2048
_PUBLIC_MEMBERS = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x"), "oct": ("k",)}
"""The members that are read of each key type. Private members are ignored, so a private key acts as a public one."""
_IMPLEMENTATIONS: Mapping[str, Algorithm] = get_default_algorithms()


class InvalidKeySet(Exception):
    """The text is not a JWKS."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key, and the algorithms that it verifies."""

    kid: str | None
    algorithms: frozenset[str]
    key: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeySet:
    """All usable keys of an issuer."""

    keys: tuple[VerifyingKey, ...]
    skipped: int = 0
    """Number of keys that are unusable: of another type, too weak or invalid."""

    def has_key_id(self, kid: str | None) -> bool:
        """Return whether any key has this id. A missing id matches every key."""
        return kid is None or any(key.kid == kid for key in self.keys)

    def key_for(self, algorithm: str, kid: str | None) -> VerifyingKey | None:
        """Return the only matching key. Return None if there is no match, or more than one."""
        matching = [key for key in self.keys if algorithm in key.algorithms and (kid is None or key.kid == kid)]
        return matching[0] if len(matching) == 1 else None


def read_key_set(text: bytes | str, algorithms: Collection[str]) -> KeySet:
    """Parse a JWKS. Keep only keys that support one of these algorithms."""
    try:
        document = read_json(text, "The key set")
    except InvalidJson as error:
        raise InvalidKeySet(error.message) from None
    members = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(members, list):
        raise InvalidKeySet('The text is not a key set: a JWKS is an object such as {"keys": [ … ]}.')
    keys = [key for member in members if (key := _parse_key(member, algorithms)) is not None]
    return KeySet(tuple(keys), len(members) - len(keys))


def _parse_key(member: Any, algorithms: Collection[str]) -> VerifyingKey | None:
    if not isinstance(member, dict) or member.get("use", "sig") != "sig" or "verify" not in _operations(member):
        return None
    kid, key_type = member.get("kid"), member.get("kty")
    if not isinstance(kid, str | None) or not isinstance(key_type, str) or key_type not in _PUBLIC_MEMBERS:
        return None
    supported = frozenset(_algorithms_of_type(key_type, member)) & frozenset(algorithms)
    if "alg" in member:
        supported &= {member["alg"]} if isinstance(member["alg"], str) else frozenset()
    if not supported:
        return None
    public = {"kty": key_type, **{name: member.get(name) for name in _PUBLIC_MEMBERS[key_type]}}
    try:
        key = _IMPLEMENTATIONS[min(supported)].from_jwk(public)
    except (PyJWTError, ValueError, TypeError, KeyError, AttributeError):  # Raised for various invalid members.
        return None
    strong = frozenset(name for name in supported if _is_strong(key_type, name, key))
    return VerifyingKey(kid, strong, key) if strong else None


def _operations(member: Mapping[str, Any]) -> list[Any]:
    operations = member.get("key_ops", ["verify"])
    return operations if isinstance(operations, list) else []


def _algorithms_of_type(key_type: str, member: Mapping[str, Any]) -> Collection[str]:
    if key_type == "RSA":
        return RSA
    if key_type == "oct":
        return HMAC
    curve = member.get("crv")
    name = CURVES.get((key_type, curve)) if isinstance(curve, str) else None
    return () if name is None else (name,)


def _is_strong(key_type: str, algorithm: str, key: Any) -> bool:
    if key_type == "RSA":
        return bool(key.key_size >= MIN_RSA_BITS)
    return key_type != "oct" or len(key) >= HMAC[algorithm]
