"""Signatures of requests, compared with those of botocore."""

from datetime import UTC, datetime
from functools import partial
from typing import Any
from unittest.mock import patch

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.storage.engines.dynamodb.request_signature import RequestSigner

VISIBLE = st.characters(min_codepoint=33, max_codepoint=126)
WORDS = st.text(VISIBLE, min_size=1, max_size=60)
NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=30)
CREDENTIALS = st.builds(
    ReadOnlyCredentials,
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=16, max_size=20),
    WORDS,
    st.none() | WORDS,
)
SECONDS = st.integers(0, 4_000_000_000)
CONTENT_TYPE = "application/x-amz-json-1.0"


def header_lines_of_botocore(
    credentials: ReadOnlyCredentials, region: str, service: str, host: str, target: str, body: bytes, second: int
) -> list[str]:
    """The headers that botocore adds to a request."""
    headers = {"Content-Type": CONTENT_TYPE, "X-Amz-Target": target, "User-Agent": "tests"}
    request = AWSRequest("POST", f"http://{host}/", headers, body)
    with patch("botocore.auth.get_current_datetime", return_value=datetime.fromtimestamp(second, UTC)):
        SigV4Auth(credentials, service, region).add_auth(request)
    names = ("X-Amz-Date", "X-Amz-Security-Token", "Authorization")
    return [f"{name}: {request.headers[name]}" for name in names if name in request.headers]


@given(
    CREDENTIALS,
    NAMES,
    NAMES,
    st.from_regex(r"[a-z0-9]{1,20}(\.[a-z]{2,9}){0,3}(:[1-9][0-9]{2,3})?", fullmatch=True),
    NAMES,
    st.binary(max_size=2_000),
    st.lists(SECONDS | st.sampled_from([86_399, 86_400]), min_size=1, max_size=4),
)
def test_signatures_equal_those_of_botocore(
    credentials: ReadOnlyCredentials, region: str, service: str, host: str, name: str, body: bytes, seconds: list[int]
) -> None:
    """For any credentials, host, body and sequence of times, the headers have the bytes that botocore sends."""
    times = iter(seconds)
    signer = RequestSigner(credentials, region, service, host, CONTENT_TYPE, lambda: next(times) + 0.75)
    for second in seconds:
        target = f"DynamoDB_20120810.{name}"
        lines = signer.sign(target, body)
        expected = header_lines_of_botocore(credentials, region, service, host, target, body, second)
        assert lines == "".join(f"{line}\r\n" for line in expected)


def test_a_signature_depends_on_every_part() -> None:
    """Another secret, token, region, service, host, operation, body or time has another signature."""
    given_parts: dict[str, Any] = {
        "credentials": ReadOnlyCredentials("A" * 16, "secret", "token"),
        "region": "eu-west-1",
        "service": "dynamodb",
        "host": "dynamodb.eu-west-1.amazonaws.com",
        "target": "T.Query",
        "body": b"{}",
        "second": 1,
    }
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"credentials": ReadOnlyCredentials("A" * 16, "other", "token")},
        {"credentials": ReadOnlyCredentials("A" * 16, "secret", "other")},
        {"region": "eu-west-2"},
        {"service": "other"},
        {"host": "localhost:8000"},
        {"target": "T.PutItem"},
        {"body": b"{ }"},
        {"second": 2},
    )
    signatures = set()
    for change in changes:
        parts = given_parts | change
        second, target, body = parts.pop("second"), parts.pop("target"), parts.pop("body")
        signer = RequestSigner(**parts, content_type=CONTENT_TYPE, clock=partial(float, second))
        signatures.add(signer.sign(target, body).rpartition("Signature=")[2])
    assert len(signatures) == len(changes)
