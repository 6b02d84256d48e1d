"""The table: its description, and the creation of missing parts."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, TypeVar

from graphql_api.errors import MissingIndex, StoreError, StoreRefused, StoreUnavailable, WrongTable, nearest
from graphql_api.storage import IndexDefinition, TableDefinition, indexes_to_add
from graphql_api.storage.engines.dynamodb.api_client import ApiCall, ApiClient
from graphql_api.storage.engines.dynamodb.driver_client import Response
from graphql_api.storage.engines.dynamodb.error_mapping import BUSY_TABLE, MISSING, error_code, missing_table_error
from graphql_api.storage.engines.dynamodb.table_requests import (
    attribute_arguments,
    create_table_arguments,
    index_arguments,
)

_FIRST_POLL_SECONDS = 0.02

_MAX_BUSY_REPLIES = 50
"""busy replies in a row, without a visible change, after which the limit of DynamoDB is reported as an error"""


T = TypeVar("T")

TableChange = tuple[str, dict[str, Any]]
"""an operation of the API, and its arguments"""


@dataclass(frozen=True)
class TableDescription:
    """The table as DynamoDB describes it."""

    definition: TableDefinition
    is_stable: bool
    """neither the table nor any index is being created or changed"""
    backfilling: frozenset[str]
    """indexes that are not readable yet"""

    @cached_property
    def by_name(self) -> Mapping[str | None, IndexDefinition]:
        """Return all indexes by name, and the table itself under None."""
        table = IndexDefinition("the table", self.definition.hash_attribute, self.definition.range_attribute)
        return {None: table} | {index.name: index for index in self.definition.indexes}


class DynamoTable:
    """One table, with its cached description."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._description: TableDescription | None = None
        self._describe_lock = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._api.table

    async def _cached_description(self, deadline: float) -> TableDescription:
        """Return the cached description. Refuse if there is no table."""
        if self._description is None:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._describe_lock.acquire()
            except TimeoutError as problem:
                raise StoreUnavailable(f"Table {self.name!r} was not described in time. Try again.") from problem
            try:
                if self._description is None:  # no other task was first
                    self._description = await self.describe(deadline)
            finally:
                self._describe_lock.release()
        if self._description is None:
            raise missing_table_error(self.name)
        return self._description

    async def definition(self, deadline: float) -> TableDefinition:
        """Return the cached definition. Refuse if there is no table."""
        return (await self._cached_description(deadline)).definition

    async def index(self, name: str | None, deadline: float) -> tuple[TableDefinition, IndexDefinition]:
        """Return a readable index.

        Describe the table again if necessary, as another process may have added or backfilled the index.
        """
        description = await self._cached_description(deadline)
        if name not in description.by_name or name in description.backfilling:
            self._description = None
            description = await self._cached_description(deadline)
        if name not in description.by_name:
            known = [known for known in description.by_name if known is not None]
            raise MissingIndex(
                f"Table {self.name!r} has no index {name!r}.{nearest(str(name), known)} "
                "Add it with `shardql table create`."
            )
        if name in description.backfilling:
            raise StoreUnavailable(f"Index {name!r} is still being backfilled. Try again later.")
        return description.definition, description.by_name[name]

    async def describe(self, deadline: float | None = None) -> TableDescription | None:
        """Return the current description, or None if there is no table. `deadline`: of an operation that needs it."""
        try:
            return parse_description(await self._execute("DescribeTable", {}, itemgetter("Table"), deadline))
        except WrongTable as problem:
            if error_code(problem.__cause__) == MISSING:
                return None
            raise

    async def read_ttl_attribute(self) -> str | None:
        """Return the time-to-live attribute, or None if expiry is off."""
        reported = await self._execute("DescribeTimeToLive", {}, itemgetter("TimeToLiveDescription"))
        enabled = reported.get("TimeToLiveStatus") in {"ENABLED", "ENABLING"}
        return reported.get("AttributeName") if enabled else None

    # --- creation

    async def ensure(self, definition: TableDefinition) -> None:
        """Create the table or its missing indexes. Return when all of them are readable and writable."""

        def next_change(description: TableDescription | None) -> TableChange | None:
            missing = indexes_to_add(definition, None if description is None else description.definition)
            if description is None:
                return "CreateTable", create_table_arguments(definition)
            if not missing:
                return None
            indexes = [*description.definition.indexes, missing[0]]
            return "UpdateTable", {
                "AttributeDefinitions": attribute_arguments(definition, indexes),
                "GlobalSecondaryIndexUpdates": [{"Create": index_arguments(missing[0])}],
            }

        await self._change_until_done(next_change)
        if definition.ttl_attribute is not None:
            await self._ensure_ttl(definition.ttl_attribute)

    async def drop_index(self, name: str) -> None:
        """Remove an index, if it exists. Return when it is gone."""

        def next_change(description: TableDescription | None) -> TableChange | None:
            if description is None or name not in description.by_name:
                return None
            return "UpdateTable", {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": name}}]}

        await self._change_until_done(next_change)

    async def _change_until_done(self, next_change: Callable[[TableDescription | None], TableChange | None]) -> None:
        """Request changes one by one, until there is none left and the table is stable."""
        deadline = asyncio.get_running_loop().time() + self._api.settings.table_seconds
        interval, busy_replies = _FIRST_POLL_SECONDS, 0
        while True:
            description = await self.describe()
            change, is_stable = next_change(description), description is None or description.is_stable
            if is_stable and change is None:
                break
            problem = await self._request_change(*change) if is_stable and change is not None else None
            busy_replies = 0 if problem is None else busy_replies + 1
            if problem is not None and busy_replies > _MAX_BUSY_REPLIES:
                raise problem
            if deadline - asyncio.get_running_loop().time() < interval:
                raise StoreUnavailable(
                    f"Table {self.name!r} is still being created. Try again later, or raise table_seconds."
                )
            await asyncio.sleep(interval)
            interval = min(interval * 1.5, self._api.settings.table_pause)
        self._description = description

    async def _ensure_ttl(self, attribute: str) -> None:
        current = await self.read_ttl_attribute()
        if current is not None and current != attribute:
            raise WrongTable(
                f"Table {self.name!r} has the time-to-live attribute {current!r}, not {attribute!r}. Use another "
                "table, or disable its time to live first."
            )
        if current is None:
            specification = {"Enabled": True, "AttributeName": attribute}
            try:
                await self._request_change("UpdateTimeToLive", {"TimeToLiveSpecification": specification})
            except StoreRefused:
                if await self.read_ttl_attribute() != attribute:  # no other process was first
                    raise

    async def _request_change(self, operation: str, arguments: dict[str, Any]) -> StoreError | None:
        """Request a change. Return the error if DynamoDB is busy with another change."""
        try:
            await self._execute(operation, arguments, lambda _: None)
        except StoreError as problem:
            if error_code(problem.__cause__) not in BUSY_TABLE:
                raise
            return problem
        return None

    async def _execute(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        parse: Callable[[Response], T],
        deadline: float | None = None,
    ) -> T:
        """Execute an operation on the table. Without a deadline, it has the time of a table operation."""
        call = ApiCall(
            operation,
            {"TableName": self.name, **arguments},
            parse,
            self._api.new_table_deadline() if deadline is None else deadline,
            is_table_operation=deadline is None,
        )
        return await self._api.execute(call)


def parse_description(reported: Mapping[str, Any]) -> TableDescription:
    """Parse the response of DescribeTable. Indexes are sorted by name, because their order is undefined."""
    types = {part["AttributeName"]: part["AttributeType"] for part in reported.get("AttributeDefinitions", ())}
    hash_attribute, range_attribute = _read_key_attributes(reported, f"Table {reported.get('TableName')!r}")
    index_descriptions = sorted(reported.get("GlobalSecondaryIndexes") or (), key=lambda index: str(index["IndexName"]))
    definitions, backfilling, is_stable = [], set(), reported.get("TableStatus") == "ACTIVE"
    for index in index_descriptions:
        name = index["IndexName"]
        if index.get("IndexStatus", "ACTIVE") != "ACTIVE":
            is_stable = False
            if index["IndexStatus"] != "UPDATING":
                backfilling.add(name)
        if len(index["KeySchema"]) != 2:
            continue  # an index without range key, which ShardQL never reads
        index_hash, index_range = _read_key_attributes(index, f"Index {name!r}")
        kind = types.get(index_range)
        if types.get(index_hash) == "S" and kind in {"S", "N"}:
            projection = index["Projection"]["ProjectionType"]
            if projection == "INCLUDE":
                projection = tuple(sorted(index["Projection"].get("NonKeyAttributes") or ()))
            definitions.append(IndexDefinition(name, index_hash, index_range, kind, projection))
    definition = TableDefinition(
        tuple(definitions),
        hash_attribute,
        range_attribute,
        item_count=reported.get("ItemCount"),
        replica_regions=tuple(sorted(replica["RegionName"] for replica in reported.get("Replicas") or ())),
    )
    if (types[hash_attribute], types[range_attribute]) != ("S", "S"):
        raise WrongTable(f"Table {reported.get('TableName')!r} has keys that are not text. Use another table.")
    return TableDescription(definition, is_stable, frozenset(backfilling))


def _read_key_attributes(reported: Mapping[str, Any], where: str) -> tuple[str, str]:
    keys = {part["KeyType"]: part["AttributeName"] for part in reported["KeySchema"]}
    if keys.keys() != {"HASH", "RANGE"}:
        raise WrongTable(f"{where} has no range key. Use another table.")
    return keys["HASH"], keys["RANGE"]
