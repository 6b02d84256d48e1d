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


def resolve_secrets(settings: Settings) -> tuple[Secrets, str]:
    """Return the secrets of a server, and a text on the source of its token keys. Create keys that are missing."""
    token_keys, source = existing_token_keys(settings) or _create_token_keys(settings)
    record_key = existing_record_key(settings)
    return Secrets(token_keys, record_key[0] if record_key is not None else _create_record_key(settings)), source


def existing_token_keys(settings: Settings) -> tuple[tuple[bytes, ...], str] | None:
    """Return the token keys and a text on their source, or None if there are none yet. Create nothing."""
    configured = settings.read_token_keys()
    if configured:
        count = "1 key" if len(configured) == 1 else f"{len(configured)} keys"
        return configured, f"sealed with {count} from the settings"
    path = _key_file(settings, "token")
    if path is None or not path.exists():
        return None
    return (_read_or_create_key(path, "token"),), _sealed_with(path)


def existing_record_key(settings: Settings) -> tuple[bytes, str] | None:
    """Return the key of record keys and a text on its source, or None if there is none yet. Create nothing."""
    configured = _configured_record_key(settings)
    if configured is not None:
        return configured, "signed with the key from the settings"
    path = _key_file(settings, "record")
    if path is None or not path.exists():
        return None
    return _read_or_create_key(path, "record"), f"signed with the key in {path}"


def _configured_record_key(settings: Settings) -> bytes | None:
    """Return the key of record keys from a variable or a file, or None if none is set."""
    path = settings.record_key_file
    if path is None:
        return settings.record_key
    try:
        return parse_secret(path.read_text("ascii").strip(), "record key")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidSettings([f"{variable_name('record_key_file')} names {path}: {reason}."]) from None


def _create_token_keys(settings: Settings) -> tuple[tuple[bytes, ...], str]:
    path = _key_file(settings, "token")
    if path is None:
        return (TokenSeal.new_secret(),), "sealed with a new key, so they become invalid when this server stops"
    return (_read_or_create_key(path, "token"),), _sealed_with(path)


def _create_record_key(settings: Settings) -> bytes:
    path = _key_file(settings, "record")
    return RecordKeySeal.new_secret() if path is None else _read_or_create_key(path, "record")


def _key_file(settings: Settings, kind: str) -> Path | None:
    path = _sqlite_file(settings.store_url)
    return None if path is None else path.with_name(f"{path.name}.{kind}-key")


def _sealed_with(path: Path) -> str:
    return f"sealed with the key in {path}"


def _sqlite_file(url: str) -> Path | None:
    path = Path(url.removeprefix("sqlite:///"))
    return path if url.startswith("sqlite:///") and path.parent.is_dir() else None


def _read_or_create_key(path: Path, kind: str) -> bytes:
    """Return the key in a file. Create the file if it is missing; of several processes, exactly one creates it."""
    new_file = path.with_name(f"{path.name}.{token_hex(8)}")
    try:
        if not path.exists():
            try:
                new_file.touch(mode=0o600, exist_ok=False)
                new_file.write_bytes(b64encode(TokenSeal.new_secret()) + b"\n")
                os.link(new_file, path)
            except FileExistsError:
                pass  # Another process has created the file first.
            finally:
                new_file.unlink(missing_ok=True)
        return parse_secret(path.read_text("ascii").strip(), f"{kind} key")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        setting = variable_name("token_keys" if kind == "token" else "record_key")
        raise InvalidSettings(
            [f"The {kind} key in {path} cannot be used: {reason}. Fix or remove the file, or set {setting}."]
        ) from error
