"""Gets a JWKS out of a file or from an address, within bounds of time and size."""

import asyncio
from collections.abc import Collection
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from graphql_api.server.auth.jwks import KeySet, NoKeySet, read_key_set
from graphql_api.server.auth.jwks_source import KeysUnavailable, Load

MAX_BYTES = 256 << 10
FETCH_SECONDS = 3.0
"""from the first byte that is sent to the last one that comes"""
_ACCEPTED = "application/jwk-set+json, application/json"


def is_address(place: str) -> bool:
    """Whether keys come from an address; else from a file."""
    return "://" in place


def address_problem(address: str, *, plain_http: bool) -> str | None:
    """What is wrong with an address that keys should come from."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it is no URL"
    if parts.scheme not in {"https", "http"}:
        return "keys come from https://… or out of a file, which is named by its path"
    if not host or parts.username is not None or parts.fragment:
        return "an address of keys has a host, and neither a user nor a fragment"
    if parts.scheme == "http" and not plain_http and not is_loopback(host):
        return "over plain http anybody on the way can put in keys of their own: take https"
    return None


def is_loopback(host: str) -> bool:
    """Whether a name or number means this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def load_from(place: str, algorithms: Collection[str], *, seconds: float = FETCH_SECONDS) -> Load:
    """What gets the keys at an address or in a file."""

    async def load() -> KeySet:
        text = await _fetch(place, seconds) if is_address(place) else await asyncio.to_thread(read_file, Path(place))
        try:
            return read_key_set(text, algorithms)
        except NoKeySet as problem:
            raise KeysUnavailable(str(problem)) from None

    return load


def read_file(path: Path) -> bytes:
    """The bytes of a file, if they are not too many."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as problem:
        raise KeysUnavailable(f"{problem.strerror}.") from None
    _check_size(text)
    return text


async def _fetch(address: str, seconds: float) -> bytes:
    import aiohttp  # noqa: PLC0415 - slow to load, and not needed for keys in a file

    # A proxy of the environment is the way out of many networks; this machine itself is reached without.
    proxied = not is_loopback(urlsplit(address).hostname or "")
    timeout = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=proxied, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(address, headers={"accept": _ACCEPTED}, allow_redirects=False) as reply,
        ):
            if reply.status != 200:
                raise KeysUnavailable(f"The answer has status {reply.status}.")
            text = bytearray()
            async for part in reply.content.iter_chunked(16 << 10):
                text += part
                _check_size(text)
            return bytes(text)
    except TimeoutError:
        raise KeysUnavailable(f"There was no whole answer within {seconds:g} s.") from None
    except (aiohttp.ClientError, OSError, ValueError) as problem:
        raise KeysUnavailable(f"{type(problem).__name__}: {problem}.") from None


def _check_size(text: bytes | bytearray) -> None:
    if len(text) > MAX_BYTES:
        raise KeysUnavailable(f"There are more than {MAX_BYTES:,} bytes.")
