"""What every resolver has at hand, as `info.context`."""

from dataclasses import dataclass

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
