"""The CPU time that a server spends on each hostile request: `scripts/bench --hostile`."""

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from graphql_api.server import asgi
from tests.benchmarks.hostile_catalog import USERS, catalog
from tests.benchmarks.hostile_requests import HostileRequest, hostile_requests
from tests.support.asgi_client import request

MAX_MILLISECONDS = 100.0
MAX_VALIDATION_MILLISECONDS = 50.0


def run(words: Sequence[str], repeat: int) -> int:
    """Measure the requests whose names contain a word. Return 1 if one takes longer than its limit."""
    chosen = [one for one in hostile_requests() if not words or any(word in one.name for word in words)]
    with TemporaryDirectory() as folder:
        slow = asyncio.run(_measure(chosen, repeat, Path(folder)))
    print(f"\n{len(chosen)} hostile requests, {len(slow)} beyond {MAX_MILLISECONDS:g} ms of CPU time", end="")
    print(f" ({MAX_VALIDATION_MILLISECONDS:g} ms for documents)", *slow, sep="\n  ")
    return int(bool(slow))


async def _measure(requests: Sequence[HostileRequest], repeat: int, folder: Path) -> list[str]:
    logging.disable(logging.CRITICAL)
    app = asgi(catalog, f"sqlite:///{folder}/x.db")
    database = await app.state.opened.get()
    await database.put_many(USERS)
    slow = []
    print(f"{'CPU ms':>8}  {'status':>6}  {'bytes':>9}  request: response")
    for one in requests:
        milliseconds, status, answer, size = float("inf"), 0, "", 0
        for salt in range(1, repeat + 1):
            body = one.body(salt)
            started = time.process_time()
            response = await request(app, body, one.headers)
            milliseconds = min(milliseconds, (time.process_time() - started) * 1_000)
            status, answer, size = response.status, response.text[:60], len(body)
        if milliseconds > (MAX_VALIDATION_MILLISECONDS if one.validates else MAX_MILLISECONDS):
            slow.append(one.name)
        print(f"{milliseconds:8.1f}  {status:6}  {size:9,}  {one.name}: {answer}", flush=True)
    await app.state.opened.close()
    return slow
