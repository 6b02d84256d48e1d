"""The engine registry: maps the scheme of a store URL to an engine."""

import re
from collections import Counter
from dataclasses import fields
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from graphql_api.errors import ConflictingArguments, InvalidValue, StoreUnavailable, UnknownArgument, about, nearest
from graphql_api.storage import Store
from graphql_api.storage.engines.sqlite import open_sqlite

_URL_PREFIXES = {"sqlite": "sqlite:///", "dynamodb": "dynamodb://"}


async def open_store(url: str) -> Store:
    """Open the engine of a URL: `sqlite:///relative.db`, `sqlite:////absolute.db`, or `dynamodb://table`.

    A DynamoDB URL may set region, endpoint, and every setting of `DynamoSettings`. Other values come from the
    environment and the defaults. Example:
    `dynamodb://table?region=eu-west-1&endpoint=http://localhost:8000&deadline=2`
    """
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite" and separator and rest.startswith("/") and len(rest) > 1:
        path = Path(rest[1:])
        if not path.parent.is_dir():
            raise StoreUnavailable(f"{path}: the directory {path.parent} does not exist. Create it first.")
        return await open_sqlite(path)
    if scheme == "dynamodb" and separator:
        return await _open_dynamodb(url)
    raise UnknownArgument(
        f"{url!r} is not a store URL. Use sqlite:///relative.db, sqlite:////absolute.db or dynamodb://table."
        f"{_suggest_url(url)}",
        argument="url",
    )


def _suggest_url(url: str) -> str:
    """Return a suggestion for a URL with a misspelled scheme or wrong slashes."""
    engine, _, rest = url.partition(":")
    close = get_close_matches(engine, _URL_PREFIXES, n=1, cutoff=0.7)
    location = rest[3:] if rest.startswith("////") else rest.lstrip("/")
    return f" Did you mean {f'{_URL_PREFIXES[close[0]]}{location}'!r}?" if close and location else ""


def creates_tables(url: str) -> bool:
    """Return whether the engine of a URL creates tables and indexes by default when a catalog is opened."""
    return url.startswith("sqlite:")


async def _open_dynamodb(url: str) -> Store:
    from graphql_api.storage.engines.dynamodb import DynamoSettings, open_dynamodb  # noqa: PLC0415 - its driver is slow to load

    with about("url"):
        table, options = _parse_table_and_options(url)
        region, endpoint = options.pop("region", None), options.pop("endpoint", None)
        if endpoint is not None and not re.fullmatch(r"https?://[^/?#\s]+/?", endpoint):
            raise InvalidValue(f"endpoint is {endpoint!r}. Use a URL such as http://localhost:8000.")
        defaults = DynamoSettings()
        setting_types = {setting.name: type(getattr(defaults, setting.name)) for setting in fields(defaults)}
        settings: dict[str, Any] = {}
        for name, text in options.items():
            if name not in setting_types:
                hint = nearest(name, ["region", "endpoint", *setting_types])
                raise UnknownArgument(f"{name!r} is not an option of a DynamoDB store URL.{hint}")
            settings[name] = _parse_number(setting_types[name], name, text)
        return await open_dynamodb(table, region=region, endpoint=endpoint, settings=DynamoSettings(**settings))


def _parse_number(kind: type[int] | type[float], name: str, text: str) -> int | float:
    try:
        number = kind(text)
        if isfinite(number):
            return number
    except ValueError:
        pass
    raise InvalidValue(f"{name} is {text!r}. Use a {'whole ' if kind is int else ''}number.")


def _parse_table_and_options(url: str) -> tuple[str, dict[str, str]]:
    """Parse `dynamodb://table?name=value&…` into the table name and the options."""
    table, _, query = url.removeprefix("dynamodb://").partition("?")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{3,255}", table):
        raise InvalidValue(
            f"{table!r} is not a valid table name. Use dynamodb:// and 3 to 255 letters, digits, '_', '-' and '.'."
        )
    try:
        pairs = parse_qsl(query, strict_parsing=True) if query else []
    except ValueError:
        raise InvalidValue(f"The options {query!r} are invalid. Use name=value, separated by &.") from None
    duplicate = next((name for name, count in Counter(name for name, _ in pairs).items() if count > 1), None)
    if duplicate is not None:
        raise ConflictingArguments(f"The option {duplicate} is set twice. Set it once.")
    return table, dict(pairs)
