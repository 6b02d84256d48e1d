"""The checks of `shardql doctor` that concern events: sources, who may post, and dead letters."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Literal

from graphql_api.cli.terminal_output import counted
from graphql_api.database import Database
from graphql_api.model import allows_anyone
from graphql_api.projections import DeadLetters, EventSource
from graphql_api.schema import describe_rule

EventCheck = tuple[Literal["fine", "note", "finding"], str, str | None]
"""status, message and remedy"""


def check_sources(sources: Iterable[EventSource]) -> Iterator[EventCheck]:
    """Yield what each source writes, and who may post its events."""
    for source in sources:
        names = ", ".join(one.name for one in source.projections)
        who = "no client may post them over HTTP" if source.allow is None else "posted by"
        if source.allow is not None:
            who = f"{who} {' or '.join(map(describe_rule, source.allow)) or 'no client'}"
        message = f"Events of {source.name} are applied by {names}, {who}."
        if source.allow is not None and allows_anyone(source.allow):
            yield "note", message, f'Name who may post them: event_rules={{"{source.name}": group("…")}}.'
        else:
            yield "fine", message, None


async def check_dead_letters(database: Database, sources: Iterable[EventSource]) -> AsyncIterator[EventCheck]:
    """Yield the sources with dead letters. Those of tenants are left out: their names are not known."""
    for source in sources:
        letters = await DeadLetters(database, source).all()
        if letters:
            remedy = f"List them: shardql project MODULE:GRAPH --source {source.name} --dead-letters list --store URL."
            yield "finding", f"{counted(len(letters), 'event')} of {source.name} could not be applied.", remedy
