"""`shardql show`: the example of the users catalog at work."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import typer
from rich.console import Console

from graphql_api.cli.exit_codes import errors_told, print_anywhere
from graphql_api.cli.page_output import print_page
from graphql_api.cli.progress_bars import sample_bar
from graphql_api.cli.sample_loading import fill
from graphql_api.database import Database
from graphql_api.examples.user_samples import beneficiary_ids, emails_of, people, person
from graphql_api.examples.users import Email, User, catalog, sample
from graphql_api.model import IndexRef
from graphql_api.opening import open_catalog
from graphql_api.ops import BATCH
from graphql_api.query.execution import Page

USER_COLUMNS = ("first_name", "last_name", "phone", "created", "user_id")
EMAIL_COLUMNS = ("email", "created", "user_id")


def show(
    *,
    store: Annotated[
        str, typer.Option(metavar="URL", help="Where the sample data is kept: it is written on the first start.")
    ] = "sqlite:///users.db",
    count: Annotated[int, typer.Option("--people", metavar="N", min=1, help="How many users the sample has.")] = 5000,
) -> None:
    """Shows the example catalog at work: searches over 17 shards, page by page, each with what it took.

    The first start fills the store with sample users and their e-mail addresses; later ones find them there.

    The catalog is in graphql_api/examples/users.py. Try more people:

    ```
    shardql show --people 100000 --store sqlite:///many.db
    ```
    """
    with errors_told():
        asyncio.run(_show(store, count))


async def _show(store: str, count: int) -> None:
    print_anywhere()
    console = Console()
    async with open_catalog(catalog, store) as db:
        if not await _is_filled(db, count):
            with sample_bar() as progress:
                written = await fill(db, _sample(count), BATCH, progress)
            console.print(f"Wrote {written.total():,} sample records to {store}.\n", highlight=False, markup=False)
        await _searches(Screen(console, db), count)


async def _is_filled(db: Database, count: int) -> bool:
    """Whether the sample is there to its last record: they are written in order."""
    last = person(count - 1, beneficiary_ids())
    *_, last_email = emails_of(last)
    return await db.get(User, last.user_id) == last and await db.get(Email, last_email.email) == last_email


async def _sample(count: int) -> AsyncIterator[User | Email]:
    for record in sample(count):
        yield record


class Screen:
    """Runs searches, and prints each page under the call that asked for it."""

    def __init__(self, console: Console, db: Database) -> None:
        self._console = console
        self._db = db

    async def search(self, words: str, index: IndexRef, **arguments: Any) -> Page[Any]:
        """Prints one page, and returns it."""
        page = await self._db.search(index, **arguments)
        given = "".join(f", {name}={_short(value)}" for name, value in arguments.items())
        title = f"{words}\nawait db.search({index.entity.__name__}.{index.attribute}{given})"
        entity = catalog.entity(index.entity)
        columns = USER_COLUMNS if index.entity is User else EMAIL_COLUMNS
        print_page(self._console, title, entity, columns, page)
        return page


async def _searches(screen: Screen, count: int) -> None:
    first = await screen.search("First names that begin with Jo", User.by_first_name, prefix="Jo", limit=8)
    if first.next_token is not None:
        await screen.search("The next page", User.by_first_name, prefix="Jo", limit=8, next_token=first.next_token)
    await screen.search("Who signed up last", User.by_created, reverse=True, limit=5)
    favourite = beneficiary_ids()[0]
    await screen.search(
        "Supporters of one beneficiary by last name, however they write it",
        User.by_beneficiary_last_name,
        beneficiary_id=favourite,
        prefix="gomez",
        limit=5,
    )
    await screen.search("Phones in Chicago", User.by_phone, prefix="1773", limit=5)
    busy = max(people(min(count, 20)), key=lambda user: sum(1 for _ in emails_of(user)))
    await screen.search("E-mail addresses of one user", Email.by_user, user_id=busy.user_id)


def _short(value: object) -> str:
    """A token is too long to read."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:24]}…{text[-1]}"
