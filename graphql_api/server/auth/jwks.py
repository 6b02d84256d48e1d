"""A JWKS: the keys that verify tokens. The type of a key decides which algorithms it verifies, never the token.

The cache renews the keys. Old keys stay in use during a renewal, and while the issuer does not answer, up to an age. An
attacker can send any number of tokens with unknown key ids, so these trigger a renewal only at intervals.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from logging import getLogger
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jwt.algorithms import Algorithm, get_default_algorithms
from jwt.exceptions import PyJWTError

from graphql_api.clock import Clock, running_clock
from graphql_api.codecs import read_json
from graphql_api.errors import InvalidJson, Unauthenticated

MAX_BYTES = 256 << 10
FETCH_SECONDS = 3.0
"""Time limit for a whole request, from the connection to the last byte."""
RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
HMAC = ("HS256", "HS384", "HS512")
_ALGORITHMS: Mapping[tuple[str, str | None], Sequence[str]] = {
    ("RSA", None): RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
    ("oct", None): HMAC,
}
"""The algorithms of each type of key and curve."""
PUBLIC_KEY_ALGORITHMS = (*RSA, "ES256", "ES384", "ES512", "EdDSA")
KNOWN_ALGORITHMS = frozenset([*PUBLIC_KEY_ALGORITHMS, *HMAC])
_PUBLIC_MEMBERS = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x"), "oct": ("k",)}
"""The members that are read of each key type. Private members are ignored, so a private key acts as a public one."""
_IMPLEMENTATIONS: Mapping[str, Algorithm] = get_default_algorithms()

log = getLogger("shardql.keys")


class JwksUnavailable(Exception):
    """The keys cannot be loaded now. The message says why."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key, and the algorithms that it verifies."""

    kid: str | None
    algorithms: frozenset[str]
    key: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeySet:
    """All usable keys of an issuer."""

    keys: tuple[VerifyingKey, ...]
    skipped: int = 0
    """Number of keys that are unusable: of another type, too weak or invalid."""

    def has_key_id(self, kid: str | None) -> bool:
        """Return whether any key has this id. A missing id matches every key."""
        return kid is None or any(key.kid == kid for key in self.keys)

    def key_for(self, algorithm: str, kid: str | None) -> VerifyingKey | None:
        """Return the only matching key. Return None if there is no match, or more than one."""
        matching = [key for key in self.keys if algorithm in key.algorithms and (kid is None or key.kid == kid)]
        return matching[0] if len(matching) == 1 else None


# --- reading a key set -----------------------------------------------------------------------------------------


def read_key_set(text: bytes | str, algorithms: Collection[str]) -> KeySet:
    """Parse a JWKS. Keep only keys that support one of these algorithms."""
    try:
        document = read_json(text, "The key set")
    except InvalidJson as error:
        raise JwksUnavailable(error.message) from None
    members = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(members, list):
        raise JwksUnavailable('The text is not a key set: a JWKS is an object such as {"keys": [ … ]}.')
    keys = [key for member in members if (key := _parse_key(member, algorithms)) is not None]
    return KeySet(tuple(keys), len(members) - len(keys))


def _parse_key(member: Any, algorithms: Collection[str]) -> VerifyingKey | None:
    if not isinstance(member, dict) or member.get("use", "sig") != "sig":
        return None
    kid, key_type, operations = member.get("kid"), member.get("kty"), member.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    if not isinstance(kid, str | None) or not isinstance(key_type, str):
        return None
    public = {name: member.get(name) for name in _PUBLIC_MEMBERS.get(key_type, ())}
    curve = public.get("crv")
    of_type = _ALGORITHMS.get((key_type, curve), ()) if isinstance(curve, str | None) else ()
    supported = [name for name in of_type if name in algorithms and member.get("alg", name) == name]
    if not supported:
        return None
    try:
        key = _IMPLEMENTATIONS[supported[0]].from_jwk({"kty": key_type, **public})
    except (PyJWTError, ValueError, TypeError, KeyError, AttributeError):  # Raised for various invalid members.
        return None
    strong = frozenset(name for name in supported if _IMPLEMENTATIONS[name].check_key_length(key) is None)
    return VerifyingKey(kid, strong, key) if strong else None


# --- loading ---------------------------------------------------------------------------------------------------


def is_url(location: str) -> bool:
    """Return whether the location is a URL. Otherwise it is a file."""
    return "://" in location


def url_problem(url: str, *, plain_http: bool) -> str | None:
    """Return why a JWKS cannot come from this URL, or None if it can."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it is not a URL"
    if parts.scheme not in {"https", "http"}:
        return "keys come from an https:// URL, or from a file, which is named by its path"
    if not host or parts.username is not None or parts.fragment:
        return "the URL of a JWKS must have a host, and neither user nor fragment"
    if parts.scheme == "http" and not plain_http and not _is_loopback(host):
        return "over plain http, anyone on the network path can replace the keys: use https"
    return None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


async def load_key_set(location: str, algorithms: Collection[str], *, seconds: float = FETCH_SECONDS) -> KeySet:
    """Load the keys from a URL or a file, within limits of time and size."""
    if is_url(location):
        return read_key_set(await _fetch(location, seconds), algorithms)
    return await asyncio.to_thread(read_key_set_file, location, algorithms)


def read_key_set_file(path: str, algorithms: Collection[str]) -> KeySet:
    """Read the keys in a file."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise JwksUnavailable(f"{error.strerror}.") from None
    _check_size(content)
    return read_key_set(content, algorithms)


async def _fetch(url: str, seconds: float) -> bytes:
    import aiohttp  # noqa: PLC0415 - slow to import, and not needed for a file

    # Many networks require the proxy of the environment, but loopback addresses must bypass it.
    use_proxy = not _is_loopback(urlsplit(url).hostname or "")
    timeout = aiohttp.ClientTimeout(total=seconds)
    headers = {"accept": "application/jwk-set+json, application/json"}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=use_proxy, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(url, headers=headers, allow_redirects=False) as response,
        ):
            if response.status != 200:
                raise JwksUnavailable(f"The response has status {response.status}.")
            content = bytearray()
            async for chunk in response.content.iter_chunked(16 << 10):
                content += chunk
                _check_size(content)
            return bytes(content)
    except TimeoutError:
        raise JwksUnavailable(f"There was no complete response within {seconds:g} s.") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise JwksUnavailable(f"{type(error).__name__}: {error}.") from None


def _check_size(content: bytes | bytearray) -> None:
    if len(content) > MAX_BYTES:
        raise JwksUnavailable(f"The key set has more than {MAX_BYTES:,} bytes.")


# --- cache -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class JwksCache:
    """The newest keys that could be loaded. All durations are in seconds."""

    load: Callable[[], Awaitable[KeySet]]
    location: str
    """The source of the keys, for log messages."""
    max_age: float = 600.0
    """Age at which keys are renewed in the background. At twice this age, requests wait for the renewal."""
    expiry_age: float = math.inf
    """Age at which keys are not used any more, although the issuer does not answer: they may have been revoked."""
    unknown_key_interval: float = 30.0
    """Minimum time between two renewals that are caused by an unknown key id."""
    retry_interval: float = 5.0
    """Minimum time between a failed renewal and the next one."""
    clock: Clock = running_clock
    _keys: KeySet | None = None
    _loaded_at: float = 0.0
    _attempted_at: float = -math.inf
    _last_attempt_failed: bool = False
    _renewal: asyncio.Task[None] | None = field(default=None, repr=False)

    async def key_for(self, algorithm: str, kid: str | None) -> VerifyingKey:
        """Return the key that must verify a token with this algorithm and key id."""
        keys = await self._current_keys()
        if keys is not None and not keys.has_key_id(kid) and self._may_renew(self.unknown_key_interval):
            await self._shared_renewal()
            keys = self._keys  # If this attempt failed, the keys are those from before, which have not expired.
        if keys is None:
            raise Unauthenticated("The keys that verify tokens are unavailable at the moment: try again.", passing=True)
        key = keys.key_for(algorithm, kid)
        if key is not None:
            return key
        if not keys.has_key_id(kid):
            raise Unauthenticated(
                "The token was signed with a key that this server does not know.", passing=self._last_attempt_failed
            )
        raise Unauthenticated("No key of the issuer matches the algorithm of the token, or several do.")

    async def _current_keys(self) -> KeySet | None:
        age = self.clock() - self._loaded_at
        if self._keys is None:
            if self._may_renew(0.0):
                await self._shared_renewal()
        elif age >= self.max_age and self._may_renew(self.max_age):
            renewal = self._shared_renewal()
            # Long without requests: keys may have been revoked in the meantime.
            if (age >= 2 * self.max_age and not self._last_attempt_failed) or age >= self.expiry_age:
                await renewal
        return None if self.clock() - self._loaded_at >= self.expiry_age else self._keys

    def _may_renew(self, interval: float) -> bool:
        """Return whether enough time has passed since the last attempt. A failed one has its own interval."""
        return self.clock() - self._attempted_at >= (self.retry_interval if self._last_attempt_failed else interval)

    def _shared_renewal(self) -> asyncio.Future[None]:
        """Return the running renewal, or start one. Requests share it, so cancelling one of them does not cancel it."""
        renewal = self._renewal
        if renewal is None or renewal.done() or renewal.get_loop() is not asyncio.get_running_loop():
            renewal = self._renewal = asyncio.create_task(self._load())
        return asyncio.shield(renewal)

    async def _load(self) -> None:
        asked_at = self.clock()
        try:
            keys = await self.load()
        except JwksUnavailable as error:
            self._last_attempt_failed = True
            expired = self._keys is None or self.clock() - self._loaded_at >= self.expiry_age
            consequence = "No token can be verified" if expired else "The previous keys stay in use"
            log.warning("Keys of %s: %s %s.", self.location, error, consequence)
        else:
            self._keys, self._loaded_at, self._last_attempt_failed = keys, asked_at, False
            if not keys.keys:
                log.warning("Keys of %s: none of %s is usable, so no token is accepted.", self.location, keys.skipped)
        finally:
            self._attempted_at = asked_at if self._loaded_at == asked_at else self.clock()
