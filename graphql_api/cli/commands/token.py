"""`shardql token`: mints a bearer token for development, for any principal."""

import re
import time
from typing import Annotated

import typer

from graphql_api.cli.common_options import CatalogAddress
from graphql_api.cli.exit_codes import report_errors
from graphql_api.errors import InvalidSettings, InvalidValue
from graphql_api.model import load_catalog
from graphql_api.server import Settings, existing_token_keys, read_settings, resolve_secrets, variable_name

MAX_SECONDS = 30 * 86400
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([0-9]{1,9})([smhd])")


def token(
    address: CatalogAddress,
    *,
    subject: Annotated[
        str, typer.Option(metavar="NAME", help="Subject of the token. Access rules compare it with owners.")
    ],
    group: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Group of the subject. Repeat it for several groups.")
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Tenant of the subject, if the server has SHARDQL_TENANT_CLAIM."),
    ] = None,
    expires: Annotated[
        str, typer.Option(metavar="TIME", help="Lifetime of the token: 90s, 15m, 1h or 7d, at most 30d.")
    ] = "1h",
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Store of the server, as for serve. It determines the signing key."),
    ] = None,
) -> None:
    """Mint a bearer token that a server in development mode accepts, without an identity provider.

    The token goes to standard output, and how to send it to the error stream. It is signed with a secret derived from
    the key of page tokens: the one next to the SQLite file, or the one in the settings. Servers in production mode do
    not accept it.

    Exit codes: 0 minted, 2 usage or settings, 4 catalog.

    Try it:

    ```
    shardql token graphql_api.examples.users:catalog --subject alice --group Admin --expires 8h
    ```
    """
    with report_errors():
        load_catalog(address)
        settings = read_settings(store=store)
        text = _mint(settings, subject, group or [], tenant, _parse_duration(expires))
    typer.echo(text)
    typer.echo(_usage(settings, expires), err=True)


def _mint(settings: Settings, subject: str, groups: list[str], tenant: str | None, seconds: int) -> str:
    from graphql_api.server.auth import (  # noqa: PLC0415 - slow import, only needed here
        MAX_CHARACTERS,
        Identity,
        is_valid_name,
        mint_token,
    )

    for option, value in (("subject", subject), *(("group", group) for group in groups), ("tenant", tenant)):
        if value is not None and not is_valid_name(value):
            raise InvalidValue(f"--{option} is not a text of 1 to {MAX_CHARACTERS} printable characters.")
    if settings.production:
        raise InvalidSettings(
            ["Servers in production accept only tokens of their issuer: mint tokens for a server in development."]
        )
    if (tenant is None) != (settings.tenant_claim is None):
        remedy = "Add --tenant" if tenant is None else "Leave --tenant out"
        state = f"{variable_name('tenant_claim')} is {'not set' if settings.tenant_claim is None else 'set'}"
        raise InvalidSettings([f"{remedy}: {state}. It must have the same value here as on the server."])
    identity = Identity(subject, frozenset(groups), tenant)
    return mint_token(_signing_secret(settings), identity, now=time.time(), seconds=seconds)


def _signing_secret(settings: Settings) -> bytes:
    """Return the first token key of the server. Create its key file if necessary."""
    resolve_secrets(settings)
    existing = existing_token_keys(settings)
    if existing is None:
        problem = (
            f"A server with the store {settings.store_url} generates a new key at each start: set "
            f"{variable_name('token_keys')} for the server and here. `openssl rand -base64 32` generates one."
        )
        raise InvalidSettings([problem])
    return existing[0][0]


def _parse_duration(text: str) -> int:
    match = _DURATION.fullmatch(text.strip().lower())
    seconds = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 0 < seconds <= MAX_SECONDS:
        raise InvalidValue(f"--expires is {text!r}: use a duration such as 90s, 15m, 1h or 7d, at most 30d.")
    return seconds


def _usage(settings: Settings, expires: str) -> str:
    url = f"http://{settings.host}:{settings.port}{settings.path}"
    return "\n".join(
        [
            f"Valid for {expires}, for a server in development mode with the store {settings.store_url}.",
            f"  curl      curl {url} -H 'content-type: application/json' -H \"authorization: Bearer $TOKEN\" \\",
            """              -d '{"query": "{ __typename }"}'""",
            '  GraphiQL  in the tab Headers: {"apollo-require-preflight": "1", "authorization": "Bearer TOKEN"}',
        ]
    )
