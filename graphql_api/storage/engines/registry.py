"""Opens the engine that a store URL names: one entry for each URL scheme."""

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

_BEGINNINGS = {"sqlite": "sqlite:///", "dynamodb": "dynamodb://"}


async def open_store(url: str) -> Store:
    """The engine that a URL names: `sqlite:///relative.db`, `sqlite:////absolute.db`, or `dynamodb://table`.

    `dynamodb://table?region=eu-west-1&endpoint=http://localhost:8000&deadline=2`: region, endpoint and every setting of
    `DynamoSettings` may follow; what does not is as the environment and the defaults say.
    """
    scheme, mark, rest = url.partition("://")
    if scheme == "sqlite" and mark and rest.startswith("/") and len(rest) > 1:
        path = Path(rest[1:])
        if not path.parent.is_dir():
            raise StoreUnavailable(f"{path}: there is no directory {path.parent}. Make it first.")
        return await open_sqlite(path)
    if scheme == "dynamodb" and mark:
        return await _open_dynamodb(url)
    raise UnknownArgument(
        f"{url!r} names no store: write sqlite:///relative.db, sqlite:////absolute.db or dynamodb://table.{_meant(url)}",
        argument="url",
    )


def _meant(url: str) -> str:
    """What somebody may have meant who mistyped an engine, or its slashes."""
    engine, _, rest = url.partition(":")
    close = get_close_matches(engine, _BEGINNINGS, n=1, cutoff=0.7)
    place = rest[3:] if rest.startswith("////") else rest.lstrip("/")
    return f" Did you mean {f'{_BEGINNINGS[close[0]]}{place}'!r}?" if close and place else ""


def makes_tables(url: str) -> bool:
    """Whether the engine of a URL makes tables on first use, without being told."""
    return url.startswith("sqlite:")


async def _open_dynamodb(url: str) -> Store:
    from graphql_api.storage.engines.dynamodb import DynamoSettings, open_dynamodb  # noqa: PLC0415 - its driver is slow to load

    with about("url"):
        table, options = _table_and_options(url)
        region, endpoint = options.pop("region", None), options.pop("endpoint", None)
        if endpoint is not None and not re.fullmatch(r"https?://[^/?#\s]+/?", endpoint):
            raise InvalidValue(f"endpoint is {endpoint!r}: write it like http://localhost:8000.")
        defaults = DynamoSettings()
        knobs = {knob.name: type(getattr(defaults, knob.name)) for knob in fields(defaults)}
        settings: dict[str, Any] = {}
        for name, text in options.items():
            if name not in knobs:
                hint = nearest(name, ["region", "endpoint", *knobs])
                raise UnknownArgument(f"{name!r} is no option of a DynamoDB store.{hint}")
            settings[name] = _number(knobs[name], name, text)
        return await open_dynamodb(table, region=region, endpoint=endpoint, settings=DynamoSettings(**settings))


def _number(kind: type[int] | type[float], name: str, text: str) -> int | float:
    try:
        number = kind(text)
        if isfinite(number):
            return number
    except ValueError:
        pass
    raise InvalidValue(f"{name} is {text!r}: give a {'whole ' if kind is int else ''}number.")


def _table_and_options(url: str) -> tuple[str, dict[str, str]]:
    """The parts of `dynamodb://table?name=value&…`."""
    table, _, query = url.removeprefix("dynamodb://").partition("?")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{3,255}", table):
        raise InvalidValue(
            f"{table!r} is no name of a table: write dynamodb:// and 3 to 255 letters, digits, '_', '-' and '.'."
        )
    try:
        pairs = parse_qsl(query, strict_parsing=True) if query else []
    except ValueError:
        raise InvalidValue(f"{query!r} are no options: write name=value, with & between them.") from None
    doubled = next((name for name, count in Counter(name for name, _ in pairs).items() if count > 1), None)
    if doubled is not None:
        raise ConflictingArguments(f"{doubled} is given twice: give it once.")
    return table, dict(pairs)
