"""Reads the GraphQL operation of an HTTP request, from a JSON body or the query string of the URL.

Both are protected against cross-site request forgery (CSRF): without a preflight, a browser sends neither a body of
JSON nor the header that a GET needs.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.requests import Request

from graphql_api.codecs import read_json
from graphql_api.errors import (
    BodyTooLarge,
    BodyTooSlow,
    CrossSiteRequest,
    InvalidRequest,
    UnsupportedMediaType,
    UrlTooLong,
)
from graphql_api.runtime import StartedCoroutine
from graphql_api.schema import Operation
from graphql_api.server.responses import JSON

T = TypeVar("T")

MAX_URL_BYTES = 16 << 10
"""Bytes of path and query string."""
LARGE_BODY_BYTES = 64 << 10
"""Bytes that the HTTP server reads in advance. A body with more of them is large."""
PREFLIGHT_HEADERS = ("apollo-require-preflight", "x-apollo-operation-name")
_FORM_TYPES = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
_MEDIA_TYPE = re.compile(r"[\w!#$%&'*+.^`|~-]+/[\w!#$%&'*+.^`|~-]+", re.ASCII)
_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^\s";]*)"?', re.IGNORECASE)
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_MAX_PARAMETERS = 50
_JSON_TYPES = {type(None): "null", bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
"""The names of JSON types in messages. All other values are numbers."""


# --- POST ------------------------------------------------------------------------------------------------------


async def read_body_operation(
    request: Request, max_bytes: int, max_elements: int, seconds: float, large_bodies: asyncio.Semaphore
) -> Operation:
    """Read the operation of a POST. Raise BodyTooLarge, InputTooLarge or BodyTooSlow beyond these limits.

    `large_bodies` limits how many large bodies are read at the same time, and so the memory that they take.
    """
    parameters = await read_json_body(request, max_bytes, max_elements, seconds, large_bodies, '{"query": "…"}')
    if isinstance(parameters, list):
        raise InvalidRequest("The body is a list: send one operation per request, as an object.")
    if not isinstance(parameters, dict):
        body_type = _JSON_TYPES.get(type(parameters), "a number")
        raise InvalidRequest(f'The body is {body_type}: send an object, such as {{"query": "…"}}.')
    return operation_of(parameters)


async def read_json_body(
    request: Request, max_bytes: int, max_elements: int, seconds: float, large_bodies: asyncio.Semaphore, example: str
) -> Any:
    """Read the JSON of a body, within the limits of `read_body_operation`. `example`: a body that errors propose."""
    places: list[asyncio.Semaphore] = []
    try:
        body = await _read_body(request, max_bytes, seconds, large_bodies, places)
        if not body.strip():
            raise InvalidRequest(f"The request has no body: send {example} as JSON.")
        return read_json(body, "The body", max_elements)
    finally:
        for place in places:
            place.release()


async def _read_body(
    request: Request, max_bytes: int, seconds: float, large_bodies: asyncio.Semaphore, places: list[asyncio.Semaphore]
) -> bytes:
    """Read a body. If it is large, wait for its place, and add the place to `places`."""
    _check_media_type(request.headers)
    if declared_length(request.headers) > max_bytes:
        raise _too_large(max_bytes)
    reading = StartedCoroutine(_join_parts(request, max_bytes, large_bodies, places))
    if reading.is_done:
        return reading.result
    try:
        async with asyncio.timeout(seconds):
            return await reading.finish()
    except TimeoutError:
        raise BodyTooSlow(f"The body did not arrive within {seconds:g} s: send it faster, or send less.") from None


async def _join_parts(
    request: Request, max_bytes: int, large_bodies: asyncio.Semaphore, places: list[asyncio.Semaphore]
) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
        if len(body) > LARGE_BODY_BYTES and not places:
            await large_bodies.acquire()
            places.append(large_bodies)
    return bytes(body)


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than {max_bytes:,} bytes: send less at once.")


def _check_media_type(headers: Headers) -> None:
    types = headers.getlist("content-type")
    if types == [JSON] and "content-encoding" not in headers:
        return
    if len(types) != 1:
        problem = "was sent more than once" if types else "is missing"
        raise UnsupportedMediaType(f"The content-type header {problem}: send content-type: {JSON}.")
    media_type, separator, parameters = types[0].partition(";")
    if media_type.strip().lower() != JSON:
        raise UnsupportedMediaType(f"The body is {media_type.strip()[:60]!r}: send content-type: {JSON}.")
    charset = _CHARSET.search(separator + parameters)
    if charset is not None and charset[1].lower() not in {"utf-8", "utf8"}:
        raise UnsupportedMediaType(f"The body is in {charset[1][:40]!r}: send it in UTF-8.")
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise UnsupportedMediaType(f"The body has the content encoding {encoding[:40]!r}: send it without encoding.")


def declared_length(headers: Headers) -> int:
    """Return the size of the body as the headers declare it, or 0."""
    return length_of(headers.get("content-length", ""))


def length_of(content_length: str) -> int:
    """Return the size of the body as its header declares it, or 0."""
    return int(content_length[:20]) if content_length.isdecimal() else 0


# --- GET -------------------------------------------------------------------------------------------------------


def read_url_operation(request: Request, max_elements: int) -> Operation:
    """Read the operation of a GET."""
    query_string = request.scope["query_string"]
    if len(query_string) + len(request.scope.get("raw_path") or b"") > MAX_URL_BYTES:
        raise UrlTooLong(f"The URL is longer than {MAX_URL_BYTES:,} bytes: POST the query instead.")
    pairs = _decode_pairs(query_string)
    duplicates = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if duplicates:
        name = duplicates[0][:40]
        raise InvalidRequest(f"The URL has the parameter {name!r} twice: send it once.", argument=name)
    parameters: dict[str, Any] = {name: value for name, value in pairs if value or name == "query"}
    for name in ("variables", "extensions"):
        if name in parameters:
            parameters[name] = read_json(parameters[name], f"The parameter {name}", max_elements)
    operation = operation_of(parameters)
    check_not_cross_site(request.headers)
    return operation


def _decode_pairs(query_string: bytes) -> list[tuple[str, str]]:
    if _BROKEN_ESCAPE.search(query_string):
        raise InvalidRequest("The URL has a % that starts no escape sequence: write %25 for the character itself.")
    try:
        return parse_qsl(
            query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS
        )
    except UnicodeError:
        raise InvalidRequest("The escape sequences of the URL are not UTF-8: encode it as UTF-8.") from None
    except ValueError:
        raise InvalidRequest(f"The URL has more than {_MAX_PARAMETERS} parameters: POST the query instead.") from None


def check_not_cross_site(headers: Headers) -> None:
    """Refuse a GET that a browser could send for a page of another site without a preflight.

    A custom header, or a content type that HTML forms cannot send, forces a preflight. A client that sends
    `sec-fetch-mode` without `sec-fetch-site` is no browser: browsers send both or none, and pages cannot change them.
    `fetch` of Node sends only the first.
    """
    if any(headers.get(name, "").strip() for name in PREFLIGHT_HEADERS):
        return
    media_types = [value.partition(";")[0].strip().lower() for value in headers.getlist("content-type")]
    if media_types and all(_MEDIA_TYPE.fullmatch(name) and name not in _FORM_TYPES for name in media_types):
        return
    if "sec-fetch-mode" in headers and "sec-fetch-site" not in headers:
        return
    raise CrossSiteRequest(
        "A GET needs a header that pages of other sites cannot send: "
        f"add {PREFLIGHT_HEADERS[0]}: 1, or POST the query as JSON."
    )


# --- parameters ------------------------------------------------------------------------------------------------


def operation_of(parameters: Mapping[str, Any]) -> Operation:
    """Return the operation in the parameters of a request."""
    query = _parameter(parameters, "query", str)
    extensions = _parameter(parameters, "extensions", dict) or {}
    document_id = _parameter(parameters, "documentId", str)
    if query is not None and document_id is not None:
        raise InvalidRequest("query and documentId were both sent: send one of them.", argument="documentId")
    if query is None and document_id is None:
        # Apollo's clients name a document by its hash: the persisted query protocol.
        persisted_query = extensions.get("persistedQuery")
        document_id = persisted_query.get("sha256Hash") if isinstance(persisted_query, dict) else None
        if not isinstance(document_id, str):
            raise InvalidRequest('The parameter query is missing: send {"query": "…"}.', argument="query")
    name = _parameter(parameters, "operationName", str)
    variables = _parameter(parameters, "variables", dict) or {}
    return Operation(query, name, variables, extensions, document_id)


def _parameter(parameters: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    value = parameters.get(name)
    if value is not None and not isinstance(value, kind):
        found = _JSON_TYPES.get(type(value), "a number")
        raise InvalidRequest(f"The parameter {name} is {found}: send {_JSON_TYPES[kind]}.", argument=name)
    return value
