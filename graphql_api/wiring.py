"""Brings a catalog, a store and their secrets together: the Python interface."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from logging import getLogger
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from graphql_api.adapters.sqlite import open_sqlite
from graphql_api.catalog.catalog import Catalog
from graphql_api.catalog.entity import Entity
from graphql_api.catalog.markers import IndexRef
from graphql_api.catalog.specs import EntitySpec
from graphql_api.clock import Clock, system_clock
from graphql_api.errors import (
    ConflictingArguments,
    InvalidValue,
    MissingArgument,
    ShardQLError,
    UnknownArgument,
    about,
    nearest,
)
from graphql_api.fanout.page import Page
from graphql_api.fanout.whole_records import find_page
from graphql_api.keys.outside import split_outside
from graphql_api.mutations.apply import delete_record, get_record, put_records
from graphql_api.search.conditions import argument_name, searched_value
from graphql_api.search.planner import plan_search
from graphql_api.search.request import PAGING, SearchRequest
from graphql_api.search.seal import Seal
from graphql_api.store.port import Store
from graphql_api.upkeep.table_meta import admit_table

E = TypeVar("E", bound=Entity)
log = getLogger("shardql")


@dataclass(frozen=True, slots=True)
class Secrets:
    """What page tokens are sealed with: at least 32 random bytes each.

    The first one seals and all of them open, so they can rotate.
    """

    tokens: Sequence[bytes] = field(repr=False)

    @staticmethod
    def generate() -> "Secrets":
        """A new secret: tokens made with it are worth nothing after a restart."""
        return Secrets((Seal.new_secret(),))


@dataclass(frozen=True, slots=True)
class Database:
    """A catalog over a store, as one tenant and principal see it."""

    catalog: Catalog
    store: Store
    seal: Seal
    clock: Clock = system_clock
    tenant: str | None = None
    principal: str | None = None

    def scoped(self, *, tenant: str | None = None, principal: str | None = None) -> "Database":
        """The same data as another tenant and principal: other records, other tokens."""
        return replace(self, tenant=tenant, principal=principal)

    # --- reading -----------------------------------------------------------------------------------------------

    async def search(self, index: IndexRef, /, **arguments: Any) -> Page[Any]:
        """One page: `await db.search(User.by_first_name, prefix="j", limit=20)`.

        Takes the index's hash properties, `eq`, `prefix`, `from_` and `to` for its first sort property, conditions by
        property name, `reverse`, and either `limit` and `next_token` or `first`, `after`, `last` and `before`.
        """
        return await self._search(index, arguments, consistent=False)

    async def _search(self, index: IndexRef, arguments: dict[str, Any], *, consistent: bool) -> Page[Any]:
        paging = {name: arguments.pop(name) for name in PAGING & arguments.keys()}
        entity = self.catalog.entity(index.entity)
        request = SearchRequest(
            entity.name,
            index.attribute,
            arguments,
            tenant=self.tenant,
            principal=self.principal,
            consistent=consistent,
            **paging,
        )
        plan = plan_search(self.catalog, request, self.clock(), self.seal)
        return Page(plan, await find_page(self.store, plan), self.seal)

    async def get(self, entity: type[E], id: Any = None, /, *, consistent: bool = True, **parts: Any) -> E | None:
        """The record with this id: `await db.get(User, "wf5y")`, `await db.get(Line, "o-1", category="a", num=3)`.

        Where records have a sub id and none is given, it is the last one.
        """
        spec = self.catalog.entity(entity)
        values = _primary_values(spec, id, parts)
        if spec.sub_ids and len(values) == len(spec.ids):
            by_id = {argument_name(part.name): value for part, value in zip(spec.ids, values, strict=True)}
            arguments = {**by_id, "reverse": True, "limit": 1}
            last = await self._search(IndexRef(entity, "by_id"), arguments, consistent=consistent)
            return last.items[0] if last.items else None
        found = await get_record(self.store, spec, values, self.tenant, now=self.clock(), consistent=consistent)
        return found if isinstance(found, entity) else None

    # --- writing -----------------------------------------------------------------------------------------------

    async def put(self, record: Entity) -> None:
        """Writes a record in place of the one with its id."""
        (problem,) = await self.put_many([record])
        if problem is not None:
            raise problem

    async def put_many(self, records: Sequence[Entity]) -> list[ShardQLError | None]:
        """Writes records of one entity, each by itself; tells for each whether it failed."""
        if not records:
            return []
        entity = self.catalog.entity(type(records[0]))
        return await put_records(self.store, entity, records, self.tenant, now=self.clock())

    async def delete(self, entity: type[Entity], id: Any = None, /, **parts: Any) -> None:
        """Removes the record with this id, if there is one."""
        spec = self.catalog.entity(entity)
        values = _primary_values(spec, id, parts)
        if len(values) < len(spec.primary):
            missing = spec.sub_ids[0].name
            raise MissingArgument(f"{spec.type_name} has several records an id: give {missing} too.", argument=missing)
        await delete_record(self.store, spec, values, self.tenant)


@asynccontextmanager
async def open_catalog(
    catalog: Catalog,
    url: str,
    *,
    secrets: Secrets | None = None,
    clock: Clock = system_clock,
    create_table: bool | None = None,
) -> AsyncIterator[Database]:
    """Opens a catalog's table: `async with open_catalog(catalog, "sqlite:///data.db") as db: …`.

    `create_table` says whether a missing table or index is made; if nothing is said, SQLite does and DynamoDB does not.
    """
    if secrets is None:
        log.info("No secrets were given: page tokens of this process are worth nothing to another one.")
        secrets = Secrets.generate()
    store = await open_store(url)
    try:
        await admit_table(
            store, catalog, clock(), create_table=makes_tables(url) if create_table is None else create_table
        )
        yield Database(catalog, store, Seal(secrets.tokens), clock)
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
        return await open_sqlite(Path(rest[1:]))
    if scheme == "dynamodb" and mark:
        return await _open_dynamodb(url)
    raise UnknownArgument(
        f"{url!r} names no store: write sqlite:///relative.db, sqlite:////absolute.db or dynamodb://table.",
        argument="url",
    )


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


# --- ids -------------------------------------------------------------------------------------------------------


def _primary_values(spec: EntitySpec, id: Any, parts: dict[str, Any]) -> list[Any]:
    """The values of a primary key, out of an id and parts by name; without its sub ids if none of them is given."""
    left = dict(parts)
    known = [part.name for part in spec.primary]
    if id is None and "id" not in known:
        id = left.pop("id", None)
    values: list[Any] = []
    if id is not None and not spec.ids:
        raise UnknownArgument(f"{spec.type_name} has no id, since there is one of it: leave id out.", argument="id")
    if id is not None:
        with about("id"):
            parts_of_id = split_outside(id, [part.column.codec for part in spec.ids], spec.separator)
            values = [searched_value(spec, part, value) for part, value in zip(spec.ids, parts_of_id, strict=True)]
    for part in spec.primary[len(values) :]:
        if part.name not in left:
            if part in spec.sub_ids and not any(sub.name in parts for sub in spec.sub_ids):
                break
            raise MissingArgument(f"{spec.type_name} is found by its {part.name}: give it.", argument=part.name)
        with about(part.name):
            values.append(searched_value(spec, part, left.pop(part.name)))
    if left:
        wrong = next(iter(left))
        if wrong in known:
            raise ConflictingArguments(
                f"{wrong} is part of the id, which is given too: give one of the two.", argument=wrong
            )
        raise UnknownArgument(
            f"{spec.type_name} is found by {', '.join(known)}, not by {wrong!r}.{nearest(wrong, known)}", argument=wrong
        )
    return values
