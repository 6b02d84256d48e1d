"""The endpoint of events: `POST /events/SOURCE` applies events by the projections of a source."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from graphql_api.database import Database
from graphql_api.errors import DeadlineExceeded, InvalidLimit, NotFound, ShardQLError, about, error_body
from graphql_api.projections import (
    MAX_POSTED_EVENTS,
    Envelope,
    EventSource,
    PostedEvents,
    StreamLocks,
    apply_posted,
    parse_envelope,
)
from graphql_api.runtime import current_memory
from graphql_api.schema import Caller, ErrorFormatter, check_caller
from graphql_api.server.admission_control import AdmissionController
from graphql_api.server.auth import Authenticator
from graphql_api.server.database_lifespan import DatabaseHolder
from graphql_api.server.disconnects import cancel_on_disconnect
from graphql_api.server.graphql_request import read_json_body
from graphql_api.server.request_state import get_request_state
from graphql_api.server.responses import JSON, json_response, negotiate_error_type, retry_headers
from graphql_api.server.settings import Settings

EVENTS_PATH = "/events/{source}"
_EXAMPLE = '{"stream": "order-7", "seq": 1, "type": "OrderPlaced", "data": {…}}'


@dataclass(frozen=True, slots=True)
class EventEndpoint:
    """The endpoint of all sources that have a rule."""

    sources: Mapping[str, EventSource]
    database: DatabaseHolder
    settings: Settings
    body_seconds: float
    """Seconds within which a whole request body must arrive."""
    authenticator: Authenticator
    admission: AdmissionController
    large_bodies: asyncio.Semaphore
    locks: StreamLocks = field(default_factory=StreamLocks)

    async def respond(self, request: Request) -> Response:
        state = get_request_state(request.scope)
        errors = ErrorFormatter(state.correlation_id, not self.settings.production, suggestions=False)
        media_type = negotiate_error_type(request.headers.getlist("accept"))
        try:
            posted = await self._apply(request, state.correlation_id)
        except ShardQLError as problem:
            raise errors.mask(problem) from problem
        state.events = posted.counts
        if not posted.problems:
            return json_response({"projections": posted.projections}, media_type=JSON)
        bodies = [error_body(errors.mask(problem)) for problem in posted.problems]
        state.error_codes = tuple(problem.code for problem in posted.problems)
        body = {"errors": bodies, "projections": posted.projections}
        return json_response(body, posted.problems[0].status, media_type=media_type, headers=retry_headers(bodies))

    async def _apply(self, request: Request, correlation_id: str) -> PostedEvents:
        identity = await self.authenticator.authenticate(request.headers)
        caller = Caller(correlation_id, tenant=identity.tenant, subject=identity.subject, groups=identity.groups)
        source = self.sources.get(request.path_params["source"])
        if source is None or source.allow is None:
            raise NotFound(f"There is nothing at {request.url.path[:100]}: check the path.")
        # A caller without the right is refused before its body is read.
        check_caller(f"Posting events of {source.name}", source.allow, caller.subject, caller.groups)
        envelopes = await self._read(request)
        return await cancel_on_disconnect(self._run(source, envelopes, caller), request.receive)

    async def _read(self, request: Request) -> Sequence[Envelope]:
        """Read the events of a request. If one of them is invalid, none is applied."""
        limits = self.settings.max_body_bytes, self.settings.max_elements, self.body_seconds
        value: Any = await read_json_body(request, *limits, self.large_bodies, _EXAMPLE)
        events = value if isinstance(value, list) else [value]
        if not 1 <= len(events) <= MAX_POSTED_EVENTS:
            raise InvalidLimit(
                f"A request has 1 to {MAX_POSTED_EVENTS} events, not {len(events):,}.", argument="events"
            )
        envelopes = []
        for position, event in enumerate(events):
            with about(f"events[{position}]"):
                envelopes.append(parse_envelope(event))
        return envelopes

    async def _run(self, source: EventSource, envelopes: Sequence[Envelope], caller: Caller) -> PostedEvents:
        database: Database = await self.database.get()
        async with self.admission.admit() as waited:
            memory = current_memory()
            if memory is not None:
                memory.may_wait = False
            scoped = database.scoped(tenant=caller.tenant, principal=caller.principal, subject=caller.subject)
            seconds = self.settings.deadline_seconds
            try:
                async with asyncio.timeout(seconds - waited):
                    shows = not self.settings.production
                    return await apply_posted(scoped, source, envelopes, self.locks, shows_reasons=shows)
            except TimeoutError:
                raise DeadlineExceeded(
                    f"The events were not all applied within {seconds:g} seconds. Post them again: those that were "
                    "applied are skipped."
                ) from None
