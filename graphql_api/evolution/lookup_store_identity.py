"""The identity of a store that keeps the mapping items of lookups: the table's record names it.

So a server that opens the table without this store, or with another one, is refused instead of finding less.
"""

from secrets import token_hex

from graphql_api.errors import ConditionFailed, WrongTable
from graphql_api.evolution.table_record import TABLE_RECORD_KEY
from graphql_api.storage import Expect, Key, Put, Store, TableDefinition
from graphql_api.writes import item_at

IDENTITY_KEY = Key("shardql!", "lookups#identity")
_IDENTITY = "identity"


async def prepare_lookup_store(
    store: Store, definition: TableDefinition, *, creates: bool, read_only: bool = False
) -> str:
    """Return the identity of a lookup store. A new one gets an identity. `creates`: create a missing table."""
    if creates:
        await store.ensure_table(definition)
    elif await store.describe() is None:
        raise WrongTable(
            "The lookup store has no table. Create it with: shardql table create MODULE:CATALOG --store URL "
            "--lookup-store URL"
        )
    found = await _read_identity(store)
    if found is None and read_only:
        raise WrongTable("No server has used the lookup store yet: open it once without the read-only mode.")
    if found is None:
        item = item_at(IDENTITY_KEY, {_IDENTITY: token_hex(8)})
        (problem,) = await store.write([Put(item, Expect(absent=True))])
        if problem is not None and not isinstance(problem, ConditionFailed):
            raise problem
        found = await _read_identity(store)
    assert found is not None, "the identity was just written"
    return found


async def _read_identity(store: Store) -> str | None:
    table_record, item = await store.get_many([TABLE_RECORD_KEY, IDENTITY_KEY], consistent=True)
    if table_record is not None:
        raise WrongTable(
            "The lookup store is the table of a catalog, and must be a table of its own: name another one with "
            "--lookup-store."
        )
    return None if item is None else str(item[_IDENTITY])
