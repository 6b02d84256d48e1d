"""Garbage collection of a running server: it must not visit the schema and queued requests again and again."""

import asyncio
from pathlib import Path

from tests.overload.load_generator import Answers, LoadGenerator, post_request
from tests.overload.test_goodput import PAGE, sqlite_server

REQUESTS = 300
COUNTER = """
import gc, pathlib, sys
if "serve" in sys.orig_argv:
    counts = pathlib.Path("collections")
    def count(phase, info):
        if phase == "start":
            with counts.open("a") as file:
                file.write(str(info["generation"]))
    gc.callbacks.append(count)
"""


def test_requests_cause_few_collections(tmp_path: Path) -> None:
    """300 pages cause at most 30 collections of young objects, and none of all objects."""
    (tmp_path / "sitecustomize.py").write_text(COUNTER)
    with sqlite_server(tmp_path) as server:
        port = int(server.address.rpartition(":")[2])
        generator = LoadGenerator(port, server.process.pid, post_request("/graphql", {"query": PAGE}))
        counts = tmp_path / "collections"
        before = len(counts.read_text())

        async def load() -> Answers:
            try:
                return await generator.closed_loop(REQUESTS, 8)
            finally:
                generator.close()

        answers = asyncio.run(load())
        found = counts.read_text()[before:]
    assert answers.statuses == {200: REQUESTS}
    assert before > 0
    assert len(found) <= REQUESTS / 10
    assert "2" not in found
