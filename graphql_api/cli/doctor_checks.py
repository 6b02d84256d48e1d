"""The checks of `shardql doctor`: catalog, settings, store and table."""

import platform
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from graphql_api.cli.doctor_credentials import check_credentials
from graphql_api.cli.doctor_report import DoctorReport
from graphql_api.cli.exit_codes import STORE, USAGE
from graphql_api.cli.file_suggestions import suggest_file
from graphql_api.cli.sample_data import has_sample_data, sample_records
from graphql_api.database import Database
from graphql_api.evolution import CREATE_TABLE_REMEDY, RENAME_INDEX_REMEDY, conflicting_definitions, missing_definitions
from graphql_api.model import (
    MAX_INDEXES,
    Catalog,
    Entity,
    EntitySpec,
    allows_anyone,
    find_unrestricted_access,
    join_type_names,
    load_catalog,
)
from graphql_api.ops import TableState, differences, find_advice, index_states, read_state
from graphql_api.query import SearchRequest, TokenSeal
from graphql_api.schema import DocumentExecutor, describe_rule
from graphql_api.server import (
    Settings,
    existing_record_key,
    existing_token_keys,
    load_graph,
    read_settings,
    read_trusted_documents,
    settings_problems,
    variable_name,
)
from graphql_api.storage.engines import creates_tables, open_store

MAX_SAMPLED_RECORDS = 200
"""Number of records of each entity that are examined."""

_CREATED_LATER = "There is none yet: the first start creates one and stores it next to the SQLite file."


async def run_checks(address: str, store: str | None) -> DoctorReport:
    """Check everything that a server of this catalog needs. Nothing is created or changed."""
    report = DoctorReport()
    report.add_ok("versions", _versions())
    catalog = _check_catalog(report, address)
    settings = _check_settings(report, store)
    if catalog is not None:
        _check_access(report, [*catalog.entities.values()], is_written=settings is None or not settings.read_only)
    records: Mapping[str, Sequence[Entity]] = {}
    if settings is not None:
        if catalog is not None:
            _check_documents(report, settings, address)
        _check_token_key(report, settings)
        _check_record_key(report, settings)
        await check_credentials(report, settings)
        records = await _check_store(report, settings, catalog, address)
    if catalog is not None:
        records = records or await _read_samples(report, catalog, address)
        for advice in find_advice(catalog, records):
            add = report.add_finding if advice.is_warning else report.add_note
            add("catalog", str(advice), advice.remedy)
    return report


def _versions() -> str:
    names = {"ShardQL": "shardql", "Strawberry": "strawberry-graphql", "Starlette": "starlette", "pydantic": "pydantic"}
    packages = [f"{name} {version_of(package)}" for name, package in names.items()]
    return ", ".join([*packages, f"Python {platform.python_version()}"])


def version_of(package: str) -> str:
    """Return the installed version of a package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "from source"


# --- catalog and settings --------------------------------------------------------------------------------------


def _check_catalog(report: DoctorReport, address: str) -> Catalog | None:
    catalog = None
    with report.errors_as_failures("catalog"):
        catalog = load_catalog(address)
        names = ", ".join(spec.type_name for spec in catalog.entities.values())
        count = len(catalog.table_definition().indexes)
        report.add_ok("catalog", f"{names}: {count} of at most {MAX_INDEXES} indexes per table.")
    if catalog is not None:
        with report.errors_as_failures("schema"):
            graph = load_graph(address)
            assert graph.schema is not None
            report.add_ok("schema", f"{len(graph.queries)} query fields.")
    return catalog


def _check_access(report: DoctorReport, specs: Sequence[EntitySpec], *, is_written: bool) -> None:
    """Report missing access rules, and who may write which entities."""
    unrestricted = find_unrestricted_access(specs, is_written=is_written)
    for one in unrestricted:
        report.add_note("access", one.description, one.remedy)
    if not unrestricted:
        report.add_ok("access", f"Every entity declares who may read {'and write ' if is_written else ''}it.")
    entities_by_writers: dict[str, list[EntitySpec]] = {}
    for spec in specs if is_written else ():
        if spec.write is not None or not allows_anyone(spec.allow):
            writers = " or ".join(dict.fromkeys(map(describe_rule, spec.write_rules or ()))) or "no caller"
            entities_by_writers.setdefault(f"{writers[0].upper()}{writers[1:]}", []).append(spec)
    for writers, entities in entities_by_writers.items():
        report.add_ok("access", f"{writers} may write {join_type_names(entities)}.")


def _check_settings(report: DoctorReport, store: str | None) -> Settings | None:
    settings = None
    with report.errors_as_failures("settings"):
        settings = read_settings(store=store)
        report.settings = settings.list_values()
        for problem in settings_problems(settings):
            report.add_failure("settings", problem, USAGE)
        for one in report.settings:
            if one.origin != "default":
                report.add_ok("settings", f"{one.variable} = {one.value} ({one.origin})")
        defaults = sum(one.origin == "default" for one in report.settings)
        mode = "Production" if settings.production else "Development"
        report.add_ok("settings", f"{mode} mode; {defaults} settings have their defaults.")
    return settings


def _check_documents(report: DoctorReport, settings: Settings, address: str) -> None:
    """Check whether the server would execute each trusted document."""
    if settings.documents is None:
        return
    with report.errors_as_failures("documents"):
        documents = read_trusted_documents(settings.documents)
        graph = load_graph(address)
        schema = graph.read_only_schema if settings.read_only else graph.schema
        executor = DocumentExecutor(schema, settings.limits(), introspection=settings.introspection)
        errors = [(name, error) for name, text in documents.items() for error in executor.validation_errors(text)]
        for name, error in errors:
            report.add_finding("documents", f"{name}: {error}")
        if not errors:
            report.add_ok("documents", f"{len(documents):,} in {settings.documents}, all valid for the schema.")


def _check_token_key(report: DoctorReport, settings: Settings) -> None:
    with report.errors_as_failures("token key"):
        if settings.production and not settings.read_token_keys():
            return  # Reported with the settings already.
        existing = existing_token_keys(settings)
        if existing is not None:
            report.add_ok("token key", f"Page tokens are {existing[1]}.")
        elif creates_tables(settings.store_url):
            report.add_ok("token key", _CREATED_LATER)
        else:
            report.add_finding(
                "token key",
                "There is none: page tokens become invalid when a server stops, and other servers do not accept them.",
                f"Set {variable_name('token_keys')}; `openssl rand -base64 32` generates a key.",
            )


def _check_record_key(report: DoctorReport, settings: Settings) -> None:
    with report.errors_as_failures("record key"):
        existing = existing_record_key(settings)
        if existing is not None:
            report.add_ok("record key", f"Record keys are {existing[1]}.")
        elif settings.production:
            return  # Reported with the settings already.
        elif creates_tables(settings.store_url):
            report.add_ok("record key", _CREATED_LATER)
        else:
            report.add_finding(
                "record key",
                "There is none: record keys become invalid when a server stops, and other servers do not accept them.",
                f"Set {variable_name('record_key')} and never change it; `openssl rand -base64 32` generates a key.",
            )


# --- store and table -------------------------------------------------------------------------------------------


async def _check_store(
    report: DoctorReport, settings: Settings, catalog: Catalog | None, address: str
) -> Mapping[str, Sequence[Entity]]:
    """Check the store and its table. Return some records, if the table can be searched."""
    url = settings.store_url
    creates = settings.create_table if settings.create_table is not None else creates_tables(url)
    if _is_missing_file(report, url, creates=creates and not settings.read_only):
        return {}
    with report.errors_as_failures("store"):
        store = await open_store(url)
        try:
            started = time.monotonic()
            state = await read_state(store)
            report.add_ok("store", f"{url} responds in {(time.monotonic() - started) * 1000:,.0f} ms.")
            if catalog is not None and _check_table(report, settings, catalog, address, state):
                return await _read_records(Database(catalog, store, TokenSeal((TokenSeal.new_secret(),))))
        finally:
            await store.close()
    return {}


def _is_missing_file(report: DoctorReport, url: str, *, creates: bool) -> bool:
    """Report a missing SQLite file before the store is opened, since opening it would create the file."""
    path = Path(url.removeprefix("sqlite:///"))
    if not url.startswith("sqlite:///") or path.exists():
        return False
    hint = suggest_file(path)
    if not path.parent.is_dir():
        remedy = "Create it, or name another one with --store."
        report.add_failure("store", f"There is no directory {path.parent}.", STORE, remedy)
    elif hint or not creates:
        remedy = "Name another one with --store, or start the server to create it."
        report.add_finding("store", f"There is no file {path}.{hint}", remedy)
    else:
        report.add_ok("store", f"There is no file {path} yet: the first start creates it.")
    return True


def _check_table(report: DoctorReport, settings: Settings, catalog: Catalog, address: str, state: TableState) -> bool:
    """Check whether the table matches the catalog."""
    url, required = settings.store_url, catalog.table_definition()
    problems = [*differences(state, catalog, removes_expired=not creates_tables(url))]
    absent = set(missing_definitions(state.definition, required))
    conflicting = set(conflicting_definitions(state.definition, required))
    if absent:
        indexes = [one.definition.name for one in index_states(state.definition, required) if one.status == "missing"]
        has_table = state.definition is not None
        message = f"The table has no index {', '.join(indexes)}." if has_table else "There is no table."
        remedy = CREATE_TABLE_REMEDY.replace("MODULE:CATALOG", address).replace("URL", f'"{url}"')
        report.add_finding("table", message, remedy)
    for problem in problems:
        if problem not in absent:
            report.add_finding("table", problem, RENAME_INDEX_REMEDY if problem in conflicting else None)
    if not problems:
        report.add_ok("table", "The table has everything that the catalog needs.")
    return not problems


async def _read_records(database: Database) -> dict[str, Sequence[Entity]]:
    """Read a page of each entity that has an index over all its records."""
    records: dict[str, Sequence[Entity]] = {}
    for spec in database.catalog.entities.values():
        candidates = (one for one in spec.indexes.values() if not one.hash and not one.id_prefix)
        index = next((one for one in candidates if one.range_properties), None)
        if index is not None:
            page = await database.page(SearchRequest(spec.name, index.attribute, limit=MAX_SAMPLED_RECORDS))
            records[spec.name] = page.items
    return records if any(records.values()) else {}


async def _read_samples(report: DoctorReport, catalog: Catalog, address: str) -> Mapping[str, Sequence[Entity]]:
    """Return sample records of the catalog's module, by entity."""
    records: dict[str, list[Entity]] = {}
    if has_sample_data(address):
        with report.errors_as_failures("catalog"):
            async for record in sample_records(address, MAX_SAMPLED_RECORDS):
                records.setdefault(catalog.entity(type(record)).name, []).append(record)
    return records
