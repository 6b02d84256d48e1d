"""Signature version 4 of AWS, for requests that differ only in their operation, body and time."""

import hmac
from collections.abc import Callable
from hashlib import sha256
from time import gmtime, strftime, time
from typing import Any

_ALGORITHM = "AWS4-HMAC-SHA256"
_TERMINATOR = "aws4_request"


class RequestSigner:
    """Signs requests to one host with one set of frozen credentials. The signing key of a day is derived once."""

    def __init__(
        self,
        credentials: Any,
        region: str,
        service: str,
        host: str,
        content_type: str,
        clock: Callable[[], float] = time,
    ) -> None:
        self._credentials = credentials
        self._region = region
        self._service = service
        self._clock = clock
        self._second = -1
        token = credentials.token
        self._token_line = f"x-amz-security-token:{_canonical(token)}\n" if token else ""
        self._first_lines = f"POST\n/\n\ncontent-type:{_canonical(content_type)}\nhost:{host}\nx-amz-date:"
        names = ["content-type", "host", "x-amz-date", *(["x-amz-security-token"] if token else []), "x-amz-target"]
        self._signed_headers = ";".join(names)
        self._token_header = f"X-Amz-Security-Token: {token}\r\n" if token else ""
        self._date = ""

    def sign(self, target: str, body: bytes) -> str:
        """Return the header lines that authenticate a request which is sent now."""
        second = int(self._clock())
        if second != self._second:
            self._begin_second(second)
        canonical_request = (
            f"{self._first_lines}{self._timestamp}\n{self._token_line}x-amz-target:{target}\n\n"
            f"{self._signed_headers}\n{sha256(body).hexdigest()}"
        )
        text = f"{self._text_start}{sha256(canonical_request.encode()).hexdigest()}"
        signature = hmac.digest(self._signing_key, text.encode(), "sha256").hex()
        return f"{self._header_start}{signature}\r\n"

    def _begin_second(self, second: int) -> None:
        timestamp = strftime("%Y%m%dT%H%M%SZ", gmtime(second))
        date = timestamp[:8]
        if date != self._date:
            self._date, self._signing_key = date, self._derive_key(date)
        scope = f"{date}/{self._region}/{self._service}/{_TERMINATOR}"
        self._timestamp = timestamp
        self._text_start = f"{_ALGORITHM}\n{timestamp}\n{scope}\n"
        self._header_start = (
            f"X-Amz-Date: {timestamp}\r\n{self._token_header}"
            f"Authorization: {_ALGORITHM} Credential={self._credentials.access_key}/{scope}, "
            f"SignedHeaders={self._signed_headers}, Signature="
        )
        self._second = second

    def _derive_key(self, date: str) -> bytes:
        key = f"AWS4{self._credentials.secret_key}".encode()
        for part in (date, self._region, self._service, _TERMINATOR):
            key = hmac.digest(key, part.encode(), "sha256")
        return key


def _canonical(value: str) -> str:
    return " ".join(value.split())
