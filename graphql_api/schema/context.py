"""What every resolver has at hand, as `info.context`."""

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
    tenant: str | None = None
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The database as the caller may see it."""

    database: Database
    caller: Caller
    explained: list[dict[str, Any]] = field(default_factory=list)
    """of each search, where the caller asks for it"""

    def explain(self, told: dict[str, Any]) -> None:
        """Keeps what a search has done."""
        if self.caller.explain:
            self.explained.append(told)
