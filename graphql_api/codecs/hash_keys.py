"""Hash keys: `[tenant|]head!shard[|name#value…]`. Their order has no meaning (docs/reference/key-format.md)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from graphql_api.codecs.scalar_codec import short_repr
from graphql_api.codecs.text_codecs import check_well_formed
from graphql_api.errors import EmptyKey, InvalidValue, KeyTooLong, about

MAX_HASH_BYTES = 2048

MAX_CACHED_KEYS = 1_024
"""size of the cache: records that are written or read together share most of their hash keys"""

_CHARACTER_BY_ESCAPE = {"%25": "%", "%7C": "|", "%23": "#", "%21": "!", "%2F": "/"}
_ESCAPE_TABLE = str.maketrans({character: escape for escape, character in _CHARACTER_BY_ESCAPE.items()})
_ESCAPE_PATTERN = re.compile("|".join(_CHARACTER_BY_ESCAPE))
_RESERVED_CHARACTERS = re.compile("[%|#!/]")


@dataclass(frozen=True, slots=True)
class HashKeyParts:
    """The parts of a parsed hash key."""

    tenant: str | None
    head: str
    """an entity, or an entity and `~` with a kind of item"""
    shard: str
    values: tuple[tuple[str, str], ...] = ()

    @property
    def entity(self) -> str:
        """Return the name of the entity that the items belong to."""
        return self.head.partition("~")[0]

    @property
    def kind(self) -> str:
        """Return the kind of items that are no records, such as `unique`; an empty text for records."""
        return self.head.partition("~")[2]


def hash_key(head: str, shard: str, values: Sequence[tuple[str, str]] = (), tenant: str | None = None) -> str:
    """Build the hash key of one shard of the entity `head`, restricted to the encoded values of some properties."""
    key = _shard_key(head, shard, tenant)
    if not values and len(key) <= MAX_HASH_BYTES and key.isascii():
        return key
    for name, value in values:
        key += _check_unescaped(f"|{name}#", name) + _escape(value)
    size = len(key) if key.isascii() else len(key.encode())
    if size > MAX_HASH_BYTES:
        names = ", ".join(name for name, _ in values) or "the tenant"
        raise KeyTooLong(f"The hash key would have {size:,} bytes, at most {MAX_HASH_BYTES:,} fit. Shorten {names}.")
    return key


@lru_cache(MAX_CACHED_KEYS)
def _shard_key(head: str, shard: str, tenant: str | None) -> str:
    _check_unescaped(head, head)
    _check_unescaped(f"!{shard}", shard)
    if tenant == "":
        raise EmptyKey("The tenant is empty. Give the id of a tenant, or no tenant at all.", argument="tenant")
    with about("tenant"):
        prefix = "" if tenant is None else f"{_escape(tenant)}|"
    return f"{prefix}{head}!{shard}"


@lru_cache(MAX_CACHED_KEYS)
def _check_unescaped(part: str, name: str) -> str:
    """Return a part of a hash key. Refuse a name in it that would need escapes."""
    if _RESERVED_CHARACTERS.search(name) or not part:
        raise ValueError(f"{name!r} cannot be written unescaped into a hash key")
    return part


@dataclass(frozen=True)
class ShardHashKeys:
    """The hash keys of several shards that differ in nothing else. They are built on first use."""

    head: str
    values: tuple[tuple[str, str], ...]
    tenant: str | None
    ordinals: Mapping[str, int] = field(repr=False)
    """the ordinal of each shard by its text, in ascending order"""

    def __len__(self) -> int:
        return len(self.ordinals)

    @cached_property
    def last(self) -> str:
        """Return the hash key of the last shard: none is longer."""
        return hash_key(self.head, [*self.ordinals][-1], self.values, self.tenant)

    @cached_property
    def by_ordinal(self) -> Mapping[int, str]:
        """Return all hash keys by the ordinals of their shards."""
        shards = self.ordinals.items()
        return {ordinal: hash_key(self.head, text, self.values, self.tenant) for text, ordinal in shards}


def parse_hash_key(text: str) -> HashKeyParts:
    """Parse a hash key; the inverse of `hash_key`."""
    tenant_and_head, _, shard_and_values = text.partition("!")
    tenant, separator, head = tenant_and_head.rpartition("|")
    shard, *pairs = shard_and_values.split("|")
    values = tuple((name, _unescape(value)) for name, _, value in (pair.partition("#") for pair in pairs))
    parts = HashKeyParts(_unescape(tenant) if separator else None, head, shard, values)
    try:
        if hash_key(head, shard, values, parts.tenant) == text:
            return parts
    except (ValueError, EmptyKey, InvalidValue, KeyTooLong):
        pass
    raise InvalidValue(f"{short_repr(text)} is no hash key. Read only keys that ShardQL wrote.")


@lru_cache(MAX_CACHED_KEYS)
def hash_key_parts(text: str) -> HashKeyParts | None:
    """Return the parts of a stored hash key; None if another application wrote it."""
    try:
        return parse_hash_key(text)
    except InvalidValue:
        return None


def shard_name(hash_key: str) -> str:
    """Return the head and the shard of a hash key, without tenant and values: `user!03`."""
    tenant_and_head, _, shard_and_values = hash_key.partition("!")
    return f"{tenant_and_head.rpartition('|')[2]}!{shard_and_values.partition('|')[0]}"


def _escape(value: str) -> str:
    if value.isalnum() and value.isascii():
        return value
    return check_well_formed(value).translate(_ESCAPE_TABLE)


def _unescape(value: str) -> str:
    return _ESCAPE_PATTERN.sub(lambda escape: _CHARACTER_BY_ESCAPE[escape[0]], value)
