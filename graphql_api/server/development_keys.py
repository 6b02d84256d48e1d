"""The keys of a server in development: each made once, and kept beside the SQLite file that its tokens point into."""

import os
from base64 import b64encode
from pathlib import Path
from secrets import token_hex

from graphql_api.codecs import RecordKeySeal
from graphql_api.errors import InvalidSettings
from graphql_api.opening import Secrets
from graphql_api.query import Seal
from graphql_api.server.settings import Settings, read_secret, variable


def token_secrets(settings: Settings) -> tuple[Secrets, str]:
    """What tokens are sealed and record keys signed with, and where the former is from in words; else both are made."""
    tokens, words = known_tokens(settings) or _made_tokens(settings)
    record = known_record_key(settings)
    return Secrets(tokens, record[0] if record is not None else _made_record_key(settings)), words


def known_tokens(settings: Settings) -> tuple[tuple[bytes, ...], str] | None:
    """What page tokens are sealed with, and where that is from, as far as there are keys already: nothing is made."""
    given = settings.secrets()
    if given:
        count = "1 key" if len(given) == 1 else f"{len(given)} keys"
        return given, f"sealed with {count} of the settings"
    kept = _kept_file(settings, "token")
    return ((_kept_secret(kept, "token"),), _kept_in(kept)) if kept is not None and kept.exists() else None


def known_record_key(settings: Settings) -> tuple[bytes, str] | None:
    """What record keys are signed with, and where that is from, if there is a key already: nothing is made."""
    given = _given_record_key(settings)
    if given is not None:
        return given, "signed with the key of the settings"
    kept = _kept_file(settings, "record")
    if kept is None or not kept.exists():
        return None
    return _kept_secret(kept, "record"), f"signed with the key in {kept}"


def _given_record_key(settings: Settings) -> bytes | None:
    """The key of record keys, out of a variable or a file; None where none is given."""
    path = settings.record_key_file
    if path is None:
        return settings.record_key
    try:
        return read_secret(path.read_text("ascii").strip(), "record key")
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise InvalidSettings([f"{variable('record_key_file')} names {path}: {why}."]) from None


def _made_tokens(settings: Settings) -> tuple[tuple[bytes, ...], str]:
    kept = _kept_file(settings, "token")
    if kept is None:
        return (Seal.new_secret(),), "sealed with a new key, so they end with this server"
    return (_kept_secret(kept, "token"),), _kept_in(kept)


def _made_record_key(settings: Settings) -> bytes:
    kept = _kept_file(settings, "record")
    return RecordKeySeal.new_secret() if kept is None else _kept_secret(kept, "record")


def _kept_file(settings: Settings, kind: str) -> Path | None:
    path = _sqlite_file(settings.store_url)
    return None if path is None else path.with_name(f"{path.name}.{kind}-key")


def _kept_in(path: Path) -> str:
    return f"sealed with the key in {path}"


def _sqlite_file(url: str) -> Path | None:
    path = Path(url.removeprefix("sqlite:///"))
    return path if url.startswith("sqlite:///") and path.parent.is_dir() else None


def _kept_secret(path: Path, kind: str) -> bytes:
    """The key in a file, which is made if it is not there; of processes that make it at once, one does."""
    new = path.with_name(f"{path.name}.{token_hex(8)}")
    try:
        if not path.exists():
            try:
                new.touch(mode=0o600, exist_ok=False)
                new.write_bytes(b64encode(Seal.new_secret()) + b"\n")
                os.link(new, path)
            except FileExistsError:
                pass  # Another process was first.
            finally:
                new.unlink(missing_ok=True)
        return read_secret(path.read_text("ascii").strip(), f"{kind} key")
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        setting = variable("token_keys" if kind == "token" else "record_key")
        raise InvalidSettings(
            [f"The {kind} key in {path} cannot be used: {why}. Mend or remove the file, or set {setting}."]
        ) from problem
