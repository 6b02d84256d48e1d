"""The engine registry: one entry per engine, found by the scheme of a store URL."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from graphql_api.errors import InvalidSettings, UnknownArgument

if TYPE_CHECKING:
    from graphql_api.storage import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A storage engine, and the store URLs that name its stores."""

    prefix: str
    """text before the location of a store"""
    url_forms: tuple[str, ...]
    """forms of its URLs in errors"""
    help_forms: tuple[str, ...]
    """forms of its URLs in help texts, with the most important options"""
    opener: str
    """function that opens a store at a location; imported on first use, since a driver may be slow to load"""
    creates_tables: bool
    """opening a catalog creates its table and indexes by default"""
    uses_files: bool
    """a location is the path of a file"""
    extra: str | None = None
    """the extra of this package that installs the driver"""


_SQLITE_FORMS = ("sqlite:///relative.db", "sqlite:////absolute.db")

ENGINES = {
    "sqlite": Engine(
        prefix="sqlite:///",
        url_forms=_SQLITE_FORMS,
        help_forms=_SQLITE_FORMS,
        opener="graphql_api.storage.engines.sqlite:open_location",
        creates_tables=True,
        uses_files=True,
    ),
    "dynamodb": Engine(
        prefix="dynamodb://",
        url_forms=("dynamodb://table",),
        help_forms=("dynamodb://table?region=eu-west-1",),
        opener="graphql_api.storage.engines.dynamodb:open_location",
        creates_tables=False,
        uses_files=False,
        extra="dynamodb",
    ),
}
"""the engines by the scheme of their URLs"""


async def open_store(url: str, *, read_only: bool = False) -> "Store":
    """Open the engine of a URL: `sqlite:///relative.db`, `sqlite:////absolute.db`, or `dynamodb://table`.

    A `read_only` store refuses writes.

    A DynamoDB URL may set region, endpoint, and every setting of `DynamoSettings`. Other values come from the
    environment and the defaults. Example:
    `dynamodb://table?region=eu-west-1&endpoint=http://localhost:8000&deadline=2`
    """
    engine = ENGINES.get(url.partition(":")[0])
    if engine is None or not url.startswith(engine.prefix) or (engine.uses_files and url == engine.prefix):
        forms = _join([form for engine in ENGINES.values() for form in engine.url_forms])
        scheme, _, rest = url.partition(":")
        close = get_close_matches(scheme, ENGINES, n=1, cutoff=0.7)
        location = rest[3:] if rest.startswith("////") else rest.lstrip("/")
        hint = f" Did you mean {f'{ENGINES[close[0]].prefix}{location}'!r}?" if close and location else ""
        raise UnknownArgument(f"{url!r} is not a store URL. Use {forms}.{hint}", argument="url")
    return await _opener(engine)(url.removeprefix(engine.prefix), read_only=read_only)


def _opener(engine: Engine) -> Callable[..., Awaitable["Store"]]:
    try:
        opener: Callable[..., Awaitable[Store]] = resolve_name(engine.opener)
    except ModuleNotFoundError as missing:
        if engine.extra is None:
            raise
        remedy = f"install it with pip install 'shardql[{engine.extra}]'"
        raise InvalidSettings([f"{engine.prefix} needs the package {missing.name}: {remedy}."]) from missing
    return opener


@asynccontextmanager
async def opened_store(url: str, *, read_only: bool = False) -> AsyncIterator["Store"]:
    """Open the engine of a URL, and close it at the end of the block."""
    store = await open_store(url, read_only=read_only)
    try:
        yield store
    finally:
        await store.close()


def creates_tables(url: str) -> bool:
    """Return whether the engine of a URL creates tables and indexes by default when a catalog is opened."""
    engine = ENGINES.get(url.partition(":")[0])
    return engine is not None and engine.creates_tables


def store_file(url: str) -> Path | None:
    """Return the path of the file of a store, or None if its engine uses no file."""
    engine = ENGINES.get(url.partition(":")[0])
    if engine is None or not engine.uses_files or not url.startswith(engine.prefix):
        return None
    return Path(url.removeprefix(engine.prefix))


def describe_store_urls(*, short: bool = False) -> str:
    """Return the forms of store URLs for help texts; `short`: one per engine."""
    return _join([form for engine in ENGINES.values() for form in engine.help_forms[: 1 if short else None]])


def _join(forms: list[str]) -> str:
    return f"{', '.join(forms[:-1])} or {forms[-1]}"
