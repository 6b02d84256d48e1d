"""Hash keys: `[tenant|]head!shard[|name#value…]`, exact but in no meaningful order (docs/key-format.md)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from graphql_api.codecs.key_segments import well_formed
from graphql_api.codecs.scalar_codec import shown
from graphql_api.errors import EmptyKey, InvalidValue, KeyTooLong, about

MAX_HASH_BYTES = 2048

MAX_REMEMBERED = 1_024
"""hash keys: records that are written or read together have most of theirs in common"""

_ESCAPED = {"%": "%25", "|": "%7C", "#": "%23", "!": "%21", "/": "%2F"}
_ESCAPES = str.maketrans(_ESCAPED)
_PLAIN = {escape: plain for plain, escape in _ESCAPED.items()}
_ESCAPE = re.compile("|".join(_PLAIN))
_RESERVED = re.compile("[%|#!/]")


@dataclass(frozen=True, slots=True)
class HashKeyParts:
    """What a hash key says."""

    tenant: str | None
    head: str
    shard: str
    values: tuple[tuple[str, str], ...]


def hash_key(head: str, shard: str, values: Sequence[tuple[str, str]] = (), tenant: str | None = None) -> str:
    """The hash key of one shard of `head`, narrowed to the values of some properties."""
    return _hash_key(head, shard, tuple(values), tenant)


@lru_cache(MAX_REMEMBERED)
def _hash_key(head: str, shard: str, values: tuple[tuple[str, str], ...], tenant: str | None) -> str:
    if not head or any(map(_RESERVED.search, (head, shard, *(name for name, _ in values)))):
        raise ValueError(f"{head!r}, {shard!r} and the names of {values!r} cannot stand unescaped in a hash key")
    if tenant == "":
        raise EmptyKey("The tenant is empty. Give the tenant's id, or none at all.", argument="tenant")
    slot = "" if tenant is None else _tenant_slot(tenant)
    key = f"{slot}{head}!{shard}" + "".join(f"|{name}#{_escape(value)}" for name, value in values)
    size = len(key.encode())
    if size > MAX_HASH_BYTES:
        names = ", ".join(name for name, _ in values) or "the tenant"
        raise KeyTooLong(f"The hash key would have {size:,} bytes, at most {MAX_HASH_BYTES:,} fit. Shorten {names}.")
    return key


def _tenant_slot(tenant: str) -> str:
    with about("tenant"):
        return f"{_escape(tenant)}|"


def parse_hash_key(text: str) -> HashKeyParts:
    """The inverse of `hash_key`."""
    front, _, back = text.partition("!")
    tenant, slot, head = front.rpartition("|")
    shard, *pairs = back.split("|")
    values = tuple((name, _unescape(value)) for name, _, value in (pair.partition("#") for pair in pairs))
    parts = HashKeyParts(_unescape(tenant) if slot else None, head, shard, values)
    try:
        if hash_key(head, shard, values, parts.tenant) == text:
            return parts
    except (ValueError, EmptyKey, InvalidValue, KeyTooLong):
        pass
    raise InvalidValue(f"{shown(text)} is no hash key. Read keys only from where ShardQL wrote them.")


def _escape(value: str) -> str:
    return well_formed(value).translate(_ESCAPES)


def _unescape(value: str) -> str:
    return _ESCAPE.sub(lambda escape: _PLAIN[escape[0]], value)
