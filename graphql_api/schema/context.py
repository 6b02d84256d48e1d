"""What every resolver has at hand, as `info.context`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphql_api.database import Database


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
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The database as the caller may see it."""

    database: Database
    caller: Caller
    read_unit_price: float | None = None
    """of a million"""
    explained: list[dict[str, Any]] = field(default_factory=list)
    """what each search has done, in the order in which they ended"""

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
