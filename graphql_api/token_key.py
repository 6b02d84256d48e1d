"""The key of a server in development: made once, and kept beside the SQLite file that its tokens point into."""

import os
from base64 import b64encode
from pathlib import Path
from secrets import token_hex

from graphql_api.errors import InvalidSettings
from graphql_api.search.seal import Seal
from graphql_api.settings import Settings, read_secret
from graphql_api.wiring import Secrets


def token_secrets(settings: Settings) -> tuple[Secrets, str]:
    """What page tokens are sealed with, and where that comes from in words; in development a key is made."""
    found = known_secrets(settings)
    if found is not None:
        return found
    kept = _kept_file(settings)
    if kept is None:
        return Secrets.generate(), "sealed with a new key, so they end with this server"
    return Secrets((_kept_secret(kept),)), _kept_in(kept)


def known_secrets(settings: Settings) -> tuple[Secrets, str] | None:
    """The same, as far as there are keys already: nothing is made."""
    given = settings.secrets()
    if given:
        count = "1 key" if len(given) == 1 else f"{len(given)} keys"
        return Secrets(given), f"sealed with {count} of the settings"
    kept = _kept_file(settings)
    return (Secrets((_kept_secret(kept),)), _kept_in(kept)) if kept is not None and kept.exists() else None


def _kept_file(settings: Settings) -> Path | None:
    path = _sqlite_file(settings.store_url)
    return None if path is None else path.with_name(f"{path.name}.token-key")


def _kept_in(path: Path) -> str:
    return f"sealed with the key in {path}"


def _sqlite_file(url: str) -> Path | None:
    path = Path(url.removeprefix("sqlite:///"))
    return path if url.startswith("sqlite:///") and path.parent.is_dir() else None


def _kept_secret(path: Path) -> bytes:
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
        return read_secret(path.read_text("ascii").strip())
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise InvalidSettings(
            [f"The token key in {path} cannot be used: {why}. Mend or remove the file, or set SHARDQL_TOKEN_KEYS."]
        ) from problem
