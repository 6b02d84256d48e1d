"""Parts of the server for subscriptions: admission of events, and clients that do not read."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message
from starlette.websockets import WebSocket

from graphql_api import open_catalog
from graphql_api.errors import Overloaded
from graphql_api.schema import Caller, Operation, StreamExecutor
from graphql_api.server import websocket_endpoint
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


async def test_clients_that_do_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not read a message in time is disconnected with a code."""
    monkeypatch.setattr(websocket_endpoint, "SEND_SECONDS", 0.0)
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "websocket.send":
            await asyncio.Event().wait()

    socket = WebSocket({"type": "websocket", "headers": []}, receive, send)
    await socket.accept()
    messages = websocket_endpoint._Messages(socket, 100)
    for _ in range(2):
        with pytest.raises(EOFError):
            await messages.send("x")
    assert [message["type"] for message in sent] == ["websocket.accept", "websocket.send", "websocket.close"]
    assert sent[-1]["code"] == 1008
