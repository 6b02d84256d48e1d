"""The context of one request, available to every resolver as `info.context`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import isawaitable
from time import monotonic
from typing import Any

from orjson import dumps

from graphql_api.database import Database
from graphql_api.errors import DeadlineExceeded, ShardQLError
from graphql_api.schema.authorization import AuthorizationPolicy
from graphql_api.schema.dataloaders import Dataloaders
from graphql_api.schema.error_formatting import ErrorFormatter


@dataclass(frozen=True, slots=True)
class Caller:
    """The principal that sent a request, and the options of this request."""

    correlation_id: str
    read_only: bool = False
    """Mutations are refused: the request is a GET."""
    explain: bool = False
    """The response contains explain output."""
    logs_explain: bool = False
    """The request log contains explain output."""
    tenant: str | None = None
    subject: str | None = None
    """The authenticated principal; None if the request is anonymous."""
    groups: frozenset[str] = frozenset()
    waited_seconds: float = 0.0
    """Time that the request waited before its execution. It counts toward the deadline."""
    max_units: float | None = None
    """Ceiling of the capacity units that this request may use; None: any number."""
    trusted: bool = False
    """No rule applies. Set for the owner of the catalog (the command line), never for a client."""

    @property
    def principal(self) -> str | None:
        """Return what page tokens are bound to: the subject and its groups, not the credential, which is renewed."""
        if self.subject is None:
            return None
        return dumps([self.subject, sorted(self.groups)]).decode()


@dataclass(frozen=True, eq=False)
class RequestFields:
    """The fixed attributes of a context."""

    database: Database
    caller: Caller
    errors: ErrorFormatter
    request: Any = None
    """The request of Starlette; None without a server."""
    read_unit_price: float | None = None
    """Price of a million read units."""
    write_unit_price: float | None = None
    """Price of a million write units."""
    explain_entries: list[dict[str, Any]] = field(default_factory=list)
    """Explain output of each read and write, in order of completion."""
    row_errors: list[ShardQLError] = field(default_factory=list)
    """Errors of rows of batches, which are part of the data."""
    is_mutation: bool = False
    is_stream: bool = False
    """It is that of the generator of a subscription, which may last for days. Each event has a context of its own."""
    non_idempotent_started: list[str] = field(default_factory=list)
    """Names of mutation fields that have started a write that is not idempotent."""
    non_idempotent_completed: list[str] = field(default_factory=list)
    """Those of them that have written, or whose outcome is unknown."""


class Context(RequestFields):
    """Everything that resolvers of one request share; `database` is limited to the caller's tenant.

    Applications may set further attributes, such as dataloaders. Those of this class cannot be replaced.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN_NAMES:
            raise AttributeError(f"The context has its own {name}: choose another name for the attribute.")
        self.__dict__[name] = value

    @property
    def free_attributes(self) -> Mapping[str, Any]:
        """The attributes that the application has set."""
        return {name: value for name, value in self.__dict__.items() if name not in _OWN_NAMES}

    def add(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes of the application."""
        for name, value in attributes.items():
            setattr(self, name, value)

    def count_waiting(self, seconds: float) -> None:
        """Count time before the execution toward the deadline."""
        self.__dict__["caller"] = replace(self.caller, waited_seconds=self.caller.waited_seconds + seconds)

    def begin_mutation(self) -> None:
        """Turn off the caches of records: a mutation reads what it has written."""
        self.__dict__.pop("dataloaders", None)
        self.__dict__.pop("authorization", None)
        self.__dict__["is_mutation"] = True

    def begin_stream(self) -> None:
        """Turn off the caches of records: a subscription reads what has been written since it began."""
        self.__dict__["is_stream"] = True

    @cached_property
    def dataloaders(self) -> Dataloaders:
        on_explain = self.add_explain if self.collects_explain else None
        return Dataloaders(self.database, on_explain, cache=not (self.is_mutation or self.is_stream))

    @cached_property
    def authorization(self) -> AuthorizationPolicy:
        caller, catalog = self.caller, self.database.catalog
        return AuthorizationPolicy(catalog, caller.subject, caller.groups, self.dataloaders, caller.trusted)

    @property
    def collects_explain(self) -> bool:
        """Return whether explain output is needed, for the response or for the log."""
        return self.caller.explain or self.caller.logs_explain

    def add_explain(self, path: Sequence[str | int], entry: Mapping[str, Any]) -> None:
        """Append the explain output of one field, with the price of a million such pages or writes if it is known."""
        priced = dict(entry)
        for part, price, name in (
            ("read", self.read_unit_price, "costPerMillionPages"),
            ("write", self.write_unit_price, "costPerMillionWrites"),
        ):
            units = entry.get(part, {}).get("capacityUnits")
            if units is not None and price is not None:
                priced[part] = {**entry[part], name: round(units * price, 6)}
        self.explain_entries.append({"path": [*path], **priced})


_OWN_NAMES = frozenset(dir(Context)) | frozenset(RequestFields.__dataclass_fields__)

ContextGetter = Callable[[Any, Context], Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None]
"""Receives the HTTP request and the context. Returns attributes for the context, or sets them itself."""


async def add_attributes(context: Context, get: ContextGetter, seconds: float) -> None:
    """Set the attributes that the application wants in the context. Their time, within `seconds`, counts as waiting."""
    started = monotonic()
    try:
        async with asyncio.timeout(seconds):
            found: Any = get(context.request, context)
            attributes = await found if isawaitable(found) else found
    except TimeoutError:
        raise DeadlineExceeded(f"The context was not ready within {seconds:g} seconds. Try again.") from None
    context.add(attributes or {})
    context.count_waiting(monotonic() - started)


def scoped(database: Database, caller: Caller) -> Database:
    """Return the database limited to the tenant of the caller, and to the capacity units of the request."""
    if (caller.tenant, caller.principal, caller.subject) != (database.tenant, database.principal, database.subject):
        database = database.scoped(tenant=caller.tenant, principal=caller.principal, subject=caller.subject)
    return database if caller.max_units is None else database.limited(caller.max_units)
