"""Arguments and options that several commands share."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer

from graphql_api.errors import InvalidSettings
from graphql_api.storage.engines import describe_store_urls

_ADDRESS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

STORE_URLS = describe_store_urls(short=True)


def option(metavar: str, help_text: str, *names: str, **settings: Any) -> Any:
    """Return an option with a value. By default it has the name of its parameter."""
    return typer.Option(*names, metavar=metavar, help=help_text, **settings)


CatalogAddress = Annotated[
    str, typer.Argument(metavar="MODULE:CATALOG", help="The catalog, for example graphql_api.examples.users:catalog.")
]
ENTITY_ARGUMENT = typer.Argument(metavar="ENTITY", help="Entity of the records, for example User.")
JsonOutput = Annotated[bool, typer.Option("--json", help="Print JSON.")]
StoreUrl = Annotated[
    str, option("URL", "Store: dynamodb://users?region=eu-west-1, sqlite:///relative.db or sqlite:////absolute.db.")
]
Tenant = Annotated[str | None, option("NAME", "Tenant of the records. By default none.")]
LookupStoreUrl = Annotated[
    str | None, option("URL", "Store that keeps the mapping items of the lookups, by default the store itself.")
]
AdoptTable = Annotated[
    bool | None, typer.Option("--adopt-table", help="Share a table that only other catalogs have used so far.")
]


def with_names(remedy: str, address: str, url: str) -> str:
    """Put the catalog and the store of a command into a remedy, in place of MODULE:CATALOG and URL."""
    named = remedy.replace("MODULE:CATALOG", address).replace("MODULE:GRAPH", address)
    return named.replace("--store URL", f'--store "{url}"')


def with_names_of(words: Sequence[str], remedy: str) -> str:
    """Put the catalog and the store among the words of a command line into a remedy, as far as they are given."""
    address = next((word for word in words if _ADDRESS.fullmatch(word)), "MODULE:CATALOG")
    stores = [word.removeprefix("--store=") for word in words if word.startswith("--store=")]
    stores += [value for name, value in pairwise(words) if name == "--store"]
    return with_names(remedy, address, stores[0]) if stores else remedy.replace("MODULE:CATALOG", address)


def served_store() -> str:
    """Return the store that `shardql serve` uses by default, and print it."""
    from graphql_api.server import read_settings, variable_name  # noqa: PLC0415 - slow import

    settings = read_settings()
    if settings.production and settings.store is None:
        raise InvalidSettings([f"Production needs a store: pass --store or set {variable_name('store')}."])
    typer.echo(f"Store: {settings.store_url}", err=True)
    return settings.store_url
