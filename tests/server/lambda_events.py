"""Events of AWS Lambda for one HTTP request, in the shapes of the documentation of AWS, and their responses."""

import gzip
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

Event = dict[str, Any]


@dataclass(frozen=True)
class HttpRequest:
    """A request of a client."""

    method: str = "POST"
    path: str = "/graphql"
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    cookies: tuple[str, ...] = ()
    body: bytes = b""
    is_base64: bool = False

    def body_fields(self) -> Event:
        """The body as events carry it."""
        text = b64encode(self.body).decode() if self.is_base64 else self.body.decode()
        return {"body": text, "isBase64Encoded": self.is_base64}

    def all_headers(self, host: str) -> dict[str, str]:
        """The headers with those that AWS adds."""
        return {
            "accept": "*/*",
            "content-type": "application/json",
            "host": host,
            "user-agent": "curl/8.5.0",
            "x-amzn-trace-id": "Root=1-5bdb40ca-556d8b0c50dc66f0511bf520",
            "x-forwarded-for": "72.21.198.66",
            "x-forwarded-port": "443",
            "x-forwarded-proto": "https",
            **dict(self.headers),
        }


def http_api(request: HttpRequest) -> Event:
    """An HTTP API of API Gateway, payload format 2.0."""
    cookies = {"cookies": list(request.cookies)} if request.cookies else {}
    has_body = request.body_fields() if request.body else {"isBase64Encoded": False}
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": request.path,
        "rawQueryString": request.query,
        **cookies,
        "headers": request.all_headers("abcdef1234.execute-api.eu-west-1.amazonaws.com"),
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "abcdef1234",
            "domainName": "abcdef1234.execute-api.eu-west-1.amazonaws.com",
            "domainPrefix": "abcdef1234",
            "http": {
                "method": request.method,
                "path": request.path,
                "protocol": "HTTP/1.1",
                "sourceIp": "72.21.198.66",
                "userAgent": "curl/8.5.0",
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": "$default",
            "stage": "$default",
            "time": "10/Mar/2026:05:16:23 +0000",
            "timeEpoch": 1773119783000,
        },
        **has_body,
    }


def function_url(request: HttpRequest) -> Event:
    """A function URL: format 2.0, with the account `anonymous`."""
    event = http_api(request)
    domain = "abcdefghijklmnop.lambda-url.eu-west-1.on.aws"
    event["headers"]["host"] = dict(request.headers).get("host", domain)
    event["requestContext"] |= {"accountId": "anonymous", "domainName": domain, "domainPrefix": "abcdefghijklmnop"}
    return event


def rest_api(request: HttpRequest) -> Event:
    """A REST API of API Gateway, with proxy integration."""
    headers = request.all_headers("abcdef1234.execute-api.eu-west-1.amazonaws.com")
    if request.cookies:
        headers["cookie"] = "; ".join(request.cookies)
    lists = parse_qs(request.query) or None
    return {
        "resource": "/{proxy+}",
        "path": request.path,
        "httpMethod": request.method,
        "headers": headers,
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "queryStringParameters": lists and {name: values[-1] for name, values in lists.items()},
        "multiValueQueryStringParameters": lists,
        "pathParameters": {"proxy": request.path.lstrip("/")},
        "stageVariables": None,
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "abcdef1234",
            "domainName": "abcdef1234.execute-api.eu-west-1.amazonaws.com",
            "httpMethod": request.method,
            "identity": {"sourceIp": "72.21.198.66", "userAgent": "curl/8.5.0"},
            "path": f"/prod{request.path}",
            "protocol": "HTTP/1.1",
            "requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
            "resourcePath": "/{proxy+}",
            "stage": "prod",
        },
        **(request.body_fields() if request.body else {"body": None, "isBase64Encoded": False}),
    }


def http_api_1(request: HttpRequest) -> Event:
    """An HTTP API of API Gateway, payload format 1.0."""
    return {"version": "1.0", **rest_api(request)}


def load_balancer(request: HttpRequest) -> Event:
    """An Application Load Balancer, which does not decode the query."""
    headers = request.all_headers("lambda-846800462-us-east-2.elb.amazonaws.com")
    if request.cookies:
        headers["cookie"] = "; ".join(request.cookies)
    encoded = {name: quote(values[-1]) for name, values in parse_qs(request.query).items()}
    return {
        "requestContext": {
            "elb": {
                "targetGroupArn": "arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/api/6d0ecf831eec9f09"
            }
        },
        "httpMethod": request.method,
        "path": request.path,
        "queryStringParameters": encoded,
        "headers": headers,
        **request.body_fields(),
    }


def load_balancer_of_lists(request: HttpRequest) -> Event:
    """An Application Load Balancer with multi-value headers."""
    event = load_balancer(request)
    event["multiValueHeaders"] = {name: [value] for name, value in event.pop("headers").items()}
    event["multiValueQueryStringParameters"] = {
        name: [value] for name, value in event.pop("queryStringParameters").items()
    }
    return event


SHAPES: Mapping[str, Callable[[HttpRequest], Event]] = {
    "HTTP API": http_api,
    "HTTP API 1.0": http_api_1,
    "REST API": rest_api,
    "function URL": function_url,
    "load balancer": load_balancer,
    "load balancer, lists": load_balancer_of_lists,
}


@dataclass(frozen=True)
class HttpResponse:
    """What the client gets for a response of the function."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_base64: bool

    @staticmethod
    def of(answer: Mapping[str, Any]) -> "HttpResponse":
        """Read a response as AWS does."""
        lists = {name: ", ".join(values) for name, values in answer.get("multiValueHeaders", {}).items()}
        headers = {name.lower(): value for name, value in {**(answer.get("headers") or {}), **lists}.items()}
        is_base64 = answer["isBase64Encoded"]
        body = b64decode(answer["body"], validate=True) if is_base64 else answer["body"].encode()
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        return HttpResponse(answer["statusCode"], headers, body, is_base64)


def encoded_query(**parameters: str) -> str:
    """Return the query string of a URL."""
    return urlencode(parameters)
