"""The keys that tokens are checked with, out of a JWKS. The type of a key decides what it checks, not the token."""

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
"""with the bytes that a secret needs for each"""
KNOWN_ALGORITHMS = frozenset([*PUBLIC_KEY_ALGORITHMS, *HMAC])
MIN_RSA_BITS = 2048
_PUBLIC_MEMBERS = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x"), "oct": ("k",)}
"""of each type of key: more than these is not read, so that a private key that strayed in is only a public one"""
_IMPLEMENTED: Mapping[str, Algorithm] = get_default_algorithms()


class NoKeySet(Exception):
    """A text that is no JWKS."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """One key, and what it can check."""

    kid: str | None
    algorithms: frozenset[str]
    key: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeySet:
    """All keys of an issuer that this server can use."""

    keys: tuple[VerifyingKey, ...]
    skipped: int = 0
    """of other kinds, too weak, or broken"""

    def knows(self, kid: str | None) -> bool:
        """Whether there is a key of this id at all."""
        return kid is None or any(key.kid == kid for key in self.keys)

    def key_for(self, algorithm: str, kid: str | None) -> VerifyingKey | None:
        """The one key that fits; None where there is none, or where it is not said which."""
        fitting = [key for key in self.keys if algorithm in key.algorithms and (kid is None or key.kid == kid)]
        return fitting[0] if len(fitting) == 1 else None


def read_key_set(text: bytes | str, algorithms: Collection[str]) -> KeySet:
    """The keys of a JWKS that serve these algorithms; those that serve none are left out."""
    try:
        found = read_json(text, "The key set")
    except InvalidJson as problem:
        raise NoKeySet(problem.message) from None
    members = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(members, list):
        raise NoKeySet('It is no key set: a JWKS is an object such as {"keys": [ … ]}.')
    keys = [key for member in members if (key := _key(member, algorithms)) is not None]
    return KeySet(tuple(keys), len(members) - len(keys))


def _key(member: Any, algorithms: Collection[str]) -> VerifyingKey | None:
    if not isinstance(member, dict) or member.get("use", "sig") != "sig" or "verify" not in _uses(member):
        return None
    kid, kind = member.get("kid"), member.get("kty")
    if not isinstance(kid, str | None) or not isinstance(kind, str) or kind not in _PUBLIC_MEMBERS:
        return None
    possible = frozenset(_possible(kind, member)) & frozenset(algorithms)
    if "alg" in member:
        possible &= {member["alg"]} if isinstance(member["alg"], str) else frozenset()
    if not possible:
        return None
    public = {"kty": kind, **{name: member.get(name) for name in _PUBLIC_MEMBERS[kind]}}
    try:
        key = _IMPLEMENTED[min(possible)].from_jwk(public)
    except (PyJWTError, ValueError, TypeError, KeyError, AttributeError):  # as its parts are broken
        return None
    strong = frozenset(name for name in possible if _is_strong(kind, name, key))
    return VerifyingKey(kid, strong, key) if strong else None


def _uses(member: Mapping[str, Any]) -> list[Any]:
    uses = member.get("key_ops", ["verify"])
    return uses if isinstance(uses, list) else []


def _possible(kind: str, member: Mapping[str, Any]) -> Collection[str]:
    if kind == "RSA":
        return RSA
    if kind == "oct":
        return HMAC
    curve = member.get("crv")
    name = CURVES.get((kind, curve)) if isinstance(curve, str) else None
    return () if name is None else (name,)


def _is_strong(kind: str, algorithm: str, key: Any) -> bool:
    if kind == "RSA":
        return bool(key.key_size >= MIN_RSA_BITS)
    return kind != "oct" or len(key) >= HMAC[algorithm]
