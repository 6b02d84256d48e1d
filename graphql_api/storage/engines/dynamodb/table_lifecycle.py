"""The table: what stands, and making what is missing."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphql_api.errors import StoreError, StoreRefused, StoreUnavailable, WrongTable, nearest
from graphql_api.storage import IndexDefinition, Projection, TableDefinition, added_indexes, attribute_types
from graphql_api.storage.engines.dynamodb.calls import Call, Calls, requires
from graphql_api.storage.engines.dynamodb.error_mapping import BUSY_TABLE, MISSING, code_of, missing_table

_FIRST_PAUSE = 0.02

_MAX_REFUSALS = 50
"""so many times in a row the engine may be busy with other changes, while we see none; then its limit is a real one"""


@dataclass(frozen=True)
class Standing:
    """The table as the engine describes it."""

    definition: TableDefinition
    settled: bool
    """neither the table nor an index of it is being made or changed"""
    unfilled: frozenset[str]
    """indexes that cannot be read yet"""

    @cached_property
    def by_name(self) -> Mapping[str | None, IndexDefinition]:
        """All indexes, the table itself under None."""
        table = IndexDefinition("the table", self.definition.hash_attribute, self.definition.range_attribute)
        return {None: table} | {index.name: index for index in self.definition.indexes}


class Table:
    """One table; remembers how it was last described."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._standing: Standing | None = None
        self._looking = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._calls.table

    async def standing(self, deadline: float) -> Standing:
        """The table as last described; refused where there is none."""
        if self._standing is None:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._looking.acquire()
            except TimeoutError as problem:
                raise StoreUnavailable(f"Table {self.name!r} was not described in time. Try again.") from problem
            try:
                if self._standing is None:  # nobody was faster
                    self._standing = await self.look(deadline)
            finally:
                self._looking.release()
        if self._standing is None:
            raise missing_table(self.name)
        return self._standing

    async def index(self, name: str | None, deadline: float) -> tuple[Standing, IndexDefinition]:
        """An index that can be read; another process may have made or filled it since the last look."""
        standing = await self.standing(deadline)
        if name not in standing.by_name or name in standing.unfilled:
            self._standing = None
            standing = await self.standing(deadline)
        if name not in standing.by_name:
            known = [known for known in standing.by_name if known is not None]
            raise StoreRefused(
                f"Table {self.name!r} has no index {name!r}.{nearest(str(name), known)} "
                "Add new ones with `shardql table create`."
            )
        if name in standing.unfilled:
            raise StoreUnavailable(f"Index {name!r} is still being filled. Try again later.")
        return standing, standing.by_name[name]

    async def look(self, deadline: float) -> Standing | None:
        """The table as it stands now, or None where there is none."""
        call = Call("DescribeTable", {"TableName": self.name}, requires("Table"), deadline)
        try:
            answer = await self._calls.do(call)
        except WrongTable as problem:
            if code_of(problem.__cause__) == MISSING:
                return None
            raise
        return read_description(answer["Table"])

    async def expiry(self, deadline: float) -> str | None:
        """The attribute by which the engine removes records, if there is one."""
        call = Call("DescribeTimeToLive", {"TableName": self.name}, requires("TimeToLiveDescription"), deadline)
        told = (await self._calls.do(call))["TimeToLiveDescription"]
        enabled = told.get("TimeToLiveStatus") in {"ENABLED", "ENABLING"}
        return told.get("AttributeName") if enabled else None

    # --- making

    async def ensure(self, definition: TableDefinition) -> None:
        """Makes the table or its missing indexes; returns when all of them can be read and written."""
        patience = asyncio.get_running_loop().time() + self._calls.settings.table_seconds
        pause, refusals = _FIRST_PAUSE, 0
        while True:
            standing = await self.look(self._calls.deadline())
            missing = added_indexes(definition, None if standing is None else standing.definition)
            if standing is not None and standing.settled and not missing:
                break
            problem = None
            if standing is None:
                problem = await self._change("CreateTable", table_request(self.name, definition))
            elif standing.settled:
                request = _index_request(self.name, definition, standing, missing[0])
                problem = await self._change("UpdateTable", request)
            refusals = 0 if problem is None else refusals + 1
            if problem is not None and refusals > _MAX_REFUSALS:
                raise problem
            if Calls.left(patience) < pause:
                raise StoreUnavailable(
                    f"Table {self.name!r} is still being made. Ask for it again later, or set table_seconds."
                )
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, self._calls.settings.table_pause)
        self._standing = standing
        if definition.ttl_attribute is not None:
            await self._ensure_expiry(definition.ttl_attribute)

    async def _ensure_expiry(self, attribute: str) -> None:
        standing = await self.expiry(self._calls.deadline())
        if standing is not None and standing != attribute:
            raise WrongTable(
                f"Table {self.name!r} lets records expire by {standing!r}, not by {attribute!r}. Use another table, or "
                "turn its time to live off first."
            )
        if standing is None:
            specification = {"Enabled": True, "AttributeName": attribute}
            request = {"TableName": self.name, "TimeToLiveSpecification": specification}
            try:
                await self._change("UpdateTimeToLive", request)
            except StoreRefused:
                if await self.expiry(self._calls.deadline()) != attribute:  # no other process was faster
                    raise

    async def _change(self, operation: str, request: dict[str, Any]) -> StoreError | None:
        """Asks for a change; answers the problem if the engine is busy with another one."""
        call = Call(operation, request, lambda _: None, self._calls.deadline())
        try:
            await self._calls.do(call)
        except StoreError as problem:
            if code_of(problem.__cause__) not in BUSY_TABLE:
                raise
            return problem
        return None


# --- as the protocol writes it ---------------------------------------------------------------------------------


def table_request(name: str, definition: TableDefinition) -> dict[str, Any]:
    """What CreateTable is asked: the table on demand, with all of its indexes."""
    request: dict[str, Any] = {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": _key_schema(definition.hash_attribute, definition.range_attribute),
        "AttributeDefinitions": _attributes(attribute_types(definition, definition.indexes)),
    }
    if definition.indexes:
        request["GlobalSecondaryIndexes"] = [_index(index) for index in definition.indexes]
    return request


def _index_request(
    name: str, definition: TableDefinition, standing: Standing, index: IndexDefinition
) -> dict[str, Any]:
    types = attribute_types(definition, [*standing.definition.indexes, index])
    return {
        "TableName": name,
        "AttributeDefinitions": _attributes(types),
        "GlobalSecondaryIndexUpdates": [{"Create": _index(index)}],
    }


def _index(index: IndexDefinition) -> dict[str, Any]:
    projection: dict[str, Any] = (
        {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(index.projection)}
        if isinstance(index.projection, tuple)
        else {"ProjectionType": index.projection}
    )
    keys = _key_schema(index.hash_attribute, index.range_attribute)
    return {"IndexName": index.name, "KeySchema": keys, "Projection": projection}


def _key_schema(hash_attribute: str, range_attribute: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": hash_attribute, "KeyType": "HASH"},
        {"AttributeName": range_attribute, "KeyType": "RANGE"},
    ]


def _attributes(types: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()]


def read_description(told: Mapping[str, Any]) -> Standing:
    """The table that DescribeTable tells of; indexes by name, since the engine keeps no order."""
    types = {part["AttributeName"]: part["AttributeType"] for part in told.get("AttributeDefinitions", ())}
    hash_attribute, range_attribute = _keys(told, f"Table {told.get('TableName')!r}")
    found = sorted(told.get("GlobalSecondaryIndexes") or (), key=lambda index: str(index["IndexName"]))
    definitions, unfilled, settled = [], set(), told.get("TableStatus") == "ACTIVE"
    for index in found:
        name = index["IndexName"]
        if index.get("IndexStatus", "ACTIVE") != "ACTIVE":
            settled = False
            if index["IndexStatus"] != "UPDATING":
                unfilled.add(name)
        if len(index["KeySchema"]) != 2:
            continue  # somebody else's, which no read of ours asks for
        index_hash, index_range = _keys(index, f"Index {name!r}")
        kind = types.get(index_range)
        if types.get(index_hash) == "S" and kind in {"S", "N"}:
            definitions.append(IndexDefinition(name, index_hash, index_range, kind, _projection(index["Projection"])))
    definition = TableDefinition(tuple(definitions), hash_attribute, range_attribute)
    if (types[hash_attribute], types[range_attribute]) != ("S", "S"):
        raise WrongTable(f"Table {told.get('TableName')!r} has keys that are no text. Use another table.")
    return Standing(definition, settled, frozenset(unfilled))


def _keys(told: Mapping[str, Any], where: str) -> tuple[str, str]:
    keys = {part["KeyType"]: part["AttributeName"] for part in told["KeySchema"]}
    if keys.keys() != {"HASH", "RANGE"}:
        raise WrongTable(f"{where} has no range key. Use another table.")
    return keys["HASH"], keys["RANGE"]


def _projection(told: Mapping[str, Any]) -> Projection:
    if told["ProjectionType"] == "INCLUDE":
        return tuple(sorted(told.get("NonKeyAttributes") or ()))
    return "ALL" if told["ProjectionType"] == "ALL" else "KEYS_ONLY"
