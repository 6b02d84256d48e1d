"""Brings a catalog, a store and their secrets together: the Python interface."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from logging import getLogger
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from graphql_api.adapters.sqlite import open_sqlite
from graphql_api.catalog.catalog import Catalog
from graphql_api.catalog.entity import Entity
from graphql_api.clock import Clock, system_clock
from graphql_api.database import Database
from graphql_api.errors import (
    ConflictingArguments,
    InvalidValue,
    StoreUnavailable,
    UnknownArgument,
    about,
    nearest,
)
from graphql_api.keys.record_key import RecordKeySeal
from graphql_api.search.seal import Seal
from graphql_api.store.port import Store
from graphql_api.upkeep.table_meta import admit_table

E = TypeVar("E", bound=Entity)
log = getLogger("shardql")
_BEGINNINGS = {"sqlite": "sqlite:///", "dynamodb": "dynamodb://"}


@dataclass(frozen=True, slots=True)
class Secrets:
    """What page tokens are sealed with, and what record keys are signed with: at least 32 random bytes each.

    Of those for tokens the first one seals and all of them open, so they can rotate. That for record keys never does.
    """

    tokens: Sequence[bytes] = field(repr=False)
    record: bytes = field(default_factory=RecordKeySeal.new_secret, repr=False)

    @staticmethod
    def generate() -> "Secrets":
        """New secrets: tokens and record keys made with them are worth nothing after a restart."""
        return Secrets((Seal.new_secret(),))


@asynccontextmanager
async def open_catalog(
    catalog: Catalog,
    url: str,
    *,
    secrets: Secrets | None = None,
    clock: Clock = system_clock,
    create_table: bool | None = None,
    read_only: bool = False,
) -> AsyncIterator[Database]:
    """Opens a catalog's table: `async with open_catalog(catalog, "sqlite:///data.db") as db: …`.

    `create_table` says whether a missing table or index is made; if nothing is said, SQLite does and DynamoDB does not.
    With `read_only` opening writes nothing, whatever it says.
    """
    if secrets is None:
        log.info("No secrets were given: page tokens and record keys of this process are worth nothing to another one.")
        secrets = Secrets.generate()
    store = await open_store(url)
    try:
        creates = makes_tables(url) if create_table is None else create_table
        await admit_table(store, catalog, clock(), create_table=creates and not read_only, read_only=read_only)
        yield Database(catalog, store, Seal(secrets.tokens), clock, key_seal=RecordKeySeal(secrets.record))
    finally:
        await store.close()


# --- stores ----------------------------------------------------------------------------------------------------


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
    from graphql_api.adapters.dynamodb import DynamoSettings, open_dynamodb  # noqa: PLC0415 - its driver is slow to load

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
