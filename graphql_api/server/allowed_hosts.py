"""Host names under which a server answers, as a protection against DNS rebinding.

A page of another site can let its own name resolve to the address of this server. A browser then takes both for one
site, so neither CORS nor a preflight protects the server. But its requests carry that name in the header `Host`.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from starlette.types import Scope

from graphql_api.errors import HostNotAllowed, InvalidValue, ShardQLError

_NAME = r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?"
_PATTERN = re.compile(rf"\*|(\*\.)?{_NAME}(\.{_NAME})*")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]*)(:[0-9]*)?")
MAX_KNOWN_HOSTS = 256
"""headers whose check is remembered"""
MAX_HOST_CHARACTERS = 260
"""of a header whose check is remembered: the longest name, and a port"""
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


class HostPolicy:
    """Which names a server answers under.

    Addresses, names without a dot, and names below `localhost` are always allowed, since no site can own them.
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        self._names = frozenset(host for host in hosts if not host.startswith("*"))
        self._suffixes = (".localhost", *(host.removeprefix("*") for host in hosts if host.startswith("*")))
        self._is_allowed = lru_cache(MAX_KNOWN_HOSTS)(self._allows)

    def refusal(self, scope: Scope, hosts: Sequence[str]) -> ShardQLError | None:
        """Return the error of a request to these hosts; None if all are allowed."""
        refused = next((host for host in hosts if not self.allows(host)), None)
        if refused is None or scope.get("path", "").removeprefix(scope.get("root_path", "")) in _PROBES:
            return None
        return HostNotAllowed(
            f"This server does not answer under the name {refused[:80]!r}. Request it by a name in "
            "SHARDQL_ALLOWED_HOSTS, or add the name there."
        )

    def allows(self, header: str) -> bool:
        """Return whether requests may have this header."""
        return self._is_allowed(header) if len(header) <= MAX_HOST_CHARACTERS else self._allows(header)

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
