"""What a request asks for: the parameters of GraphQL over HTTP, from a body or from the address."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from graphql_api.errors import InvalidRequest
from graphql_api.schema import Operation
from graphql_api.server.strict_json import read_json

_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_MAX_FIELDS = 50


def operation_in_body(body: bytes) -> Operation:
    """The operation of a POST."""
    if not body.strip():
        raise InvalidRequest('The request has no body: send {"query": "…"} as JSON.')
    sent = read_json(body, "The body")
    if isinstance(sent, list):
        raise InvalidRequest("The body is a list: send one operation a request, as an object.")
    if not isinstance(sent, dict):
        raise InvalidRequest(f'The body is {_kind(sent)}: send an object, such as {{"query": "…"}}.')
    return _operation(sent)


def operation_in_address(query_string: bytes) -> Operation:
    """The operation of a GET."""
    fields = _fields(query_string)
    twice = [name for name, count in Counter(name for name, _ in fields).items() if count > 1]
    if twice:
        raise InvalidRequest(f"The address gives {twice[0][:40]!r} twice: give it once.", argument=twice[0][:40])
    sent: dict[str, Any] = {name: value for name, value in fields if value or name == "query"}
    for name in ("variables", "extensions"):
        if name in sent:
            sent[name] = read_json(sent[name], f"The parameter {name}")
    return _operation(sent)


def _fields(query_string: bytes) -> list[tuple[str, str]]:
    if _BROKEN_ESCAPE.search(query_string):
        raise InvalidRequest("The address has a % that begins no escape: write %25 for the character itself.")
    try:
        return parse_qsl(
            query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except UnicodeError:
        raise InvalidRequest("The address is not UTF-8 in its %-escapes: encode it anew.") from None
    except ValueError:
        raise InvalidRequest(f"The address has more than {_MAX_FIELDS} parameters: POST the query instead.") from None


def _operation(sent: Mapping[str, Any]) -> Operation:
    query = _text(sent, "query")
    extensions = _map(sent, "extensions")
    document_id = _text(sent, "documentId")
    if query is not None and document_id is not None:
        raise InvalidRequest("query and documentId were given together: give one of them.", argument="documentId")
    if query is None and document_id is None:
        document_id = _persisted(extensions)
        if document_id is None:
            raise InvalidRequest('The parameter query is missing: send {"query": "…"}.', argument="query")
    return Operation(query, _text(sent, "operationName"), _map(sent, "variables"), extensions, document_id)


def _persisted(extensions: Mapping[str, Any]) -> str | None:
    """The hash by which Apollo's clients name a document that the server should know."""
    named = extensions.get("persistedQuery")
    found = named.get("sha256Hash") if isinstance(named, dict) else None
    return found if isinstance(found, str) else None


def _text(sent: Mapping[str, Any], name: str) -> str | None:
    value = sent.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidRequest(f"The parameter {name} is {_kind(value)}: give a text.", argument=name)
    return value


def _map(sent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = sent.get(name)
    if value is not None and not isinstance(value, dict):
        raise InvalidRequest(f"The parameter {name} is {_kind(value)}: give an object.", argument=name)
    return value or {}


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list) else "an object"
