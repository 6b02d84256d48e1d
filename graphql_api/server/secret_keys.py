"""The keys of page tokens and record keys, from the settings or created for development.

In development each key is created once and stored next to the SQLite file.
"""

import os
from base64 import b64encode
from pathlib import Path
from secrets import token_hex

from graphql_api.codecs import RecordKeySeal
from graphql_api.connection import Secrets
from graphql_api.errors import InvalidSettings
from graphql_api.query import TokenSeal
from graphql_api.server.settings import Settings, parse_secret, variable_name
from graphql_api.storage.engines import store_file


def resolve_secrets(settings: Settings) -> tuple[Secrets, str]:
    """Return the secrets of a server, and a text on the source of its token keys.

    Keys that are missing are created, and stored unless the server is read-only.
    """
    stores = not settings.read_only
    token_keys, source = existing_token_keys(settings, create=stores) or (
        (TokenSeal.new_secret(),),
        "sealed with a new key, so they become invalid when this server stops",
    )
    record_key, _ = existing_record_key(settings, create=stores) or (RecordKeySeal.new_secret(), "")
    return Secrets(token_keys, record_key), source


def existing_token_keys(settings: Settings, *, create: bool = False) -> tuple[tuple[bytes, ...], str] | None:
    """Return the token keys and a text on their source, or None if there are none yet. `create` stores a new one."""
    configured = settings.read_token_keys()
    if configured:
        count = "1 key" if len(configured) == 1 else f"{len(configured)} keys"
        return configured, f"sealed with {count} from the settings"
    stored = _stored_key(settings, "token", create=create)
    return None if stored is None else ((stored[0],), f"sealed with the key in {stored[1]}")


def existing_record_key(settings: Settings, *, create: bool = False) -> tuple[bytes, str] | None:
    """Return the key of record keys and a text on its source, or None if there is none yet. `create` stores one."""
    configured = settings.read_record_key()
    if configured is not None:
        return configured, "signed with the key from the settings"
    stored = _stored_key(settings, "record", create=create)
    return None if stored is None else (stored[0], f"signed with the key in {stored[1]}")


def _stored_key(settings: Settings, kind: str, *, create: bool) -> tuple[bytes, Path] | None:
    """Return the key next to the SQLite file, and its path."""
    file = store_file(settings.store_url)
    if file is None or not file.parent.is_dir():
        return None
    path = file.with_name(f"{file.name}.{kind}-key")
    try:
        if not path.exists():
            if not create:
                return None
            _create_key_file(path)
        return parse_secret(path.read_text("ascii").strip(), f"{kind} key"), path
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        setting = variable_name("token_keys" if kind == "token" else "record_key")
        raise InvalidSettings(
            [f"The {kind} key in {path} cannot be used: {reason}. Fix or remove the file, or set {setting}."]
        ) from error


def _create_key_file(path: Path) -> None:
    """Create a file with a new key. Of several processes, exactly one creates it."""
    new_file = path.with_name(f"{path.name}.{token_hex(8)}")
    try:
        new_file.touch(mode=0o600, exist_ok=False)
        new_file.write_bytes(b64encode(TokenSeal.new_secret()) + b"\n")
        os.link(new_file, path)
    except FileExistsError:
        pass  # Another process has created the file first.
    finally:
        new_file.unlink(missing_ok=True)
