"""The file of API keys: the format of its entries, and the identity of each key."""

import json
from hashlib import sha256
from typing import Any

import pytest

from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.principals import Identity, InvalidApiKeys, authenticate_api_key, read_api_keys

KEY = "0123456789abcdefghij"
DIGEST = sha256(KEY.encode()).hexdigest()
ROBOT = {"subject": "robot"}


def key_file(*entries: Any) -> bytes:
    """Build a file with these entries."""
    return json.dumps(entries).encode()


def error_message(content: bytes, *, has_tenants: bool = False) -> str:
    """Return the message for an invalid file. It contains no key."""
    with pytest.raises(InvalidApiKeys) as refused:
        read_api_keys(content, has_tenants=has_tenants)
    assert KEY not in str(refused.value)
    assert DIGEST not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("entry", [{"key": KEY}, {"sha256": DIGEST}, {"sha256": DIGEST.upper()}])
def test_key_or_digest(entry: dict[str, str]) -> None:
    """An entry with a key and one with its digest authenticate the same identity."""
    keys = read_api_keys(key_file({**entry, **ROBOT, "groups": ["Reader", "Reader"]}), has_tenants=False)
    assert authenticate_api_key(KEY, keys) == Identity("robot", frozenset({"Reader"}))
    assert KEY not in repr(keys)
    for wrong in ("", DIGEST, KEY[:-1], f" {KEY}", "\xff" * 20, "\U0001f511" * 20):
        with pytest.raises(Unauthenticated, match="no key that this server accepts"):
            authenticate_api_key(wrong, keys)


def test_keys_have_their_own_identities() -> None:
    """Each key has its own identity. Several keys may have the same subject, so that keys can be rotated."""
    entries = [{"key": KEY, "subject": "a"}, {"key": KEY + "2", "subject": "a"}, {"key": KEY + "3", "subject": "b"}]
    keys = read_api_keys(key_file(*entries), has_tenants=False)
    assert [authenticate_api_key(KEY + end, keys).subject for end in ("", "2", "3")] == ["a", "a", "b"]
    assert read_api_keys(b"[]", has_tenants=False) == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"{}", "not a list of objects"),
        (b'["a"]', "not a list of objects"),
        (key_file(ROBOT), "Entry 1 must have either key or sha256"),
        (key_file({**ROBOT, "key": KEY, "sha256": DIGEST}), "Entry 1 must have either key or sha256"),
        (
            key_file({**ROBOT, "key": KEY}, {**ROBOT, "key": KEY[:-1]}),
            "Entry 2 has a key that is not a text of 20 to 1,024",
        ),
        (key_file({**ROBOT, "key": "\u00e9" * 20}), "visible ASCII"),
        (key_file({**ROBOT, "key": f"{KEY} {KEY}"}), "visible ASCII"),
        (key_file({**ROBOT, "key": 7}), "visible ASCII"),
        (key_file({**ROBOT, "sha256": DIGEST[:-1]}), "64 hexadecimal digits"),
        (key_file({**ROBOT, "sha256": 7}), "64 hexadecimal digits"),
        (key_file({"key": KEY}), "Entry 1 has no subject"),
        (key_file({"key": KEY, "subject": ""}), "Entry 1 has no subject"),
        (key_file({"key": KEY, "subject": 7}), "Entry 1 has no subject"),
        (key_file({"key": KEY, **ROBOT, "groups": "Reader"}), "groups that are not a list"),
        (key_file({"key": KEY, **ROBOT, "groups": [7]}), "groups that are not a list"),
        (key_file({"key": KEY, **ROBOT, "group": ["Reader"]}), "Entry 1 has 'group'"),
        (key_file({"key": KEY, **ROBOT, "tenant": 7}), "a tenant that is not a text"),
        (key_file({"key": KEY, **ROBOT, "tenant": "acme"}), "SHARDQL_TENANT_CLAIM is not set: set it"),
        (key_file({"key": KEY, **ROBOT}, {"sha256": DIGEST, "subject": "other"}), "twice"),
    ],
)
def test_invalid_files(content: bytes, message: str) -> None:
    """A file with an invalid entry is refused as a whole. The message names the entry and the expected format."""
    assert message in error_message(content)


def test_keys_with_tenants() -> None:
    """If tenants are configured, each key needs one."""
    keys = read_api_keys(key_file({"key": KEY, **ROBOT, "tenant": "acme"}), has_tenants=True)
    assert authenticate_api_key(KEY, keys).tenant == "acme"
    assert "has no tenant" in error_message(key_file({"key": KEY, **ROBOT}), has_tenants=True)
