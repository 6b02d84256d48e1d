"""Refuse tables that hold only data of other applications, until the operator confirms that they are to be shared."""

from collections.abc import Iterable

from graphql_api.errors import WrongTable
from graphql_api.evolution.table_record import TABLE_RECORD_KEY, read_record
from graphql_api.model import Catalog
from graphql_api.storage import Store

ADOPT_TABLE_REMEDY = (
    "Name another table. If this catalog is to share the table, confirm it once with the option --adopt-table of "
    "serve, load or table create, or with adopt_table=True in Python."
)
_MAX_NAMES = 8


async def refuse_foreign_table(store: Store, catalog: Catalog) -> None:
    """Raise WrongTable if the table knows only entities of other catalogs, or holds items that nobody recorded."""
    record = await read_record(store)
    (item,) = await store.get_many([TABLE_RECORD_KEY], consistent=True) if record is None else (None,)
    if record is not None:
        problem = foreign_table_problem([*record.entities, *record.earlier], catalog)
    elif item is not None:
        problem = foreign_table_problem(item["spaces"], catalog)
    else:
        problem = "The table holds items, but no record of ShardQL: another program wrote them, or a restore."
        problem = problem if await _has_items(store) else None
    if problem is not None:
        raise WrongTable(f"{problem} {ADOPT_TABLE_REMEDY}")


def foreign_table_problem(recorded: Iterable[str], catalog: Catalog) -> str | None:
    """Return a message if a table knows entities, and none of the catalog."""
    names = sorted(recorded)
    if not names or any(name in catalog.entities for name in names):
        return None
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    listed = f"{', '.join(names[:_MAX_NAMES])}{more}"
    return f"The table belongs to other catalogs: it knows {listed}, and no entity of this one."


async def _has_items(store: Store) -> bool:
    page = await store.scan(0, 1, None)
    while not page.items and page.after is not None:
        page = await store.scan(0, 1, page.after)
    return bool(page.items)
