"""An empty POST route of Starlette with uvicorn: the least that an HTTP response costs in this stack."""

import socket

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def answer(request: Request) -> JSONResponse:
    """Read the body and answer with an empty page."""
    await request.body()
    return JSONResponse({"data": {"userByCreated": {"items": [], "nextToken": None}}})


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    print("http://{}:{}/graphql".format(*listener.getsockname()), flush=True)
    application = Starlette(routes=[Route("/graphql", answer, methods=["POST"])])
    uvicorn.Server(uvicorn.Config(application, log_level="warning", access_log=False)).run(sockets=[listener])
