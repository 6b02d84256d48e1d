"""Start-up of `shardql serve`: from its arguments to a server that listens."""

import asyncio
import socket
from functools import partial
from typing import Any

from graphql_api.cli.process.log_output import configure_logging
from graphql_api.cli.process.server_process import ServerConfig, run_server
from graphql_api.cli.process.supervisor import Supervisor
from graphql_api.cli.sample_data import write_samples_once
from graphql_api.cli.terminal_output import record_bar
from graphql_api.errors import InvalidSettings
from graphql_api.model import load_catalog
from graphql_api.server import (
    Settings,
    read_settings,
    resolve_secrets,
    settings_problems,
    warn_about_production,
)
from graphql_api.server.auth import describe_credentials
from graphql_api.server.observability import log_unfinished_elements


def start_server(address: str, sample: int | None, **arguments: Any) -> int:
    """Serve until a stop signal. Return the exit code."""
    catalog = load_catalog(address)
    settings = read_settings(**arguments)
    problems = [*settings_problems(settings)]
    if settings.read_only and sample is not None:
        problems.append("A read-only server writes no sample data: leave out --sample or the read-only mode.")
    if problems:
        raise InvalidSettings(problems)
    configure_logging(settings.log_level, settings.log_format)
    warn_about_production(catalog, settings)
    with bind_socket(settings.host, settings.port) as listener:
        secrets, token_key_source = resolve_secrets(settings)
        config = ServerConfig(address, settings, secrets)
        lines = _startup_lines(address, settings, socket_url(listener), token_key_source)
        on_listening = partial(print, "\n".join(lines), flush=True)
        if sample is not None or settings.workers > 1:
            asyncio.run(_prepare_store(config, sample))
        if settings.workers > 1:
            return Supervisor(config, listener).run(on_listening)
        run_server(config, listener, on_listening)
        return 0


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address but does not listen yet."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = min(addresses, key=lambda one: one[0] != socket.AF_INET)
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        remedy = "Choose another --port (0 for any free port), or another --host."
        raise InvalidSettings([f"Cannot listen on {host}:{port}: {reason}. {remedy}"]) from error
    return listener


def socket_url(listener: socket.socket) -> str:
    """Return the URL of a bound socket: `http://127.0.0.1:8000`."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _prepare_store(config: ServerConfig, sample: int | None) -> None:
    """Create the table and write the sample data once, before any process serves."""
    async with config.open_database() as database:
        if config.settings.workers > 1:
            log_unfinished_elements(database)
        if sample is not None:
            with record_bar("sample data") as show_progress:
                written = await write_samples_once(database, config.address, sample, show_progress)
            if written:
                print(f"Wrote {written:,} sample records to {config.settings.store_url}.", flush=True)


def _startup_lines(address: str, settings: Settings, url: str, token_key_source: str) -> list[str]:
    features = {
        "introspection": settings.introspection,
        "GraphiQL": settings.graphiql,
        "data page": settings.grid,
        "explain": settings.explain,
    }
    enabled = ", ".join(name for name, is_on in features.items() if is_on)
    mode = "production" if settings.production else "development"
    return [
        f"Serving {address} at {url}{settings.path}",
        f"  mode    {mode}{', read-only' if settings.read_only else ''}{f': {enabled}' if enabled else ''}",
        f"  store   {settings.store_url}",
        f"  tokens  {token_key_source}",
        f"  callers {describe_credentials(settings)}",
        "Press Ctrl-C to stop.",
    ]
