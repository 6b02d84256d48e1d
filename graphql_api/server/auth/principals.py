"""Principals, and the API keys that identify them: long random texts, listed in a file with their principals.

The file may hold only the digests of the keys.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from typing import Any

from graphql_api.codecs import read_json
from graphql_api.errors import InvalidJson, Unauthenticated

MAX_CHARACTERS = 255
"""Maximum length of a subject, a group or a tenant. Subjects and tenants become part of keys."""
_MIN_KEY_LENGTH = 20
_MAX_KEY_LENGTH = 1024
_KEY = re.compile(rf"[!-~]{{{_MIN_KEY_LENGTH},{_MAX_KEY_LENGTH}}}")
_DIGEST = re.compile(r"[0-9A-Fa-f]{64}")
_MEMBERS = frozenset({"key", "sha256", "subject", "groups", "tenant"})


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated principal, or the anonymous one if there is no subject."""

    subject: str | None = None
    groups: frozenset[str] = frozenset()
    tenant: str | None = None
    expires: float | None = field(default=None, compare=False)
    """The time at which the credential expires, in seconds since 1970. Subscriptions end then."""


def is_valid_name(value: object) -> bool:
    """Return whether a value can be a subject, a group or a tenant."""
    return isinstance(value, str) and 0 < len(value) <= MAX_CHARACTERS and value.isprintable()


# --- API keys --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One API key, identified by its digest."""

    digest: bytes = field(repr=False)
    identity: Identity
    is_plain: bool = False
    """Whether the file holds the key itself instead of its digest."""


def authenticate_api_key(text: str, keys: Sequence[ApiKey]) -> Identity:
    """Return the principal of a key. The duration reveals nothing about any key."""
    digest = sha256(text.encode("latin-1", "replace")).digest()
    identities = [key.identity for key in keys if compare_digest(key.digest, digest)]
    if not identities:
        raise Unauthenticated("The header x-api-key holds no key that this server accepts.")
    return identities[0]


class InvalidApiKeys(ValueError):
    """The text is not a valid list of API keys. The message names the entry and never shows a key."""


def read_api_keys(text: bytes, *, has_tenants: bool) -> tuple[ApiKey, ...]:
    """Parse the keys of a file: `[{"sha256": "…", "subject": "robot", "groups": ["Reader"]}, …]`."""
    try:
        entries = read_json(text, "The file")
    except InvalidJson as error:
        raise InvalidApiKeys(error.message) from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidApiKeys("The file is not a list of objects.")
    keys: list[ApiKey] = []
    for number, entry in enumerate(entries, 1):
        try:
            keys.append(_parse_entry(entry, has_tenants=has_tenants))
        except InvalidApiKeys as error:
            raise InvalidApiKeys(f"Entry {number} {error}") from None
    if len({key.digest for key in keys}) < len(keys):
        raise InvalidApiKeys("The file contains a key twice.")
    return tuple(keys)


def _parse_entry(entry: Mapping[str, Any], *, has_tenants: bool) -> ApiKey:
    unknown = sorted(entry.keys() - _MEMBERS)
    if unknown:
        raise InvalidApiKeys(f"has {unknown[0][:40]!r}: allowed members are {', '.join(sorted(_MEMBERS))}.")
    subject, groups, tenant = entry.get("subject"), entry.get("groups", []), entry.get("tenant")
    if not is_valid_name(subject):
        raise InvalidApiKeys("has no subject: set a text of printable characters.")
    if not isinstance(groups, list) or not all(map(is_valid_name, groups)):
        raise InvalidApiKeys("has groups that are not a list of texts.")
    if tenant is not None and not is_valid_name(tenant):
        raise InvalidApiKeys("has a tenant that is not a text of printable characters.")
    if tenant is None and has_tenants:
        raise InvalidApiKeys("has no tenant, but SHARDQL_TENANT_CLAIM is set: add a tenant.")
    if tenant is not None and not has_tenants:
        raise InvalidApiKeys("has a tenant, but SHARDQL_TENANT_CLAIM is not set: set it, or remove the tenant.")
    return ApiKey(_parse_digest(entry), Identity(subject, frozenset(groups), tenant), "key" in entry)


def _parse_digest(entry: Mapping[str, Any]) -> bytes:
    key, digest = entry.get("key"), entry.get("sha256")
    if (key is None) == (digest is None):
        raise InvalidApiKeys("must have either key or sha256.")
    if key is None:
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise InvalidApiKeys("has a sha256 that is not 64 hexadecimal digits.")
        return bytes.fromhex(digest)
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidApiKeys(
            f"has a key that is not a text of {_MIN_KEY_LENGTH} to {_MAX_KEY_LENGTH:,} visible ASCII characters: "
            "`openssl rand -base64 32` generates one."
        )
    return sha256(key.encode()).digest()
