"""The file of API keys: what an entry may be, and whom a key stands for."""

import json
from hashlib import sha256
from typing import Any

import pytest

from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.api_keys import InvalidApiKeys, read_api_keys
from graphql_api.server.auth.identity import Identity

KEY = "0123456789abcdefghij"
DIGEST = sha256(KEY.encode()).hexdigest()
ROBOT = {"subject": "robot"}


def text(*entries: Any) -> bytes:
    """A file with these entries."""
    return json.dumps(entries).encode()


def problem(content: bytes, *, has_tenants: bool = False) -> str:
    """What is wrong with a file; no key is shown."""
    with pytest.raises(InvalidApiKeys) as refused:
        read_api_keys(content, has_tenants=has_tenants)
    assert KEY not in str(refused.value)
    assert DIGEST not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("entry", [{"key": KEY}, {"sha256": DIGEST}, {"sha256": DIGEST.upper()}])
def test_a_key_or_its_digest(entry: dict[str, str]) -> None:
    """An entry has the key or its digest, and both stand for the same."""
    keys = read_api_keys(text({**entry, **ROBOT, "groups": ["Reader", "Reader"]}), has_tenants=False)
    assert keys.authenticate(KEY) == Identity("robot", frozenset({"Reader"}))
    assert KEY not in repr(keys)
    for wrong in ("", DIGEST, KEY[:-1], f" {KEY}", "\xff" * 20, "\U0001f511" * 20):
        with pytest.raises(Unauthenticated, match="no key that this server accepts"):
            keys.authenticate(wrong)


def test_each_key_stands_for_its_own() -> None:
    """Keys are told apart, and several may stand for the same subject, so that they can be exchanged."""
    entries = [{"key": KEY, "subject": "a"}, {"key": KEY + "2", "subject": "a"}, {"key": KEY + "3", "subject": "b"}]
    keys = read_api_keys(text(*entries), has_tenants=False)
    assert [keys.authenticate(KEY + end).subject for end in ("", "2", "3")] == ["a", "a", "b"]
    assert read_api_keys(b"[]", has_tenants=False).keys == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"{}", "not a list of objects"),
        (b'["a"]', "not a list of objects"),
        (text(ROBOT), "Entry 1 must have either key or sha256"),
        (text({**ROBOT, "key": KEY, "sha256": DIGEST}), "Entry 1 must have either key or sha256"),
        (
            text({**ROBOT, "key": KEY}, {**ROBOT, "key": KEY[:-1]}),
            "Entry 2 has a key that is not a text of 20 to 1,024",
        ),
        (text({**ROBOT, "key": "\u00e9" * 20}), "visible ASCII"),
        (text({**ROBOT, "key": f"{KEY} {KEY}"}), "visible ASCII"),
        (text({**ROBOT, "key": 7}), "visible ASCII"),
        (text({**ROBOT, "sha256": DIGEST[:-1]}), "64 hexadecimal digits"),
        (text({**ROBOT, "sha256": 7}), "64 hexadecimal digits"),
        (text({"key": KEY}), "Entry 1 has no subject"),
        (text({"key": KEY, "subject": ""}), "Entry 1 has no subject"),
        (text({"key": KEY, "subject": 7}), "Entry 1 has no subject"),
        (text({"key": KEY, **ROBOT, "groups": "Reader"}), "groups that are not a list"),
        (text({"key": KEY, **ROBOT, "groups": [7]}), "groups that are not a list"),
        (text({"key": KEY, **ROBOT, "group": ["Reader"]}), "Entry 1 has 'group'"),
        (text({"key": KEY, **ROBOT, "tenant": 7}), "a tenant that is not a text"),
        (text({"key": KEY, **ROBOT, "tenant": "acme"}), "SHARDQL_TENANT_CLAIM is not set: set it"),
        (text({"key": KEY, **ROBOT}, {"sha256": DIGEST, "subject": "other"}), "twice"),
    ],
)
def test_files_that_are_refused(content: bytes, said: str) -> None:
    """A file is refused as a whole, with the number of the entry and what it should be."""
    assert said in problem(content)


def test_keys_where_there_are_tenants() -> None:
    """Where there are tenants each key has one."""
    keys = read_api_keys(text({"key": KEY, **ROBOT, "tenant": "acme"}), has_tenants=True)
    assert keys.authenticate(KEY).tenant == "acme"
    assert "has no tenant" in problem(text({"key": KEY, **ROBOT}), has_tenants=True)
