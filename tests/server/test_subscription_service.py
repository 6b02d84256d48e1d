"""The executions of events share admission control with other operations."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from graphql_api import open_catalog
from graphql_api.errors import Overloaded
from graphql_api.schema import Caller, Operation, StreamExecutor
from graphql_api.server.admission_control import AdmissionController
from graphql_api.server.database_lifespan import DatabaseHolder
from graphql_api.server.request_state import RequestState
from graphql_api.server.subscriptions import SubscriptionService
from tests.server.notes_graph import Notices, notes_graph

CHANGES = Operation('subscription { noteChanges(first: "n1") { text } }')


async def test_admission(tmp_path: Path) -> None:
    """Open subscriptions hold no place, and their events wait under overload, while other operations are refused."""
    notices, admission = Notices(), AdmissionController(1, 0.0, 1 << 20)
    graph = notes_graph(notices)
    holder = DatabaseHolder(lambda: open_catalog(graph.catalog, f"sqlite:///{tmp_path}/notes.db"))
    service = SubscriptionService(StreamExecutor(graph.schema.executor), holder, admission, 100)

    def open_stream(operation: Operation) -> Any:
        return service.stream(operation, Caller("c"), None, RequestState("c"))

    streams = [open_stream(CHANGES) for _ in range(30)]
    for stream in streams:
        assert (await anext(stream)).codes == ()
    assert (service.open_subscriptions, admission.in_flight) == (30, 0)
    for queue in notices.queues:
        queue.put_nowait("n1")
    async with admission.admit():
        waiting = [asyncio.create_task(anext(stream)) for stream in streams]
        (refused,) = [one async for one in open_stream(Operation("{ __typename }"))]
        assert refused.codes == (Overloaded.code,)
        with pytest.raises(Overloaded):
            await admission.admit().__aenter__()
        assert not any(task.done() for task in waiting)
    assert {response.codes for response in await asyncio.gather(*waiting)} == {()}
    for stream in streams:
        await stream.aclose()
    assert (service.open_subscriptions, len(notices.queues)) == (0, 0)
    await holder.close()
