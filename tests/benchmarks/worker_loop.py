"""The loop of a Python worker: reads calls from the input, and writes results as lines of JSON."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Function = Callable[..., Awaitable[Any]]


def serve_calls(worker: object) -> None:
    """Execute calls of the public methods of an object until the input ends."""
    functions: Mapping[str, Function] = {
        name: getattr(worker, name) for name in dir(worker) if not name.startswith("_")
    }
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Whatever a library prints goes to the log.
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            request = json.loads(line)
            result = runner.run(_call(functions[request["call"]], request["arguments"]))
            print(json.dumps({"result": result}), file=output, flush=True)


async def _call(function: Function, arguments: Mapping[str, Any]) -> Any:
    return await function(**arguments)
