"""Start-up of `shardql serve`: from its arguments to a server that listens."""

import asyncio
import socket
from contextlib import closing
from typing import Any

from graphql_api.cli.process.log_output import configure_logging
from graphql_api.cli.process.socket_server import bind_socket, socket_url
from graphql_api.cli.process.supervisor import Supervisor
from graphql_api.cli.process.worker import ServerConfig, run_server
from graphql_api.cli.progress_bars import sample_bar
from graphql_api.cli.sample_loading import write_samples_once
from graphql_api.errors import InvalidSettings
from graphql_api.model import load_catalog
from graphql_api.server import (
    Settings,
    read_settings,
    resolve_secrets,
    settings_problems,
    warn_about_unrestricted_access,
)
from graphql_api.server.auth import describe_credentials


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
    warn_about_unrestricted_access(catalog, settings)
    with closing(bind_socket(settings.host, settings.port)) as listener:
        return _run(address, settings, listener, sample)


def _run(address: str, settings: Settings, listener: socket.socket, sample: int | None) -> int:
    secrets, token_key_source = resolve_secrets(settings)
    config = ServerConfig(address, settings, secrets)

    def on_listening() -> None:
        print("\n".join(_startup_lines(address, settings, socket_url(listener), token_key_source)), flush=True)

    if sample is not None or settings.workers > 1:
        asyncio.run(_prepare_store(config, sample))
    if settings.workers > 1:
        return Supervisor(config, listener).run(on_listening)
    run_server(config, listener, on_listening)
    return 0


async def _prepare_store(config: ServerConfig, sample: int | None) -> None:
    """Create the table and write the sample data once, before any process serves."""
    async with config.open_database() as database:
        if sample is not None:
            with sample_bar() as show_progress:
                written = await write_samples_once(database, config.address, sample, show_progress)
            if written:
                print(f"Wrote {written:,} sample records to {config.settings.store_url}.", flush=True)


def _startup_lines(address: str, settings: Settings, url: str, token_key_source: str) -> list[str]:
    """Return the lines that are printed once the server listens."""
    features = {"introspection": settings.introspection, "GraphiQL": settings.graphiql, "explain": settings.explain}
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
