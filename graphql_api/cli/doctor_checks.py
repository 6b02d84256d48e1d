"""Looks at a catalog, the settings, the store and its table, and says of each what is well and what is not."""

import platform
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from graphql_api.cli.doctor_credentials import examine_credentials
from graphql_api.cli.doctor_report import Examination
from graphql_api.cli.exit_codes import STORE, USAGE
from graphql_api.cli.file_suggestions import nearest_file
from graphql_api.cli.sample_data import offers_samples, sample_records
from graphql_api.database import Database
from graphql_api.evolution import MAKE_IT, RENAME_IT, conflicts, missing
from graphql_api.model import MAX_INDEXES, Catalog, Entity, EntitySpec, entity_names, is_open, left_open, load_catalog
from graphql_api.ops import TableState, advice, differences, index_states, read_state
from graphql_api.query import Seal, SearchRequest
from graphql_api.schema import Engine, in_words
from graphql_api.server import (
    Settings,
    known_record_key,
    known_tokens,
    load_graph,
    read_documents,
    read_settings,
    unfit,
    variable,
)
from graphql_api.storage.engines import makes_tables, open_store

LOOKED_AT = 200
"""records of each entity"""

_MADE_LATER = "None yet: the first start makes one and keeps it beside the store."


async def examine(address: str, store: str | None) -> Examination:
    """Looks at everything that a server of this catalog would stand on. Nothing is made or changed."""
    found = Examination()
    found.fine("versions", _versions())
    catalog = _catalog(found, address)
    settings = _settings(found, store)
    if catalog is not None:
        _access(found, [*catalog.entities.values()], is_written=settings is None or not settings.read_only)
    records: Mapping[str, Sequence[Entity]] = {}
    if settings is not None:
        if catalog is not None:
            _documents(found, settings, address)
        _token_key(found, settings)
        _record_key(found, settings)
        await examine_credentials(found, settings)
        records = await _store(found, settings, catalog, address)
    if catalog is not None:
        records = records or await _samples(found, catalog, address)
        for one in advice(catalog, records):
            tell = found.finding if one.hurts else found.note
            tell("catalog", str(one), one.remedy)
    return found


def _versions() -> str:
    names = {"ShardQL": "shardql", "Strawberry": "strawberry-graphql", "Starlette": "starlette", "pydantic": "pydantic"}
    packages = [f"{name} {version_of(package)}" for name, package in names.items()]
    return ", ".join([*packages, f"Python {platform.python_version()}"])


def version_of(package: str) -> str:
    """The version of a package, as it is installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "from source"


# --- what is declared and chosen -------------------------------------------------------------------------------


def _catalog(found: Examination, address: str) -> Catalog | None:
    catalog = None
    with found.about("catalog"):
        catalog = load_catalog(address)
        names = ", ".join(spec.type_name for spec in catalog.entities.values())
        count = len(catalog.table_definition().indexes)
        found.fine("catalog", f"{names}: {count} of the {MAX_INDEXES} indexes that a table may have.")
    if catalog is not None:
        with found.about("schema"):
            graph = load_graph(address)
            assert graph.schema is not None
            found.fine("schema", f"{len(graph.queries)} fields of the query.")
    return catalog


def _access(found: Examination, specs: Sequence[EntitySpec], *, is_written: bool) -> None:
    """Who may read what, where nothing says so, and who may write what."""
    unsaid = left_open(specs, is_written=is_written)
    for one in unsaid:
        found.note("access", one.told, one.remedy)
    if not unsaid:
        found.fine("access", f"Every entity says who may read {'and write ' if is_written else ''}it.")
    writers: dict[str, list[EntitySpec]] = {}
    for spec in specs if is_written else ():
        if spec.write is not None or not is_open(spec.allow):
            whom = " or ".join(dict.fromkeys(map(in_words, spec.writers or ()))) or "nobody"
            writers.setdefault(f"{whom[0].upper()}{whom[1:]}", []).append(spec)
    for whom, those in writers.items():
        found.fine("access", f"{whom} may write {entity_names(those)}.")


def _settings(found: Examination, store: str | None) -> Settings | None:
    settings = None
    with found.about("settings"):
        settings = read_settings(store=store)
        found.settings = settings.listing()
        problems = [*unfit(settings)]
        for problem in problems:
            found.wrong("settings", problem, USAGE)
        for one in found.settings:
            if one.origin != "default":
                found.fine("settings", f"{one.variable} = {one.value} ({one.origin})")
        unsaid = sum(one.origin == "default" for one in found.settings)
        mode = "Production" if settings.production else "Development"
        found.fine("settings", f"{mode} mode; {unsaid} settings have their defaults.")
    return settings


def _documents(found: Examination, settings: Settings, address: str) -> None:
    """Whether each trusted document is one that the server would run."""
    if settings.documents is None:
        return
    with found.about("documents"):
        documents = read_documents(settings.documents)
        graph = load_graph(address)
        schema = graph.read_only_schema if settings.read_only else graph.schema
        engine = Engine(schema, settings.limits(), introspection=settings.introspection)
        mistakes = [(name, told) for name, text in documents.items() for told in engine.mistakes(text)]
        for name, told in mistakes:
            found.finding("documents", f"{name}: {told}")
        if not mistakes:
            found.fine("documents", f"{len(documents):,} in {settings.documents}, all of them fit the schema.")


def _token_key(found: Examination, settings: Settings) -> None:
    with found.about("token key"):
        if settings.production and not settings.secrets():
            return  # the settings are told to lack it
        known = known_tokens(settings)
        if known is not None:
            found.fine("token key", f"Page tokens are {known[1]}.")
        elif makes_tables(settings.store_url):
            found.fine("token key", _MADE_LATER)
        else:
            found.finding(
                "token key",
                "There is none: page tokens end with each server, and no other server takes them.",
                f"Set {variable('token_keys')}; `openssl rand -base64 32` makes one.",
            )


def _record_key(found: Examination, settings: Settings) -> None:
    with found.about("record key"):
        known = known_record_key(settings)
        if known is not None:
            found.fine("record key", f"Record keys are {known[1]}.")
        elif settings.production:
            return  # the settings are told to lack it
        elif makes_tables(settings.store_url):
            found.fine("record key", _MADE_LATER)
        else:
            found.finding(
                "record key",
                "There is none: record keys end with each server, and no other server takes them.",
                f"Set {variable('record_key')}, and keep it for ever; `openssl rand -base64 32` makes one.",
            )


# --- the store -------------------------------------------------------------------------------------------------


async def _store(
    found: Examination, settings: Settings, catalog: Catalog | None, address: str
) -> Mapping[str, Sequence[Entity]]:
    """Looks at the store and its table, and at some records where those can be searched."""
    url = settings.store_url
    creates = settings.create_table if settings.create_table is not None else makes_tables(url)
    if _is_missing_file(found, url, creates=creates and not settings.read_only):
        return {}
    with found.about("store"):
        store = await open_store(url)
        try:
            begun = time.monotonic()
            state = await read_state(store)
            found.fine("store", f"{url} answers in {(time.monotonic() - begun) * 1000:,.0f} ms.")
            if catalog is not None and _table(found, settings, catalog, address, state):
                return await _some_records(Database(catalog, store, Seal((Seal.new_secret(),))))
        finally:
            await store.close()
    return {}


def _is_missing_file(found: Examination, url: str, *, creates: bool) -> bool:
    """Opening a file of SQLite's would make it."""
    path = Path(url.removeprefix("sqlite:///"))
    if not url.startswith("sqlite:///") or path.exists():
        return False
    hint = nearest_file(path)
    if not path.parent.is_dir():
        found.wrong("store", f"There is no directory {path.parent}.", STORE, "Make it, or name another by --store.")
    elif hint or not creates:
        found.finding("store", f"There is no file {path}.{hint}", "Name another one by --store, or serve to make it.")
    else:
        found.fine("store", f"There is no file {path} yet: the first start makes it.")
    return True


def _table(found: Examination, settings: Settings, catalog: Catalog, address: str, state: TableState) -> bool:
    """Whether the table is as the catalog needs it."""
    url, needed = settings.store_url, catalog.table_definition()
    problems = [*differences(state, catalog, removes_expired=not makes_tables(url))]
    lacking, otherwise = set(missing(state.definition, needed)), set(conflicts(state.definition, needed))
    if lacking:
        absent = [one.definition.name for one in index_states(state.definition, needed) if one.standing == "missing"]
        told = f"The table has no index {', '.join(absent)}." if state.definition is not None else "There is no table."
        found.finding("table", told, MAKE_IT.replace("MODULE:CATALOG", address).replace("URL", f'"{url}"'))
    for problem in problems:
        if problem not in lacking:
            found.finding("table", problem, RENAME_IT if problem in otherwise else None)
    if not problems:
        found.fine("table", "It has all that the catalog needs.")
    return not problems


async def _some_records(database: Database) -> dict[str, Sequence[Entity]]:
    """A page of each entity that has an index over all of it."""
    records: dict[str, Sequence[Entity]] = {}
    for spec in database.catalog.entities.values():
        whole = next((one for one in spec.indexes.values() if not one.hash and not one.lead and one.range_parts), None)
        if whole is not None:
            page = await database.page(SearchRequest(spec.name, whole.attribute, limit=LOOKED_AT))
            records[spec.name] = page.items
    return records if any(records.values()) else {}


async def _samples(found: Examination, catalog: Catalog, address: str) -> Mapping[str, Sequence[Entity]]:
    """What the catalog's module makes up, where nothing is stored yet."""
    records: dict[str, list[Entity]] = {}
    if offers_samples(address):
        with found.about("catalog"):
            async for record in sample_records(address, LOOKED_AT):
                records.setdefault(catalog.entity(type(record)).name, []).append(record)
    return records
