"""Walks over HTTP: all pages of a window, each with the token of the page before."""

import json
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from tests.benchmarks.sample_rows import FIELDS, Window

QUERY = (
    "query Page($from: Timestamp, $to: Timestamp, $limit: Int, $nextToken: String) "
    "{ userByCreated(from: $from, to: $to, limit: $limit, nextToken: $nextToken) "
    f"{{ items {{ {' '.join(FIELDS)} }} nextToken }} }}"
)
_SECONDS = 120.0


class GraphQLConnection:
    """A kept-alive connection to a GraphQL endpoint, which opens with the next request."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._path = parts.path
        self._connection = HTTPConnection(parts.hostname, parts.port, timeout=_SECONDS)

    def execute(self, query: str, variables: dict[str, Any]) -> Any:
        """Return the data of an operation that must succeed."""
        body = json.dumps({"query": query, "variables": variables})
        self._connection.request("POST", self._path, body, {"content-type": "application/json"})
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200 or "errors" in answer:
            raise AssertionError(f"status {response.status}: {json.dumps(answer)[:2000]}")
        return answer["data"]

    def close(self) -> None:
        self._connection.close()


@dataclass(slots=True)
class Walk:
    """What a walk has found."""

    pages: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    token: str | None = None
    """of the page after the last one that was read"""


def walk(
    connection: GraphQLConnection, window: Window, limit: int, max_pages: int = 10**9, token: str | None = None
) -> Walk:
    """Read the pages of a window, from a token on, until the last page or this number of pages."""
    found = Walk(token=token)
    while found.pages < max_pages and (found.pages == 0 or found.token is not None):
        variables = {"from": window.low, "to": window.high, "limit": limit, "nextToken": found.token}
        page = connection.execute(QUERY, variables)["userByCreated"]
        found.rows += page["items"]
        found.token = page["nextToken"]
        found.pages += 1
    return found
