"""An issuer of tokens for tests: keys of every kind, and an address that answers, or does not, to order."""

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

from tests.api.running import LOOPBACK, PATIENCE

NAME = "https://issuer.example"
AUDIENCE = "shop"
CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


@cache
def private_key(algorithm: str, number: int = 0, bits: int = 2048) -> Any:
    """A key that signs by an algorithm; the same number is the same key."""
    del number
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm])
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm == "Ed448":
        return ed448.Ed448PrivateKey.generate()
    return rsa.generate_private_key(65537, bits)


def public_pem(key: Any) -> bytes:
    """A public key as people hand it on."""
    return bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def public_der(key: Any) -> bytes:
    """The same in octets."""
    return bytes(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def public_jwk(algorithm: str, key: Any, **members: Any) -> dict[str, Any]:
    """A public key as a member of a JWKS."""
    implemented = get_default_algorithms()["EdDSA" if algorithm == "Ed448" else algorithm]
    return {**implemented.to_jwk(key.public_key(), as_dict=True), **members}


def jwks(*members: Mapping[str, Any]) -> bytes:
    """The text of a key set."""
    return json.dumps({"keys": members}).encode()


def claims(**changed: Any) -> dict[str, Any]:
    """Good claims of alice, but for what is changed; None leaves a claim out."""
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


def signed(algorithm: str, key: Any, said: object, kid: str | None = None, **head: Any) -> str:
    """A token with these claims, or this text in their place."""
    payload = said if isinstance(said, bytes) else json.dumps(said).encode()
    headers = {**({} if kid is None else {"kid": kid}), **head}
    return PyJWS().encode(payload, key, algorithm=algorithm, headers=headers)


def part(value: object) -> str:
    """A value as it stands between the dots of a token."""
    octets = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(octets).rstrip(b"=").decode()


def hmac_token(secret: bytes, said: object, kid: str | None) -> str:
    """A token signed by HMAC with any octets: libraries refuse to sign with those of a public key."""
    text = f"{part({'alg': 'HS256', 'typ': 'JWT', **({} if kid is None else {'kid': kid})})}.{part(said)}"
    return f"{text}.{part(hmac.digest(secret, text.encode(), 'sha256'))}"


@dataclass(slots=True)
class Issuer:
    """Keys by their ids, and how the address answers that gives them out."""

    keys: dict[str, tuple[str, Any]] = field(default_factory=lambda: {"one": ("RS256", private_key("RS256"))})
    answers: list[tuple[int, bytes, Mapping[str, str]]] = field(default_factory=list)
    """the only one there is takes the place of the keys: status, body, headers"""
    holds: Event | None = None
    """until this is set nobody gets an answer"""
    asked: int = 0
    address: str = ""

    def token(self, kid: str = "one", **changed: Any) -> str:
        """A token that is right, but for the claims that are changed."""
        algorithm, key = self.keys[kid]
        return signed(algorithm, key, claims(**changed), kid)

    def text(self) -> bytes:
        """The key set."""
        return jwks(*(public_jwk(algorithm, key, kid=kid) for kid, (algorithm, key) in self.keys.items()))


@contextmanager
def publishing(issuer: Issuer, port: int = 0) -> Iterator[Issuer]:
    """Gives the keys out at an address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked += 1
            if issuer.holds is not None:
                issuer.holds.wait(PATIENCE)
            status, body, headers = issuer.answers[0] if issuer.answers else (200, issuer.text(), {})
            try:
                self.send_response(status)
                for name, value in {"content-length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # Whoever asked has given up.

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
        if issuer.holds is not None:
            issuer.holds.set()
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)
