"""Errors as answers: JSON with a code for every status, and what nobody foresaw only by its correlation id."""

from collections.abc import Mapping
from logging import getLogger

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphql_api.errors import (
    BodyTooLarge,
    BodyTooSlow,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    ShardQLError,
    Unauthenticated,
    UnsupportedMediaType,
)
from graphql_api.server.content_negotiation import GRAPHQL, JSON, best_form
from graphql_api.server.correlation import HEADER, notes_of
from graphql_api.server.disconnect import ClientLeft
from graphql_api.server.strict_json import write_json

log = getLogger("shardql")


def json_answer(
    body: object, status: int = 200, *, form: str = JSON, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer in JSON that no cache keeps and no browser takes for something else."""
    return Response(
        write_json(body),
        status_code=status,
        headers={
            "content-type": f"{form}; charset=utf-8",
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            "vary": "accept",
            **(headers or {}),
        },
    )


def problem_answer(scope: Scope, problem: ShardQLError, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that tells of one error, in the form that the client likes best."""
    notes_of(scope).codes = (problem.code,)
    try:
        form = best_form(Headers(scope=scope).getlist("accept"), (GRAPHQL, JSON))
    except NotAcceptable:
        form = JSON
    error = {"message": problem.message, "extensions": problem.extensions}
    return json_answer({"errors": [error]}, problem.status, form=form, headers={**_told(problem), **(headers or {})})


def _told(problem: ShardQLError) -> Mapping[str, str]:
    """Headers that an error brings by itself."""
    match problem:
        case BodyTooSlow():
            return {"connection": "close"}
        case Unauthenticated():
            return {"www-authenticate": "Bearer"}
    return {}


async def answer_expected(request: Request, problem: Exception) -> Response:
    """The answer to an error of ours."""
    assert isinstance(problem, ShardQLError)
    return problem_answer(request.scope, problem)


async def answer_routing(request: Request, problem: Exception) -> Response:
    """The answer to an error of routes: no such path, or not this method."""
    assert isinstance(problem, HTTPException)
    path = request.url.path[:100]
    headers = dict(problem.headers or {})
    match problem.status_code:
        case 404:
            ours: ShardQLError = NotFound(f"There is nothing at {path}: check the path.")
        case 405:
            allowed = ", ".join(sorted(part.strip() for part in headers.pop("Allow", "").split(",")))
            headers["allow"] = allowed
            ours = MethodNotAllowed(f"{request.method} does not work at {path}: use {allowed}.")
        case 413:
            ours = BodyTooLarge("The body is larger than the server reads: send less at once.")
        case 415:
            ours = UnsupportedMediaType(f"{path} does not read this type of body.")
        case status if status < 500:
            ours = InvalidRequest(f"{path} refuses the request: {problem.detail}")
        case _:
            raise problem
    return problem_answer(request.scope, ours, headers)


class MaskFailures:
    """Middleware: names each answer by its correlation id, and tells failures to the log alone, once."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        notes = notes_of(scope)
        started = False

        async def send_named(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)[HEADER] = notes.correlation_id
            await send(message)

        try:
            await self.app(scope, receive, send_named)
        except ClientLeft:
            notes.left = True
        except Exception:
            if started:
                raise  # The server closes the connection and logs it; half an answer cannot be taken back.
            log.exception(
                "%s %s failed, correlation id %s",
                scope["method"],
                scope["path"],
                notes.correlation_id,
                extra={"correlation_id": notes.correlation_id},
            )
            await problem_answer(scope, InternalError(notes.correlation_id))(scope, receive, send_named)
