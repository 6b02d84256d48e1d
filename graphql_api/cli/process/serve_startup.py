"""From the words of `shardql serve` to a server that listens."""

import asyncio
import socket
from contextlib import closing
from typing import Any

from graphql_api.cli.process.log_output import set_up_logs
from graphql_api.cli.process.socket_server import address_of, bind
from graphql_api.cli.process.supervisor import Workers
from graphql_api.cli.process.worker import Serving, run_one
from graphql_api.cli.progress_bars import sample_bar
from graphql_api.cli.sample_loading import fill_once
from graphql_api.errors import InvalidSettings
from graphql_api.model import load_catalog
from graphql_api.server import Settings, read_settings, tell_what_is_open, token_secrets, unfit
from graphql_api.server.auth import credentials_in_words


def start(address: str, sample: int | None, **arguments: Any) -> int:
    """Serves until a signal asks for a stop; the exit code."""
    catalog = load_catalog(address)
    settings = read_settings(**arguments)
    problems = [*unfit(settings)]
    if settings.read_only and sample is not None:
        problems.append("A server that only reads writes no sample: leave out --sample or the read-only mode.")
    if problems:
        raise InvalidSettings(problems)
    set_up_logs(settings.log_level, settings.log_format)
    tell_what_is_open(catalog, settings)
    with closing(bind(settings.host, settings.port)) as bound:
        return _start(address, settings, bound, sample)


def _start(address: str, settings: Settings, bound: socket.socket, sample: int | None) -> int:
    secrets, words = token_secrets(settings)
    serving = Serving(address, settings, secrets)

    def listening() -> None:
        print("\n".join(_said(address, settings, address_of(bound), words)), flush=True)

    if sample is not None or settings.workers > 1:
        asyncio.run(_prepare(serving, sample))
    if settings.workers > 1:
        return Workers(serving, bound).run(listening)
    run_one(serving, bound, listening)
    return 0


async def _prepare(serving: Serving, sample: int | None) -> None:
    """What is done once, before any process serves."""
    async with serving.open() as database:
        if sample is not None:
            with sample_bar() as progress:
                written = await fill_once(database, serving.address, sample, progress)
            if written:
                print(f"Wrote {written:,} sample records to {serving.settings.store_url}.", flush=True)


def _said(address: str, settings: Settings, at: str, tokens: str) -> list[str]:
    """What there is, now that somebody listens."""
    choices = {"introspection": settings.introspection, "GraphiQL": settings.graphiql, "explain": settings.explain}
    on = ", ".join(name for name, is_on in choices.items() if is_on)
    mode = "production" if settings.production else "development"
    return [
        f"Serving {address} at {at}{settings.path}",
        f"  mode    {mode}{', read-only' if settings.read_only else ''}{f': {on}' if on else ''}",
        f"  store   {settings.store_url}",
        f"  tokens  {tokens}",
        f"  callers {credentials_in_words(settings)}",
        "Ctrl-C stops it.",
    ]
