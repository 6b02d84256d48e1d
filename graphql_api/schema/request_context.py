"""What every resolver has at hand, as `info.context`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orjson import dumps

from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.model import Entity, EntitySpec
from graphql_api.schema.authorization import Gate
from graphql_api.schema.dataloaders import Path, Reads


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and what belongs to the one request."""

    correlation_id: str
    read_only: bool = False
    """nothing may be written: a GET"""
    explain: bool = False
    """the answer tells what its searches have done"""
    logs_explain: bool = False
    """the log tells it"""
    tenant: str | None = None
    subject: str | None = None
    """who it is, as the server knows them; None: nobody that it knows"""
    groups: frozenset[str] = frozenset()
    trusted: bool = False
    """no rule stands in its way: it is whoever declares the catalog, and never a client"""

    @property
    def principal(self) -> str | None:
        """What page tokens are bound to: who it is and what they may do, not the credential, which is renewed."""
        if self.subject is None:
            return None
        return dumps([self.subject, sorted(self.groups)]).decode()


def _told(problem: ShardQLError) -> Mapping[str, Any]:
    return {"message": problem.message, "extensions": problem.extensions}


@dataclass(frozen=True, slots=True)
class Context:
    """The database as the caller may see it."""

    database: Database
    caller: Caller
    read_unit_price: float | None = None
    """of a million"""
    explained: list[dict[str, Any]] = field(default_factory=list)
    """what each search has done, in the order in which they ended"""
    writes: bool = False
    """it is a mutation's"""
    begun_once: list[str] = field(default_factory=list)
    """mutations that have begun to write what must not be written twice, by their names"""
    done_once: list[str] = field(default_factory=list)
    """those of them that have written it, or of which nobody knows"""
    tell: Callable[[ShardQLError], Mapping[str, Any]] = _told
    """an error as clients are told of it, where it stands in an answer"""
    reads: Reads = field(init=False)
    """the one way by which its fields read"""
    gate: Gate = field(init=False)
    """the rules that stand before it"""

    def __post_init__(self) -> None:
        told = self.explain if self.explains else None
        reads = Reads(self.database, told, keeps=not self.writes)
        object.__setattr__(self, "reads", reads)

        async def look_up(entity: EntitySpec, values: Sequence[Any], path: Path) -> Entity | None:
            why = f"An access lookup: {entity.type_name} tells who owns what."
            return await reads.record(entity, values, path, consistent=True, why=why)

        caller = self.caller
        gate = Gate(self.database.catalog, caller.subject, caller.groups, look_up, trusted=caller.trusted)
        object.__setattr__(self, "gate", gate)

    @property
    def explains(self) -> bool:
        """Whether anybody wants to know what searches do."""
        return self.caller.explain or self.caller.logs_explain

    def explain(self, path: Sequence[str | int], told: Mapping[str, Any]) -> None:
        """Keeps what the search of a field has done, and what a million of its like would cost."""
        read = told["read"]
        if self.read_unit_price is not None and "capacityUnits" in read:
            read = {**read, "costPerMillionPages": round(read["capacityUnits"] * self.read_unit_price, 6)}
        self.explained.append({"path": [*path], **told, "read": read})
