"""`shardql token`: mints a bearer token for development, for any principal."""

import re
import time
from typing import Annotated

import typer

from graphql_api.cli.common_options import CatalogAddress, option
from graphql_api.errors import InvalidSettings, InvalidValue
from graphql_api.model import load_catalog
from graphql_api.server import Settings, existing_token_keys, read_settings, resolve_secrets, variable_name

MAX_SECONDS = 30 * 86400
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([0-9]{1,9})([smhd])")


def token(
    address: CatalogAddress,
    *,
    subject: Annotated[str, option("NAME", "Subject of the token. Access rules compare it with owners.")],
    group: Annotated[list[str] | None, option("NAME", "Group of the subject. Repeat it for several groups.")] = None,
    tenant: Annotated[
        str | None, option("NAME", "Tenant of the subject, if the server has SHARDQL_TENANT_CLAIM.")
    ] = None,
    expires: Annotated[str, option("TIME", "Lifetime of the token: 90s, 15m, 1h or 7d, at most 30d.")] = "1h",
    store: Annotated[
        str | None, option("URL", "Store of the server, as for serve. It determines the signing key.")
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
    load_catalog(address)
    settings = read_settings(store=store)
    duration = _DURATION.fullmatch(expires.strip().lower())
    seconds = int(duration[1]) * _UNITS[duration[2]] if duration else 0
    if not 0 < seconds <= MAX_SECONDS:
        raise InvalidValue(f"--expires is {expires!r}: use a duration such as 90s, 15m, 1h or 7d, at most 30d.")
    text = _mint(settings, subject, group or [], tenant, seconds)
    url = f"http://{settings.host}:{settings.port}{settings.path}"
    usage = f"""Valid for {expires}, for a server in development mode with the store {settings.store_url}.
  curl      curl {url} -H 'content-type: application/json' -H "authorization: Bearer $TOKEN" \\
              -d '{{"query": "{{ __typename }}"}}'
  GraphiQL  in the tab Headers: {{"apollo-require-preflight": "1", "authorization": "Bearer TOKEN"}}"""
    typer.echo(text)
    typer.echo(usage, err=True)


def _mint(settings: Settings, subject: str, groups: list[str], tenant: str | None, seconds: int) -> str:
    from graphql_api.server.auth import (  # noqa: PLC0415 - slow import, only needed here
        MAX_CHARACTERS,
        Identity,
        is_valid_name,
        mint_token,
    )

    for name, value in (("subject", subject), *(("group", group) for group in groups), ("tenant", tenant)):
        if value is not None and not is_valid_name(value):
            raise InvalidValue(f"--{name} is not a text of 1 to {MAX_CHARACTERS} printable characters.")
    if settings.production:
        problem = "Servers in production accept only tokens of their issuer: mint tokens for a server in development."
        raise InvalidSettings([problem])
    if (tenant is None) != (settings.tenant_claim is None):
        remedy = "Add --tenant" if tenant is None else "Leave --tenant out"
        state = f"{variable_name('tenant_claim')} is {'not set' if settings.tenant_claim is None else 'set'}"
        raise InvalidSettings([f"{remedy}: {state}. It must have the same value here as on the server."])
    resolve_secrets(settings)  # Creates the key file of the server if necessary.
    existing = existing_token_keys(settings)
    if existing is None:
        problem = f"A server with the store {settings.store_url} generates a new key at each start"
        remedy = f"set {variable_name('token_keys')} for the server and here. `openssl rand -base64 32` generates one."
        raise InvalidSettings([f"{problem}: {remedy}"])
    identity = Identity(subject, frozenset(groups), tenant)
    return mint_token(existing[0][0], identity, now=time.time(), seconds=seconds)
