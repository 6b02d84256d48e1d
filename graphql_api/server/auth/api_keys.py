"""API keys: long random texts in a file, each with whom it stands for. The file may hold their digests alone."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from typing import Any

from graphql_api.errors import InvalidJson, Unauthenticated
from graphql_api.server import read_json
from graphql_api.server.auth.identity import Identity
from graphql_api.server.auth.token_claims import is_name

MIN_CHARACTERS = 20
MAX_CHARACTERS = 1024
_KEY = re.compile(rf"[!-~]{{{MIN_CHARACTERS},{MAX_CHARACTERS}}}")
_DIGEST = re.compile(r"[0-9A-Fa-f]{64}")
_MEMBERS = frozenset({"key", "sha256", "subject", "groups", "tenant"})


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key, known by its digest."""

    digest: bytes = field(repr=False)
    identity: Identity
    is_plain: bool = False
    """the file holds the key itself"""


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """All keys that are taken."""

    keys: tuple[ApiKey, ...]

    def identity(self, text: str) -> Identity:
        """Whom a key stands for. How long that takes says nothing about any key."""
        digest = sha256(text.encode("latin-1", "replace")).digest()
        found = [key.identity for key in self.keys if compare_digest(key.digest, digest)]
        if not found:
            raise Unauthenticated("The header x-api-key holds no key of this server.")
        return found[0]


class NoApiKeys(Exception):
    """A text that is no list of keys; it is told by the place, and never shows a key."""


def read_api_keys(text: bytes, *, has_tenants: bool) -> ApiKeys:
    """The keys of a file: `[{"sha256": "…", "subject": "robot", "groups": ["Reader"]}, …]`."""
    try:
        found = read_json(text, "The file")
    except InvalidJson as problem:
        raise NoApiKeys(problem.message) from None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise NoApiKeys("It is no list of objects.")
    keys = tuple(_key(number, one, has_tenants=has_tenants) for number, one in enumerate(found, 1))
    if len({key.digest for key in keys}) < len(keys):
        raise NoApiKeys("A key stands in it twice.")
    return ApiKeys(keys)


def _key(number: int, said: Mapping[str, Any], *, has_tenants: bool) -> ApiKey:
    unknown = sorted(said.keys() - _MEMBERS)
    if unknown:
        raise NoApiKeys(f"Entry {number} has {unknown[0][:40]!r}: an entry has {', '.join(sorted(_MEMBERS))}.")
    subject, groups, tenant = said.get("subject"), said.get("groups", []), said.get("tenant")
    if not is_name(subject):
        raise NoApiKeys(f"Entry {number} has no subject: give a text of printable characters.")
    if not isinstance(groups, list) or not all(map(is_name, groups)):
        raise NoApiKeys(f"Entry {number} has groups that are no list of texts.")
    if tenant is not None and not is_name(tenant):
        raise NoApiKeys(f"Entry {number} has a tenant that is no text of printable characters.")
    if (tenant is not None) != has_tenants:
        told = "no tenant, and SHARDQL_TENANT_CLAIM says that there are some" if has_tenants else "a tenant"
        raise NoApiKeys(f"Entry {number} has {told}: {_tenant_remedy(has_tenants=has_tenants)}.")
    return ApiKey(_digest(number, said), Identity(subject, frozenset(groups), tenant), "key" in said)


def _tenant_remedy(*, has_tenants: bool) -> str:
    return (
        "give it one" if has_tenants else "set SHARDQL_TENANT_CLAIM, which says that there are tenants, or leave it out"
    )


def _digest(number: int, said: Mapping[str, Any]) -> bytes:
    key, digest = said.get("key"), said.get("sha256")
    if (key is None) == (digest is None):
        raise NoApiKeys(f"Entry {number} must have either key or sha256.")
    if key is not None:
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise NoApiKeys(
                f"Entry {number} has a key that is no text of {MIN_CHARACTERS} to {MAX_CHARACTERS:,} visible ASCII "
                "characters: `openssl rand -base64 32` makes one."
            )
        return sha256(key.encode()).digest()
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise NoApiKeys(f"Entry {number} has a sha256 that is not 64 hexadecimal digits.")
    return bytes.fromhex(digest)
