"""`shardql show`: demonstrates searches over the users catalog."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import typer
from rich.console import Console

from graphql_api.cli.exit_codes import replace_unencodable_output, report_errors
from graphql_api.cli.page_output import print_page
from graphql_api.cli.progress_bars import sample_bar
from graphql_api.cli.sample_loading import write_samples
from graphql_api.connection import open_catalog
from graphql_api.database import Database
from graphql_api.examples.user_samples import beneficiary_ids, generate_emails, generate_user, generate_users
from graphql_api.examples.users import Email, User, catalog, sample
from graphql_api.model import IndexRef
from graphql_api.ops import DEFAULT_BATCH_SIZE
from graphql_api.query.execution import Page

USER_COLUMNS = ("first_name", "last_name", "phone", "created", "user_id")
EMAIL_COLUMNS = ("email", "created", "user_id")


def show(
    *,
    store: Annotated[
        str, typer.Option(metavar="URL", help="Store of the sample data, which the first run writes.")
    ] = "sqlite:///users.db",
    count: Annotated[int, typer.Option("--people", metavar="N", min=1, help="Number of sample users.")] = 5000,
) -> None:
    """Show the example catalog at work: searches over 17 shards, page by page, each with its explain output.

    The first run fills the store with sample users and their e-mail addresses. Later runs reuse them.

    The catalog is in graphql_api/examples/users.py. Try more people:

    ```
    shardql show --people 100000 --store sqlite:///many.db
    ```
    """
    with report_errors():
        asyncio.run(_show(store, count))


async def _show(store: str, count: int) -> None:
    replace_unencodable_output()
    console = Console()
    async with open_catalog(catalog, store) as db:
        if not await _is_filled(db, count):
            with sample_bar() as show_progress:
                written = await write_samples(db, _sample(count), DEFAULT_BATCH_SIZE, show_progress)
            console.print(f"Wrote {written.total():,} sample records to {store}.\n", highlight=False, markup=False)
        await _run_searches(SearchPrinter(console, db), count)


async def _is_filled(db: Database, count: int) -> bool:
    """Return whether the last records of the sample are stored. Records are written in order."""
    last = generate_user(count - 1, beneficiary_ids())
    *_, last_email = generate_emails(last)
    return await db.get(User, last.user_id) == last and await db.get(Email, last_email.email) == last_email


async def _sample(count: int) -> AsyncIterator[User | Email]:
    for record in sample(count):
        yield record


class SearchPrinter:
    """Runs searches, and prints each page below the call that returned it."""

    def __init__(self, console: Console, db: Database) -> None:
        self._console = console
        self._db = db

    async def search(self, title: str, index: IndexRef, **arguments: Any) -> Page[Any]:
        """Print one page, and return it."""
        page = await self._db.search(index, **arguments)
        formatted = "".join(f", {name}={_abbreviate(value)}" for name, value in arguments.items())
        call = f"await db.search({index.entity.__name__}.{index.attribute}{formatted})"
        entity = catalog.entity(index.entity)
        columns = USER_COLUMNS if index.entity is User else EMAIL_COLUMNS
        print_page(self._console, f"{title}\n{call}", entity, columns, page)
        return page


async def _run_searches(printer: SearchPrinter, count: int) -> None:
    first = await printer.search("First names that begin with Jo", User.by_first_name, prefix="Jo", limit=8)
    if first.next_token is not None:
        await printer.search("The next page", User.by_first_name, prefix="Jo", limit=8, next_token=first.next_token)
    await printer.search("Latest sign-ups", User.by_created, reverse=True, limit=5)
    favourite = beneficiary_ids()[0]
    await printer.search(
        "Supporters of one beneficiary by last name, without regard to case and accents",
        User.by_beneficiary_last_name,
        beneficiary_id=favourite,
        prefix="gomez",
        limit=5,
    )
    await printer.search("Phone numbers in Chicago", User.by_phone, prefix="1773", limit=5)
    busy = max(generate_users(min(count, 20)), key=lambda user: sum(1 for _ in generate_emails(user)))
    await printer.search("E-mail addresses of one user", Email.by_user, user_id=busy.user_id)


def _abbreviate(value: object) -> str:
    """Shorten long values, such as page tokens."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:24]}…{text[-1]}"
