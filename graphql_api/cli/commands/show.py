"""`shardql show`: demonstrates searches over the users catalog."""

import asyncio
from typing import Annotated, Any

from rich.console import Console

from graphql_api.cli.common_options import option
from graphql_api.cli.sample_data import sample_records, write_samples
from graphql_api.cli.terminal_output import print_page, record_bar, replace_unencodable_output
from graphql_api.connection import open_catalog
from graphql_api.examples.users import (
    Email,
    User,
    beneficiary_ids,
    catalog,
    generate_emails,
    generate_user,
    generate_users,
)
from graphql_api.model import IndexRef
from graphql_api.ops import DEFAULT_BATCH_SIZE
from graphql_api.query.execution import Page

USERS = "graphql_api.examples.users:catalog"
USER_COLUMNS = ("first_name", "last_name", "phone", "created", "user_id")
EMAIL_COLUMNS = ("email", "created", "user_id")


def show(
    *,
    store: Annotated[
        str, option("URL", "Store of the sample data, which the first run writes.")
    ] = "sqlite:///users.db",
    count: Annotated[int, option("N", "Number of sample users.", "--people", min=1)] = 5000,
) -> None:
    """Show the example catalog at work: searches over 17 shards, page by page, each with its explain output.

    The first run fills the store with sample users and their e-mail addresses. Later runs reuse them.

    The catalog is in graphql_api/examples/users.py. Try more people:

    ```
    shardql show --people 100000 --store sqlite:///many.db
    ```
    """
    asyncio.run(_show(store, count))


async def _show(store: str, count: int) -> None:
    replace_unencodable_output()
    console = Console()
    async with open_catalog(catalog, store) as db:
        # Sample records are written in order: if the last ones are stored unchanged, all are.
        last = generate_user(count - 1, beneficiary_ids())
        *_, last_email = generate_emails(last)
        if await db.get(User, last.user_id) != last or await db.get(Email, last_email.email) != last_email:
            with record_bar("sample data") as show_progress:
                written = await write_samples(db, sample_records(USERS, count), DEFAULT_BATCH_SIZE, show_progress)
            console.print(f"Wrote {written.total():,} sample records to {store}.\n", highlight=False, markup=False)

        async def search(title: str, index: IndexRef, **arguments: Any) -> Page[Any]:
            """Print the page below the call that returned it."""
            page = await db.search(index, **arguments)
            formatted = "".join(f", {name}={_abbreviate(value)}" for name, value in arguments.items())
            call = f"await db.search({index.entity.__name__}.{index.attribute}{formatted})"
            columns = USER_COLUMNS if index.entity is User else EMAIL_COLUMNS
            print_page(console, f"{title}\n{call}", catalog.entity(index.entity), columns, page)
            return page

        first = await search("First names that begin with Jo", User.by_first_name, prefix="Jo", limit=8)
        if first.next_token is not None:
            await search("The next page", User.by_first_name, prefix="Jo", limit=8, next_token=first.next_token)
        await search("Latest sign-ups", User.by_created, reverse=True, limit=5)
        await search(
            "Supporters of one beneficiary by last name, without regard to case and accents",
            User.by_beneficiary_last_name,
            beneficiary_id=beneficiary_ids()[0],
            prefix="gomez",
            limit=5,
        )
        await search("Phone numbers in Chicago", User.by_phone, prefix="1773", limit=5)
        busy = max(generate_users(min(count, 20)), key=lambda user: sum(1 for _ in generate_emails(user)))
        await search("E-mail addresses of one user", Email.by_user, user_id=busy.user_id)


def _abbreviate(value: object) -> str:
    """Shorten long values, such as page tokens."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:24]}…{text[-1]}"
