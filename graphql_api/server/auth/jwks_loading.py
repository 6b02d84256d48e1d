"""Loads a JWKS from a file or a URL, within limits of time and size."""

import asyncio
from collections.abc import Collection
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from graphql_api.server.auth.jwks import InvalidKeySet, KeySet, read_key_set
from graphql_api.server.auth.jwks_cache import JwksUnavailable, LoadKeySet

MAX_BYTES = 256 << 10
FETCH_SECONDS = 3.0
"""Time limit for a whole request, from the connection to the last byte."""
_ACCEPT = "application/jwk-set+json, application/json"


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
    if parts.scheme == "http" and not plain_http and not is_loopback(host):
        return "over plain http, anyone on the network path can replace the keys: use https"
    return None


def is_loopback(host: str) -> bool:
    """Return whether a host name or IP address is this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def jwks_loader(location: str, algorithms: Collection[str], *, seconds: float = FETCH_SECONDS) -> LoadKeySet:
    """Return a function that loads the keys from a URL or a file."""

    async def load() -> KeySet:
        if is_url(location):
            text = await _fetch(location, seconds)
        else:
            text = await asyncio.to_thread(read_limited_file, Path(location))
        try:
            return read_key_set(text, algorithms)
        except InvalidKeySet as error:
            raise JwksUnavailable(str(error)) from None

    return load


def read_limited_file(path: Path) -> bytes:
    """Read a file of at most MAX_BYTES."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise JwksUnavailable(f"{error.strerror}.") from None
    _check_size(content)
    return content


async def _fetch(url: str, seconds: float) -> bytes:
    import aiohttp  # noqa: PLC0415 - slow to import, and not needed for a file

    # Many networks require the proxy of the environment, but loopback addresses must bypass it.
    use_proxy = not is_loopback(urlsplit(url).hostname or "")
    timeout = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=use_proxy, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(url, headers={"accept": _ACCEPT}, allow_redirects=False) as response,
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
