"""Host names under which a server answers, as a protection against DNS rebinding.

A page of another site can let its own name resolve to the address of this server. A browser then takes both for one
site, so neither CORS nor a preflight protects the server. But its requests carry that name in the header `Host`.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from graphql_api.errors import HostNotAllowed, InvalidValue
from graphql_api.server.responses import send_error

_NAME = r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?"
_PATTERN = re.compile(rf"\*|(\*\.)?{_NAME}(\.{_NAME})*")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]*)(:[0-9]*)?")
_CHECKED = frozenset({"http", "websocket"})
_PROBES = frozenset({"/healthz", "/readyz"})
"""Paths that anyone may read."""


def check_hosts(hosts: Sequence[str]) -> None:
    """Raise InvalidValue for a text that names no hosts."""
    for host in hosts:
        if not _PATTERN.fullmatch(host):
            raise InvalidValue(
                f"{host!r} is no host name: write names such as api.example.com in lower case, without scheme and "
                "port, *.example.com for all names below example.com, or * for all.",
                argument="allowed_hosts",
            )


class AllowHosts:
    """Middleware that refuses requests to names that are not allowed.

    Addresses, names without a dot, and names below `localhost` are always allowed, since no site can own them.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str]) -> None:
        self.app = app
        self._names = frozenset(host for host in hosts if not host.startswith("*"))
        self._suffixes = (".localhost", *(host.removeprefix("*") for host in hosts if host.startswith("*")))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] in _CHECKED and path not in _PROBES:
            for host in Headers(scope=scope).getlist("host"):
                if not self._allows(host):
                    error = HostNotAllowed(
                        f"This server does not answer under the name {host[:80]!r}. Request it by a name in "
                        "SHARDQL_ALLOWED_HOSTS, or add the name there."
                    )
                    await send_error(scope, receive, send, error)
                    return
        await self.app(scope, receive, send)

    def _allows(self, header: str) -> bool:
        match = _HOST.fullmatch(header.strip().lower())
        if match is None:
            return False
        name = match[1].rstrip(".")
        return "." not in name or name in self._names or name.endswith(self._suffixes) or _is_address(match[1])


def _is_address(name: str) -> bool:
    try:
        return isinstance(ip_address(name.strip("[]")), IPv6Address) == name.startswith("[")
    except ValueError:
        return False
