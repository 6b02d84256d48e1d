"""API keys: long random texts, listed in a file with their principals. The file may hold only their digests."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from typing import Any

from graphql_api.errors import InvalidJson, Unauthenticated
from graphql_api.server import read_json
from graphql_api.server.auth.identity import Identity
from graphql_api.server.auth.token_claims import is_valid_name

MIN_CHARACTERS = 20
MAX_CHARACTERS = 1024
_KEY = re.compile(rf"[!-~]{{{MIN_CHARACTERS},{MAX_CHARACTERS}}}")
_DIGEST = re.compile(r"[0-9A-Fa-f]{64}")
_MEMBERS = frozenset({"key", "sha256", "subject", "groups", "tenant"})


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One API key, identified by its digest."""

    digest: bytes = field(repr=False)
    identity: Identity
    is_plain: bool = False
    """Whether the file holds the key itself instead of its digest."""


@dataclass(frozen=True, slots=True)
class ApiKeySet:
    """All accepted API keys."""

    keys: tuple[ApiKey, ...]

    def authenticate(self, text: str) -> Identity:
        """Return the principal of a key. The duration reveals nothing about any key."""
        digest = sha256(text.encode("latin-1", "replace")).digest()
        identities = [key.identity for key in self.keys if compare_digest(key.digest, digest)]
        if not identities:
            raise Unauthenticated("The header x-api-key holds no key that this server accepts.")
        return identities[0]


class InvalidApiKeys(Exception):
    """The text is not a valid list of API keys. The message names the entry and never shows a key."""


def read_api_keys(text: bytes, *, has_tenants: bool) -> ApiKeySet:
    """Parse the keys of a file: `[{"sha256": "…", "subject": "robot", "groups": ["Reader"]}, …]`."""
    try:
        entries = read_json(text, "The file")
    except InvalidJson as error:
        raise InvalidApiKeys(error.message) from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidApiKeys("The file is not a list of objects.")
    keys = tuple(_parse_entry(number, entry, has_tenants=has_tenants) for number, entry in enumerate(entries, 1))
    if len({key.digest for key in keys}) < len(keys):
        raise InvalidApiKeys("The file contains a key twice.")
    return ApiKeySet(keys)


def _parse_entry(number: int, entry: Mapping[str, Any], *, has_tenants: bool) -> ApiKey:
    unknown = sorted(entry.keys() - _MEMBERS)
    if unknown:
        raise InvalidApiKeys(
            f"Entry {number} has {unknown[0][:40]!r}: allowed members are {', '.join(sorted(_MEMBERS))}."
        )
    subject, groups, tenant = entry.get("subject"), entry.get("groups", []), entry.get("tenant")
    if not is_valid_name(subject):
        raise InvalidApiKeys(f"Entry {number} has no subject: set a text of printable characters.")
    if not isinstance(groups, list) or not all(map(is_valid_name, groups)):
        raise InvalidApiKeys(f"Entry {number} has groups that are not a list of texts.")
    if tenant is not None and not is_valid_name(tenant):
        raise InvalidApiKeys(f"Entry {number} has a tenant that is not a text of printable characters.")
    if tenant is None and has_tenants:
        raise InvalidApiKeys(f"Entry {number} has no tenant, but SHARDQL_TENANT_CLAIM is set: add a tenant.")
    if tenant is not None and not has_tenants:
        raise InvalidApiKeys(
            f"Entry {number} has a tenant, but SHARDQL_TENANT_CLAIM is not set: set it, or remove the tenant."
        )
    return ApiKey(_parse_digest(number, entry), Identity(subject, frozenset(groups), tenant), "key" in entry)


def _parse_digest(number: int, entry: Mapping[str, Any]) -> bytes:
    key, digest = entry.get("key"), entry.get("sha256")
    if (key is None) == (digest is None):
        raise InvalidApiKeys(f"Entry {number} must have either key or sha256.")
    if key is not None:
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise InvalidApiKeys(
                f"Entry {number} has a key that is not a text of {MIN_CHARACTERS} to {MAX_CHARACTERS:,} visible ASCII "
                "characters: `openssl rand -base64 32` generates one."
            )
        return sha256(key.encode()).digest()
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise InvalidApiKeys(f"Entry {number} has a sha256 that is not 64 hexadecimal digits.")
    return bytes.fromhex(digest)
