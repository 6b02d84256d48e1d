"""A graph with subscriptions: notes that are announced, and a generator that tests control."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Annotated, Any

import strawberry
from strawberry.permission import BasePermission

from graphql_api import Catalog, Entity, Graph, Id, Index, allow, group
from graphql_api.schema.request_context import Context

Info = strawberry.Info[Any, None]


class Note(Entity):
    """A note."""

    note_id: Id[str]
    text: str
    secret: Annotated[str, allow(group("Keepers"))] = "hidden"  # noqa: S105 - a property
    author: str = "ann"

    by_author = Index(hash="author", sort="note_id")


@dataclass
class Notices:
    """What the test sees of the generators, and what it announces."""

    queues: set[asyncio.Queue[str]] = field(default_factory=set)
    ended: list[str] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)
    produced: int = 0


class IsReader(BasePermission):
    message = "Only readers watch."

    async def has_permission(self, source: Any, info: Info, **_: Any) -> bool:
        return info.context.caller.subject is not None


def notes_graph(notices: Notices | None = None, **options: Any) -> Graph:  # noqa: C901 - many small resolvers
    """Return the graph."""
    seen = notices or Notices()
    graph = Graph(Catalog(Note), **options)

    note_type: Any = graph.record_type(Note)

    @graph.subscription
    @strawberry.type(description="Events of notes.")
    class Subscriptions:
        @strawberry.subscription
        async def count(self, to: int, fails: bool = False) -> AsyncGenerator[int, None]:
            for number in range(to):
                yield number
            if fails:
                raise RuntimeError("sesame")

        @strawberry.subscription
        async def forever(self, info: Info) -> AsyncGenerator[str, None]:
            try:
                while True:
                    seen.produced += 1
                    yield "x" * 10_000
            finally:
                seen.ended.append("forever")

        @strawberry.subscription(permission_classes=[IsReader])  # type: ignore[untyped-decorator]
        async def watched(self) -> AsyncGenerator[int, None]:
            yield 1

        @strawberry.subscription
        async def note_changes(self, info: Info, first: str) -> AsyncGenerator[note_type | None, None]:
            """Yield a note at once, and then each one that is announced."""
            queue = asyncio.Queue[str]()
            seen.queues.add(queue)
            seen.contexts.append(info.context)
            try:
                note_id = first
                while True:
                    yield await info.context.database.get(Note, note_id)
                    note_id = await queue.get()
            finally:
                seen.queues.discard(queue)
                seen.ended.append(info.context.caller.subject or "anonymous")

    @graph.mutation
    @strawberry.type
    class Mutations:
        @strawberry.mutation
        async def announce(self, note_id: str) -> int:
            for queue in seen.queues:
                queue.put_nowait(note_id)
            return len(seen.queues)

        @strawberry.mutation
        async def wait_for_stop(self, info: Info) -> str:
            subscriptions = info.context.request.app.state.subscriptions
            while not subscriptions.is_stopping:  # noqa: ASYNC110 - only the server knows the event
                await asyncio.sleep(0.01)
            return "written"

    @strawberry.type
    class NoteFields:
        @strawberry.field
        async def context_number(self, info: Info) -> int:
            seen.contexts.append(info.context)
            return len({id(context) for context in seen.contexts})

    graph.extend(Note, NoteFields)
    return graph
