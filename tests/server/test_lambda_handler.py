"""The handler of AWS Lambda: every shape of event, errors, compression, and what a freeze does."""

import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, aws_lambda
from graphql_api.connection import Secrets
from graphql_api.errors import InvalidSettings, InvalidValue
from graphql_api.server.lambda_handler import LambdaHandler
from tests.server.lambda_events import (
    SHAPES,
    HttpRequest,
    HttpResponse,
    encoded_query,
    function_url,
    http_api,
    load_balancer,
    rest_api,
)
from tests.server.server_processes import KEY

TITLES = [f"Émile {number}" for number in range(200)]
HOSTS = "*.execute-api.eu-west-1.amazonaws.com,*.lambda-url.eu-west-1.on.aws,*.elb.amazonaws.com"
QUERY = "query Books($limit: Int) { books(orderBy: TITLE_ASC, limit: $limit) { items { title } } }"
PRODUCTION: dict[str, Any] = {"production": True, "token_keys": KEY, "record_key": KEY, "allowed_hosts": HOSTS}

Call = Callable[[dict[str, Any]], dict[str, Any]]
Shape = Callable[[HttpRequest], dict[str, Any]]


class Book(Entity):
    """A book."""

    book_id: Id[str]
    title: str

    by_title = Index(sort="title")


CATALOG = Catalog(Book)


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    """The only thread of a function: its event loop is not that of the tests."""
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
def handler(tmp_path: Path, thread: ThreadPoolExecutor) -> Iterator[LambdaHandler]:
    """The handler of a table without records, as in production."""
    handler = aws_lambda(CATALOG, f"sqlite:///{tmp_path}/books.db", **PRODUCTION)
    yield handler
    thread.submit(handler.close).result()


@pytest.fixture
def call(handler: LambdaHandler, thread: ThreadPoolExecutor) -> Call:
    """Return a function that answers an event."""
    return lambda event: thread.submit(handler, event, None).result()


def post(query: str, *headers: tuple[str, str], **variables: Any) -> HttpRequest:
    """Return the request of an operation."""
    body = json.dumps({"query": query, "variables": variables}, ensure_ascii=False).encode()
    return HttpRequest(headers=headers, body=body)


def create_books(call: Call) -> None:
    """Create all books by mutations."""
    mutation = "mutation($inputs: [BookInput!]!) { createBooks(inputs: $inputs) { results { book { title } } } }"
    for start in range(0, len(TITLES), 100):
        inputs = [{"bookId": title, "title": title} for title in TITLES[start : start + 100]]
        response = HttpResponse.of(call(http_api(post(mutation, inputs=inputs))))
        assert "errors" not in json.loads(response.body), response.body


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_shape_of_event(call: Call, shape: Shape) -> None:
    """Each kind of event carries operations in the body and in the URL, and errors keep their status and code."""
    create_books(call)
    for is_base64 in (False, True):
        request = replace(post(QUERY, limit=3), is_base64=is_base64, cookies=("theme=dark", "session=a b"))
        response = HttpResponse.of(call(shape(request)))
        assert response.status == 200
        assert json.loads(response.body) == {
            "data": {"books": {"items": [{"title": one} for one in sorted(TITLES)[:3]]}}
        }
        assert response.headers["content-type"] == "application/json; charset=utf-8"
        assert not response.is_base64
    url = encoded_query(query=QUERY, variables='{"limit": 1}')
    preflight = (("apollo-require-preflight", "1"), ("accept", "application/graphql-response+json"))
    found = HttpResponse.of(call(shape(HttpRequest("GET", query=url, headers=preflight))))
    assert (found.status, found.is_base64) == (200, False)
    assert json.loads(found.body)["data"]["books"]["items"] == [{"title": min(TITLES)}]
    for request, status, code in (
        (HttpRequest("GET", path="/nothing"), 404, "NOT_FOUND"),
        (HttpRequest(body=b"{"), 400, "INVALID_JSON"),
        (HttpRequest("GET", query=url, headers=(("content-type", "text/plain"),)), 403, "CROSS_SITE_REQUEST"),
        (HttpRequest(headers=(("authorization", "Bearer a.b.c"),), body=post(QUERY).body), 401, "UNAUTHENTICATED"),
        (HttpRequest(headers=(("content-encoding", "gzip"),), body=b"x"), 415, "UNSUPPORTED_MEDIA_TYPE"),
    ):
        refused = HttpResponse.of(call(shape(request)))
        assert refused.status == status, refused
        assert [error["extensions"]["code"] for error in json.loads(refused.body)["errors"]] == [code]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_long_responses_are_compressed(call: Call, shape: Shape) -> None:
    """A client that accepts gzip gets it, except from a REST API, which would return the base64 text."""
    create_books(call)
    response = HttpResponse.of(call(shape(post(QUERY, ("accept-encoding", "gzip, br"), limit=200))))
    assert [item["title"] for item in json.loads(response.body)["data"]["books"]["items"]] == sorted(TITLES)
    is_compressed = response.headers.get("content-encoding") == "gzip"
    assert is_compressed == response.is_base64 == (shape is not rest_api)


def test_the_health_check_of_a_load_balancer(call: Call) -> None:
    """The event of a health check, which has hardly any headers, is answered by the readiness probe."""
    event = load_balancer(HttpRequest("GET", path="/readyz"))
    event |= {"headers": {"user-agent": "ELB-HealthChecker/2.0"}, "queryStringParameters": {}, "body": ""}
    assert json.loads(HttpResponse.of(call(event)).body)["status"] == "ready"


def test_a_base_path_is_removed(tmp_path: Path, thread: ThreadPoolExecutor) -> None:
    """The stage in the path of an HTTP API is not part of the route."""
    handler = aws_lambda(CATALOG, f"sqlite:///{tmp_path}/books.db", base_path="/prod", **PRODUCTION)
    event = http_api(HttpRequest("GET", path="/prod/healthz"))
    assert thread.submit(handler, event, None).result()["statusCode"] == 200
    thread.submit(handler.close).result()


def test_names_of_other_sites_are_refused(call: Call) -> None:
    """A host that the settings do not list is refused, and so is one that cannot be parsed: never a status of 500."""
    for host, code in (("evil.example", "HOST_NOT_ALLOWED"), ("a:b:c", "INVALID_REQUEST"), ("a:b", "INVALID_REQUEST")):
        response = HttpResponse.of(call(function_url(post(QUERY, ("host", host)))))
        assert 400 <= response.status < 500
        assert [error["extensions"]["code"] for error in json.loads(response.body)["errors"]] == [code]


def test_other_events_are_refused(call: Call) -> None:
    """An event that is no HTTP request fails the invocation, with a message that says so."""
    with pytest.raises(InvalidValue, match="no HTTP request"):
        call({"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}})


def test_the_database_is_opened_once(
    tmp_path: Path, thread: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing the module opens nothing. The first event opens the database, and the next ones use it."""
    opened: list[Path] = []
    original = Secrets.__init__

    def count(self: Secrets, *args: Any, **named: Any) -> None:
        opened.append(tmp_path)
        original(self, *args, **named)

    monkeypatch.setattr(Secrets, "__init__", count)
    handler = aws_lambda(CATALOG, f"sqlite:///{tmp_path}/books.db", **PRODUCTION)
    assert not opened
    assert not [*tmp_path.iterdir()]
    for _ in range(3):
        assert thread.submit(handler, function_url(post("{ __typename }")), None).result()["statusCode"] == 200
    assert len(opened) == 1
    thread.submit(handler.close).result()


def test_incomplete_settings_are_a_clear_error(tmp_path: Path, thread: ThreadPoolExecutor) -> None:
    """Without keys, each event of a function in production gets an error, until the settings are complete."""
    handler = aws_lambda(CATALOG, f"sqlite:///{tmp_path}/books.db", production=True, allowed_hosts=HOSTS)
    for _ in range(2):
        response = HttpResponse.of(thread.submit(handler, function_url(post(QUERY)), None).result())
        assert response.status >= 500
        assert json.loads(response.body)["errors"]
    thread.submit(handler.close).result()


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package, the error names the extra."""
    monkeypatch.setitem(sys.modules, "mangum", None)
    with pytest.raises(InvalidSettings, match=r"shardql\[lambda\]"):
        aws_lambda(CATALOG, "sqlite:///unused.db")
