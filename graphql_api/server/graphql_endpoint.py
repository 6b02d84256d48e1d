"""GraphQL over HTTP: one endpoint, from a request to an operation and from its answer to a reply."""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from graphql_api.errors import ExpectationFailed, UrlTooLong
from graphql_api.schema import Answer, Caller, Operation
from graphql_api.server.auth import Identify, Identity
from graphql_api.server.content_negotiation import GRAPHQL, HTML, JSON, best_form
from graphql_api.server.correlation import notes_of
from graphql_api.server.csrf import check_not_cross_site
from graphql_api.server.database_lifespan import Opened
from graphql_api.server.disconnect import while_connected
from graphql_api.server.error_responses import json_answer
from graphql_api.server.graphql_parameters import operation_in_address, operation_in_body
from graphql_api.server.observability import Runs, logs_explain
from graphql_api.server.request_body import check_media_type, read_body

METHODS = ("GET", "HEAD", "OPTIONS", "POST")
MAX_ADDRESS = 16 << 10
"""bytes of path and parameters"""

Page = Callable[[Request], Response]


@dataclass(frozen=True, slots=True)
class Explains:
    """Whose header `x-explain: 1` is heard."""

    on: bool = True
    groups: frozenset[str] = frozenset()
    """members of one of them; none: everybody"""

    def to(self, who: Identity) -> bool:
        """Whether somebody is told."""
        return self.on and (not self.groups or not self.groups.isdisjoint(who.groups))


@dataclass(frozen=True, slots=True)
class GraphQLEndpoint:
    """Answers requests for one path; `page` is for browsers that come by themselves, if there is one."""

    engine: Runs
    opened: Opened
    body_limit: int
    body_deadline: float
    explains: Explains
    identify: Identify
    page: Page | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(Request(scope, receive), receive)
        await response(scope, receive, send)

    async def _answer(self, request: Request, receive: Receive) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"allow": ", ".join(METHODS)})
        headers = request.headers
        _check_expectation(headers)
        reads_only = request.method != "POST"
        forms = (GRAPHQL, JSON, HTML) if self.page is not None and reads_only else (GRAPHQL, JSON)
        form = best_form(headers.getlist("accept"), forms)
        if form == HTML and self.page is not None:
            return self.page(request)
        who = await self.identify(headers)
        operation = self._from_address(request) if reads_only else await self._from_body(headers, receive)
        notes = notes_of(request.scope)
        caller = Caller(
            notes.correlation_id,
            read_only=reads_only,
            explain=self.explains.to(who) and headers.get("x-explain", "").strip() == "1",
            logs_explain=logs_explain(),
            tenant=who.tenant,
            subject=who.subject,
            groups=who.groups,
        )
        answer = await while_connected(self._run(operation, caller), receive)
        notes.codes, notes.explained = answer.codes, answer.explained
        return _reply(answer, form)

    def _from_address(self, request: Request) -> Operation:
        query_string = request.scope["query_string"]
        if len(query_string) + len(request.scope.get("raw_path") or b"") > MAX_ADDRESS:
            raise UrlTooLong(f"The address is longer than {MAX_ADDRESS:,} bytes: POST the query instead.")
        operation = operation_in_address(query_string)
        check_not_cross_site(request.headers)
        return operation

    async def _from_body(self, headers: Headers, receive: Receive) -> Operation:
        check_media_type(headers)
        return operation_in_body(await read_body(headers, receive, limit=self.body_limit, within=self.body_deadline))

    async def _run(self, operation: Operation, caller: Caller) -> Answer:
        return await self.engine.run(operation, await self.opened.get(), caller)


def _check_expectation(headers: Headers) -> None:
    expected = headers.get("expect", "100-continue")
    if expected.strip().lower() != "100-continue":
        raise ExpectationFailed(f"The server knows no expectation {expected[:40]!r}: leave the Expect header out.")


def _reply(answer: Answer, form: str) -> Response:
    """The reply: in the older form, a request that is well-formed as HTTP has status 200 whatever is in its query."""
    status = 200 if answer.executed or (form == JSON and answer.status == 400) else answer.status
    headers = {"allow": "POST"} if status == 405 else {}
    return json_answer(answer.body, status, form=form, headers=headers)
