"""Where and how the client of aioboto3 would send a request: its endpoint, TLS settings, signature and proxy.

The client decides it by configuration, environment and credentials. Most of that has no public interface.
"""

# ruff: noqa: SLF001

from ssl import CERT_NONE, SSLContext
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from aiobotocore.httpsession import AIOHTTPSession
from botocore.httpsession import get_cert_path

from graphql_api.storage.engines.dynamodb.driver_client import READS, WRITES
from graphql_api.storage.engines.dynamodb.http_connections import Endpoint

_OWN_PACKAGES = frozenset({"botocore", "aiobotocore", "boto3", "aioboto3", "graphql_api"})
_HOOKS = (
    "provide-client-params",
    "before-parameter-build",
    "before-endpoint-resolution",
    "before-call",
    "request-created",
    "choose-signer",
    "before-sign",
    "before-send",
    "response-received",
    "before-parse",
    "needs-retry",
    "after-call",
    "after-call-error",
)
"""events of a request, whose handlers may observe or change it"""
_DEFAULT_PORTS = {"http": 80, "https": 443}


class RequestRoute(NamedTuple):
    """Where requests are sent, and what their signatures name."""

    endpoint: Endpoint
    host: str
    """the host header"""
    region: str
    service: str


class RouteResolver:
    """Resolves the route of requests that one client would send."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._tls: SSLContext | None = None

    async def resolve(self) -> RequestRoute | None:
        """Return the route with the current credentials, or None if only the client can send requests as configured."""
        client = self._client
        http: Any = client._endpoint.http_session
        operation = client.meta.service_model.operation_model("Query")
        context = {
            "client_region": client.meta.region_name,
            "client_config": client.meta.config,
            "has_streaming_input": operation.has_streaming_input,
            "auth_type": operation.resolved_auth_type,
            "unsigned_payload": operation.unsigned_payload,
            "auth_options": client.meta.service_model.metadata.get("auth"),
        }
        url, headers, _ = await client._resolve_endpoint_ruleset(operation, {}, context)
        signature = await client._request_signer._choose_signer("Query", "standard", context)
        parts = urlsplit(url)
        is_plain = (
            signature == "v4"
            and not headers
            and parts.scheme in _DEFAULT_PORTS
            and parts.hostname is not None
            and (parts.path in {"", "/"} and not parts.query and parts.username is None)
            and type(http) is AIOHTTPSession
            and http._proxy_config.proxy_url_for(url) is None
            and not self._has_other_hooks()
        )
        if not is_plain or parts.hostname is None:
            return None
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        if port != _DEFAULT_PORTS[parts.scheme]:
            host = f"{host}:{port}"
        if parts.scheme == "https" and self._tls is None:
            self._tls = _tls_context(http)
        endpoint = Endpoint(url, parts.hostname, port, self._tls if parts.scheme == "https" else None)
        signing: dict[str, str] = context.get("signing") or {}
        region = signing.get("region") or client._request_signer._region_name
        service = signing.get("signing_name") or client._request_signer._signing_name
        return RequestRoute(endpoint, host, region, service)

    def _has_other_hooks(self) -> bool:
        """Return whether other code has registered a handler for an event of a request."""
        registered = self._client.meta.events._emitter._handlers
        return any(
            getattr(handler, "__module__", None) is None or handler.__module__.partition(".")[0] not in _OWN_PACKAGES
            for event in _HOOKS
            for operation in READS | WRITES
            for handler in registered.prefix_search(f"{event}.dynamodb.{operation}")
        )


def _tls_context(http: AIOHTTPSession) -> SSLContext:
    """Return a context with the certificates of the client, as AWS_CA_BUNDLE and the configuration name them."""
    context: SSLContext = http._get_ssl_context()
    if http._cert_file:
        context.load_cert_chain(http._cert_file, http._key_file)
    authorities = get_cert_path(http._verify)
    if authorities:
        context.load_verify_locations(authorities)
    else:
        context.check_hostname, context.verify_mode = False, CERT_NONE
    return context
