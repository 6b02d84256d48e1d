"""A token issuer for tests: keys of all algorithms, and an HTTP server for its JWKS with controllable responses."""

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms
from jwt.api_jws import PyJWS

from tests.support.loopback import LOOPBACK, TIMEOUT

NAME = "https://issuer.example"
AUDIENCE = "shop"
CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


@cache
def private_key(algorithm: str, number: int = 0, bits: int = 2048) -> Any:
    """A private key of an algorithm. The same number returns the same key."""
    del number
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm])
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm == "Ed448":
        return ed448.Ed448PrivateKey.generate()
    return rsa.generate_private_key(65537, bits)


def public_pem(key: Any) -> bytes:
    """A public key in PEM encoding."""
    return bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def public_der(key: Any) -> bytes:
    """A public key in DER encoding."""
    return bytes(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def public_jwk(algorithm: str, key: Any, **members: Any) -> dict[str, Any]:
    """A public key as a member of a JWKS."""
    implemented = get_default_algorithms()["EdDSA" if algorithm == "Ed448" else algorithm]
    return {**implemented.to_jwk(key.public_key(), as_dict=True), **members}


def jwks(*members: Mapping[str, Any]) -> bytes:
    """The JSON text of a key set."""
    return json.dumps({"keys": members}).encode()


def claims(**changed: Any) -> dict[str, Any]:
    """Valid claims of the subject `alice` with changes; None removes a claim."""
    now = time.time()
    good = {
        "iss": NAME,
        "aud": AUDIENCE,
        "sub": "alice",
        "groups": ["Reader", "Staff"],
        "iat": int(now),
        "exp": int(now) + 600,
    }
    return {name: value for name, value in {**good, **changed}.items() if value is not None}


def sign_token(algorithm: str, key: Any, payload: object, kid: str | None = None, **head: Any) -> str:
    """A signed token with these claims, or with these bytes as payload."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    headers = {**({} if kid is None else {"kid": kid}), **head}
    return PyJWS().encode(body, key, algorithm=algorithm, headers=headers)


def token_segment(value: object) -> str:
    """A value in the encoding of one token segment."""
    octets = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(octets).rstrip(b"=").decode()


def hmac_token(secret: bytes, payload: object, kid: str | None) -> str:
    """A token with an HMAC signature by any bytes; libraries refuse to sign with a public key."""
    header = {"alg": "HS256", "typ": "JWT", **({} if kid is None else {"kid": kid})}
    text = f"{token_segment(header)}.{token_segment(payload)}"
    return f"{text}.{token_segment(hmac.digest(secret, text.encode(), 'sha256'))}"


@dataclass(slots=True)
class Issuer:
    """Keys by key id, and the responses of the JWKS server."""

    keys: dict[str, tuple[str, Any]] = field(default_factory=lambda: {"one": ("RS256", private_key("RS256"))})
    responses: list[tuple[int, bytes, Mapping[str, str]]] = field(default_factory=list)
    """status, body and headers; the first one replaces the key set"""
    response_gate: Event | None = None
    """if set, responses wait for this event"""
    request_count: int = 0
    address: str = ""

    def token(self, kid: str = "one", **changed: Any) -> str:
        """A valid token with changed claims."""
        algorithm, key = self.keys[kid]
        return sign_token(algorithm, key, claims(**changed), kid)

    def jwks_text(self) -> bytes:
        """The key set of this issuer as JSON."""
        return jwks(*(public_jwk(algorithm, key, kid=kid) for kid, (algorithm, key) in self.keys.items()))


@contextmanager
def serve_jwks(issuer: Issuer, port: int = 0) -> Iterator[Issuer]:
    """Serves the key set of the issuer over HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.request_count += 1
            if issuer.response_gate is not None:
                issuer.response_gate.wait(TIMEOUT)
            status, body, headers = issuer.responses[0] if issuer.responses else (200, issuer.jwks_text(), {})
            try:
                self.send_response(status)
                for name, value in {"content-length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # The client has disconnected.

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((LOOPBACK, port), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="issuer")
    thread.start()
    issuer.address = f"http://{LOOPBACK}:{server.server_address[1]}/jwks.json"
    try:
        yield issuer
    finally:
        if issuer.response_gate is not None:
            issuer.response_gate.set()
        server.shutdown()
        server.server_close()
        thread.join(TIMEOUT)
