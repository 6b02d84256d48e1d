"""The parameters of GraphQL over HTTP, from a JSON body or a query string."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from graphql_api.errors import InvalidRequest
from graphql_api.schema import Operation
from graphql_api.server.strict_json import read_json

_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_MAX_PARAMETERS = 50


def parse_body(body: bytes) -> Operation:
    """Parse the operation of a POST."""
    if not body.strip():
        raise InvalidRequest('The request has no body: send {"query": "…"} as JSON.')
    parameters = read_json(body, "The body")
    if isinstance(parameters, list):
        raise InvalidRequest("The body is a list: send one operation per request, as an object.")
    if not isinstance(parameters, dict):
        raise InvalidRequest(f'The body is {_json_type(parameters)}: send an object, such as {{"query": "…"}}.')
    return _operation(parameters)


def parse_query_string(query_string: bytes) -> Operation:
    """Parse the operation of a GET."""
    pairs = _decode_pairs(query_string)
    duplicates = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if duplicates:
        name = duplicates[0][:40]
        raise InvalidRequest(f"The URL has the parameter {name!r} twice: send it once.", argument=name)
    parameters: dict[str, Any] = {name: value for name, value in pairs if value or name == "query"}
    for name in ("variables", "extensions"):
        if name in parameters:
            parameters[name] = read_json(parameters[name], f"The parameter {name}")
    return _operation(parameters)


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


def _operation(parameters: Mapping[str, Any]) -> Operation:
    query = _string(parameters, "query")
    extensions = _object(parameters, "extensions")
    document_id = _string(parameters, "documentId")
    if query is not None and document_id is not None:
        raise InvalidRequest("query and documentId were both sent: send one of them.", argument="documentId")
    if query is None and document_id is None:
        document_id = _persisted_query_hash(extensions)
        if document_id is None:
            raise InvalidRequest('The parameter query is missing: send {"query": "…"}.', argument="query")
    return Operation(
        query, _string(parameters, "operationName"), _object(parameters, "variables"), extensions, document_id
    )


def _persisted_query_hash(extensions: Mapping[str, Any]) -> str | None:
    """Return the hash that names a document in the persisted query protocol of Apollo's clients."""
    persisted_query = extensions.get("persistedQuery")
    query_hash = persisted_query.get("sha256Hash") if isinstance(persisted_query, dict) else None
    return query_hash if isinstance(query_hash, str) else None


def _string(parameters: Mapping[str, Any], name: str) -> str | None:
    value = parameters.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidRequest(f"The parameter {name} is {_json_type(value)}: send a string.", argument=name)
    return value


def _object(parameters: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = parameters.get(name)
    if value is not None and not isinstance(value, dict):
        raise InvalidRequest(f"The parameter {name} is {_json_type(value)}: send an object.", argument=name)
    return value or {}


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"
