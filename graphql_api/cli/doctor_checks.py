"""The report of `shardql doctor`, and its checks: catalog, settings, credentials, store and table."""

import platform
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from graphql_api.cli.common_options import with_names
from graphql_api.cli.event_checks import check_dead_letters, check_sources
from graphql_api.cli.exit_codes import FINDINGS, STORE, USAGE, exit_code, suggest_file
from graphql_api.cli.package_versions import version_of
from graphql_api.cli.sample_data import has_sample_data, sample_records
from graphql_api.connection import opened_with_lookups
from graphql_api.database import Database
from graphql_api.errors import InvalidCatalog, ShardQLError
from graphql_api.evolution import CREATE_TABLE_REMEDY
from graphql_api.model import (
    Catalog,
    Entity,
    EntitySpec,
    allows_anyone,
    find_unrestricted_access,
    join_type_names,
    load_catalog,
)
from graphql_api.ops import TableState, differences, find_advice, read_state
from graphql_api.query import SearchRequest, TokenSeal
from graphql_api.schema import DocumentExecutor, describe_rule
from graphql_api.server import (
    Settings,
    SettingValue,
    existing_record_key,
    existing_token_keys,
    load_graph,
    read_settings,
    read_trusted_documents,
    settings_problems,
    variable_name,
)
from graphql_api.server.auth import (
    JwksUnavailable,
    accepted_algorithms,
    configured_issuer,
    credential_problems,
    describe_credentials,
    load_key_set,
    read_api_keys_file,
    read_jwks_file,
)
from graphql_api.storage.engines import creates_tables, store_file

MAX_SAMPLED_RECORDS = 200
"""Number of records of each entity that are examined."""


CheckStatus: TypeAlias = Literal["fine", "note", "finding", "wrong"]
"""in order; may be intended, but has a cost or a risk; should be changed; cannot work"""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    topic: str
    status: CheckStatus
    message: str
    remedy: str | None


@dataclass(slots=True)
class DoctorReport:
    """The results of all checks. The exit code is that of the most severe result."""

    checks: list[CheckResult] = field(default_factory=list)
    settings: tuple[SettingValue, ...] = ()
    code: int = 0

    def add(self, status: CheckStatus, topic: str, message: str, remedy: str | None = None, code: int = 0) -> None:
        """Add a result. What cannot work determines the exit code."""
        self.checks.append(CheckResult(topic, status, message, remedy))
        self.code = max(self.code, FINDINGS if status == "finding" else code)

    @contextmanager
    def errors_as_failures(self, topic: str) -> Iterator[None]:
        """Report every ShardQLError within the block as a failure of this topic."""
        try:
            yield
        except InvalidCatalog as error:
            for violation in error.violations:
                location = f"{violation.entity}.{violation.property}" if violation.property else violation.entity
                self.add("wrong", topic, f"{location}: {violation.problem}", violation.remedy, exit_code(error))
        except ShardQLError as error:
            for line in error.message.splitlines():
                self.add("wrong", topic, line, code=exit_code(error))


async def run_checks(address: str, store: str | None, lookup_store: str | None) -> DoctorReport:
    """Check everything that a server of this catalog needs. Nothing is created or changed."""
    report = DoctorReport()
    names = {"ShardQL": "shardql", "Strawberry": "strawberry-graphql", "Starlette": "starlette", "pydantic": "pydantic"}
    packages = [f"{name} {version_of(package)}" for name, package in names.items()]
    report.add("fine", "versions", ", ".join([*packages, f"Python {platform.python_version()}"]))
    catalog = _check_catalog(report, address)
    settings = _check_settings(report, store, lookup_store)
    if catalog is not None:
        _check_access(report, [*catalog.entities.values()], is_written=settings is None or not settings.read_only)
    records: Mapping[str, Sequence[Entity]] = {}
    if settings is not None:
        if catalog is not None:
            _check_documents(report, settings, address)
        _check_keys(report, settings)
        await _check_credentials(report, settings)
        records = await _check_store(report, settings, catalog, address)
    if catalog is not None:
        if not records and has_sample_data(address):
            samples: dict[str, list[Entity]] = {}
            with report.errors_as_failures("catalog"):
                async for record in sample_records(address, MAX_SAMPLED_RECORDS):
                    samples.setdefault(catalog.entity(type(record)).name, []).append(record)
            records = samples
        for advice in find_advice(catalog, records):
            report.add("finding" if advice.is_warning else "note", "catalog", str(advice), advice.remedy)
    return report


# --- catalog and settings --------------------------------------------------------------------------------------


def _check_catalog(report: DoctorReport, address: str) -> Catalog | None:
    catalog = None
    with report.errors_as_failures("catalog"):
        catalog = load_catalog(address)
        names = ", ".join(spec.type_name for spec in catalog.entities.values())
        count = len(catalog.table_definition().indexes)
        report.add("fine", "catalog", f"{names}: {count} of at most {catalog.max_indexes} indexes per table.")
    if catalog is not None:
        with report.errors_as_failures("schema"):
            graph = load_graph(address)
            assert graph.schema is not None
            report.add("fine", "schema", f"{len(graph.queries)} query fields.")
            for status, message, remedy in check_sources(graph.sources.values()):
                report.add(status, "events", message, remedy)
    return catalog


def _check_access(report: DoctorReport, specs: Sequence[EntitySpec], *, is_written: bool) -> None:
    """Report missing access rules, and who may write which entities."""
    unrestricted = find_unrestricted_access(specs, is_written=is_written)
    for one in unrestricted:
        report.add("note", "access", one.description, one.remedy)
    if not unrestricted:
        report.add("fine", "access", f"Every entity declares who may read {'and write ' if is_written else ''}it.")
    entities_by_writers: dict[str, list[EntitySpec]] = {}
    for spec in specs if is_written else ():
        if spec.write is not None or not allows_anyone(spec.allow):
            writers = " or ".join(dict.fromkeys(map(describe_rule, spec.write_rules or ()))) or "no caller"
            entities_by_writers.setdefault(f"{writers[0].upper()}{writers[1:]}", []).append(spec)
    for writers, entities in entities_by_writers.items():
        report.add("fine", "access", f"{writers} may write {join_type_names(entities)}.")


def _check_settings(report: DoctorReport, store: str | None, lookup_store: str | None) -> Settings | None:
    settings = None
    with report.errors_as_failures("settings"):
        settings = read_settings(store=store, lookup_store=lookup_store)
        report.settings = settings.list_values()
        for problem in settings_problems(settings):
            report.add("wrong", "settings", problem, code=USAGE)
        changed = [one for one in report.settings if one.origin != "default"]
        for one in changed:
            report.add("fine", "settings", f"{one.variable} = {one.value} ({one.origin})")
        mode = "Production" if settings.production else "Development"
        defaults = len(report.settings) - len(changed)
        report.add("fine", "settings", f"{mode} mode; {defaults} settings have their defaults.")
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
        errors = [f"{name}: {error}" for name, text in documents.items() for error in executor.validation_errors(text)]
        for error in errors:
            report.add("finding", "documents", error)
        if not errors:
            report.add("fine", "documents", f"{len(documents):,} in {settings.documents}, all valid for the schema.")


def _check_keys(report: DoctorReport, settings: Settings) -> None:
    """Check the keys of page tokens and record keys. Keys that production lacks are reported with the settings."""
    with report.errors_as_failures("token key"):
        if settings.read_token_keys() or not settings.production:
            remedy = f"Set {variable_name('token_keys')}"
            _check_key(report, settings, "token key", "page tokens", existing_token_keys(settings), remedy)
    with report.errors_as_failures("record key"):
        key = existing_record_key(settings)
        if key is not None or not settings.production:
            remedy = f"Set {variable_name('record_key')} and never change it"
            _check_key(report, settings, "record key", "record keys", key, remedy)


def _check_key(
    report: DoctorReport, settings: Settings, topic: str, uses: str, existing: tuple[object, str] | None, remedy: str
) -> None:
    if existing is not None:
        report.add("fine", topic, f"{uses.capitalize()} are {existing[1]}.")
    elif creates_tables(settings.store_url):
        message = "There is none yet: the first start creates one and stores it next to the SQLite file."
        report.add("fine", topic, message)
    else:
        problem = f"There is none: {uses} become invalid when a server stops, and other servers do not accept them."
        report.add("finding", topic, problem, f"{remedy}; `openssl rand -base64 32` generates a key.")


# --- credentials -----------------------------------------------------------------------------------------------


async def _check_credentials(report: DoctorReport, settings: Settings) -> None:
    """Check the accepted callers, the keys of the issuer, and the file of API keys."""
    if any(credential_problems(settings)):
        return  # Reported with the settings already.
    issuer = configured_issuer(settings)
    report.add("fine", "callers", f"Accepted callers: {describe_credentials(settings)}.")
    if issuer is not None:
        if issuer.name is None:
            message = "Tokens of any issuer are accepted if their key is in the key set."
            report.add("finding", "callers", message, f"Set {variable_name('jwt_issuer')}.")
        if not settings.jwt_audiences:
            message = "Tokens that the issuer created for other services are accepted too."
            remedy = f"Set {variable_name('jwt_audiences')} to the audience of this service."
            report.add("finding", "callers", message, remedy)
        await _check_jwks(report, settings, issuer.jwks)
    _check_api_keys(report, settings)
    if settings.production and issuer is None and settings.api_keys_file is None:
        # These settings need authenticated callers, and the server accepts only anonymous ones.
        variables = ", ".join(map(variable_name, ("jwks", "cognito_user_pool")))
        remedy = f"Set {variables} or {variable_name('api_keys_file')}, or remove the setting."
        for setting, need in (("tenant_claim", "requires a tenant"), ("explain_groups", "names groups")):
            if getattr(settings, setting):
                report.add("finding", "callers", f"{variable_name(setting)} {need}, which no caller can have.", remedy)


async def _check_jwks(report: DoctorReport, settings: Settings, jwks: str) -> None:
    with report.errors_as_failures("callers"):
        keys = read_jwks_file(settings)
        if keys is None:
            started = time.monotonic()
            try:
                keys = await load_key_set(jwks, accepted_algorithms(settings))
            except JwksUnavailable as error:
                remedy = "Until it responds, no bearer token is accepted."
                report.add("finding", "callers", f"{jwks} is unavailable: {error}", remedy)
                return
            report.add("fine", "callers", f"{jwks} responds in {(time.monotonic() - started) * 1000:,.0f} ms.")
        algorithms = ", ".join(sorted({name for key in keys.keys for name in key.algorithms}))
        skipped = f" Of other types or too weak: {keys.skipped}." if keys.skipped else ""
        if keys.keys:
            report.add("fine", "callers", f"Usable keys of {jwks}: {len(keys.keys)}, for {algorithms}.{skipped}")
        else:
            remedy = "Until there is one, no bearer token is accepted."
            report.add("finding", "callers", f"No key of {jwks} is usable.{skipped}", remedy)


def _check_api_keys(report: DoctorReport, settings: Settings) -> None:
    path = settings.api_keys_file
    if path is None:
        return
    with report.errors_as_failures("callers"):
        keys = read_api_keys_file(settings)
        assert keys is not None
        report.add("fine", "callers", f"API keys in {path}: {len(keys)}.")
        plain = sum(key.is_plain for key in keys)
        if plain and stat.S_IMODE(path.stat().st_mode) & stat.S_IROTH:
            report.add("finding", "callers", f"Every user of this machine can read {path}.", f"Run chmod 600 {path}.")
        if plain:
            remedy = 'Store digests instead, as "sha256": `printf %s KEY | sha256sum` computes one.'
            report.add("note", "callers", f"API keys stored in plain text: {plain}.", remedy)


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
        lookups = None if catalog is None else settings.lookup_store
        declared = Catalog() if catalog is None else catalog
        async with opened_with_lookups(url, lookups, declared, read_only=True) as (store, marked):
            catalog = None if catalog is None else marked
            started = time.monotonic()
            state = await read_state(store)
            report.add("fine", "store", f"{url} responds in {(time.monotonic() - started) * 1000:,.0f} ms.")
            if catalog is not None and _check_table(report, settings, catalog, address, state):
                database = Database(catalog, store, TokenSeal((TokenSeal.new_secret(),)))
                async for status, message, remedy in check_dead_letters(database, load_graph(address).sources.values()):
                    report.add(status, "events", message, remedy and with_names(remedy, address, url))
                return await _read_records(database)
    return {}


def _is_missing_file(report: DoctorReport, url: str, *, creates: bool) -> bool:
    """Report a missing SQLite file before the store is opened, since opening it would create the file."""
    path = store_file(url)
    if path is None or path.exists():
        return False
    hint = suggest_file(path)
    if not path.parent.is_dir():
        remedy = "Create it, or name another one with --store."
        report.add("wrong", "store", f"There is no directory {path.parent}.", remedy, STORE)
    elif hint or not creates:
        remedy = "Name another one with --store, or start the server to create it."
        report.add("finding", "store", f"There is no file {path}.{hint}", remedy)
    else:
        report.add("fine", "store", f"There is no file {path} yet: the first start creates it.")
    return True


def _check_table(report: DoctorReport, settings: Settings, catalog: Catalog, address: str, state: TableState) -> bool:
    url = settings.store_url
    problems = [*differences(state, catalog, removes_expired=not creates_tables(url))]
    absent = [problem for problem in problems if problem.remedy == CREATE_TABLE_REMEDY]
    if absent:
        indexes = [problem.message.rpartition(" ")[2].removesuffix(".") for problem in absent]
        has_table = state.definition is not None
        message = f"The table has no index {', '.join(indexes)}." if has_table else "There is no table."
        report.add("finding", "table", message, with_names(CREATE_TABLE_REMEDY, address, url))
    for problem in problems:
        if problem not in absent:
            remedy = problem.remedy and with_names(problem.remedy, address, url)
            report.add("finding", "table", problem.message, remedy)
    if not problems:
        report.add("fine", "table", "The table has everything that the catalog needs.")
    regions = () if state.definition is None else state.definition.replica_regions
    if regions:
        message = f"The table is a global table, with replicas in {', '.join(regions)}."
        remedy = "Let servers write in one region only: conditions, and the record of the table, hold within a region."
        report.add("note", "table", message, remedy)
    return not problems


async def _read_records(database: Database) -> dict[str, Sequence[Entity]]:
    """Read a page of each entity that has an index over all its records."""
    records: dict[str, Sequence[Entity]] = {}
    for spec in database.catalog.entities.values():
        indexes = (one for one in spec.indexes.values() if one.range_properties and not one.hash and not one.id_prefix)
        if (index := next(indexes, None)) is not None:
            page = await database.page(SearchRequest(spec.name, index.attribute, limit=MAX_SAMPLED_RECORDS))
            records[spec.name] = page.items
    return records if any(records.values()) else {}
