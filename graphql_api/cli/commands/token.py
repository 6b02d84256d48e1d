"""`shardql token`: a bearer token for development, for whoever one would like to be."""

import re
import time
from typing import Annotated

import typer

from graphql_api.cli.exit_codes import errors_told
from graphql_api.errors import InvalidSettings, InvalidValue
from graphql_api.model import load_catalog
from graphql_api.server import Settings, known_tokens, read_settings, token_secrets, variable

MAX_SECONDS = 30 * 86400
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SPAN = re.compile(r"([0-9]{1,9})([smhd])")


def token(
    address: Annotated[
        str, typer.Argument(metavar="MODULE:CATALOG", help="Where the catalog is: graphql_api.examples.users:catalog.")
    ],
    *,
    subject: Annotated[str, typer.Option(metavar="NAME", help="Whom it stands for: what rules compare with owners.")],
    group: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A group that they are in; give it once for each.")
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Their tenant, for a server with SHARDQL_TENANT_CLAIM."),
    ] = None,
    expires: Annotated[
        str, typer.Option(metavar="TIME", help="How long it is good for: 90s, 15m, 1h or 7d, at most 30d.")
    ] = "1h",
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The store of the server, which decides who may read it, as for serve."),
    ] = None,
) -> None:
    """Mints a bearer token that a server in development mode takes for somebody, without any identity provider.

    The token alone goes to the output, how to send it to the error stream. It is signed with a secret that is derived
    from the key of page tokens: the one beside the SQLite file, or the one in the settings. A server in production
    takes no such token.

    Exit codes: 0 minted, 2 usage or settings, 4 catalog.

    Try it:

    ```
    shardql token graphql_api.examples.users:catalog --subject alice --group Admin --expires 8h
    ```
    """
    with errors_told():
        load_catalog(address)
        settings = read_settings(store=store)
        text = _minted(settings, subject, group or [], tenant, _seconds(expires))
    typer.echo(text)
    typer.echo(_usage(settings, expires), err=True)


def _minted(settings: Settings, subject: str, groups: list[str], tenant: str | None, seconds: int) -> str:
    from graphql_api.server.auth import (  # noqa: PLC0415 - as slow as the web room is
        MAX_CHARACTERS,
        Identity,
        is_name,
        mint,
    )

    for option, value in (("subject", subject), *(("group", group) for group in groups), ("tenant", tenant)):
        if value is not None and not is_name(value):
            raise InvalidValue(f"--{option} is no text of 1 to {MAX_CHARACTERS} printable characters.")
    if settings.production:
        raise InvalidSettings(["Production takes tokens of its issuer alone: mint tokens for a server in development."])
    if (tenant is None) != (settings.tenant_claim is None):
        needed = "Give --tenant" if tenant is None else "Leave --tenant out"
        state = f"{variable('tenant_claim')} is {'not set' if settings.tenant_claim is None else 'set'}"
        raise InvalidSettings([f"{needed}: {state}. If the server has it otherwise, set it here as there."])
    return mint(_secret(settings), Identity(subject, frozenset(groups), tenant), now=time.time(), seconds=seconds)


def _secret(settings: Settings) -> bytes:
    """The key that the server has too; where it keeps one beside its file, that is made if need be."""
    token_secrets(settings)
    kept = known_tokens(settings)
    if kept is None:
        problem = (
            f"A server over {settings.store_url} makes a new key at each start: set {variable('token_keys')} for it "
            "and here. `openssl rand -base64 32` makes one."
        )
        raise InvalidSettings([problem])
    return kept[0][0]


def _seconds(text: str) -> int:
    found = _SPAN.fullmatch(text.strip().lower())
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < seconds <= MAX_SECONDS:
        raise InvalidValue(f"--expires is {text!r}: give a time such as 90s, 15m, 1h or 7d, at most 30d.")
    return seconds


def _usage(settings: Settings, expires: str) -> str:
    url = f"http://{settings.host}:{settings.port}{settings.path}"
    return "\n".join(
        [
            f"Good for {expires}, at a server in development mode over {settings.store_url}.",
            f"  curl      curl {url} -H 'content-type: application/json' -H \"authorization: Bearer $TOKEN\" \\",
            """              -d '{"query": "{ __typename }"}'""",
            '  GraphiQL  in the tab Headers: {"apollo-require-preflight": "1", "authorization": "Bearer TOKEN"}',
        ]
    )
