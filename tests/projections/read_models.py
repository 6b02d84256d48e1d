"""Reads what projections have left in a table, to compare it with the plain fold of the events."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from graphql_api.codecs import hash_key_parts
from graphql_api.database import Database
from graphql_api.model import decode_record
from graphql_api.projections import DeadLetter, DeadLetters
from tests.projections.account_projections import CATALOG, GRAPH, Account, Statement
from tests.projections.event_histories import Delivery, Expected
from tests.support.store_doubles import all_items

BANK = GRAPH.sources["bank"]


async def chunks_of(lines: Iterable[bytes], size: int = 50) -> AsyncIterator[Sequence[bytes]]:
    """Lines in chunks, as a file yields them."""
    waiting = [*lines]
    while waiting:
        yield waiting[:size]
        del waiting[:size]


async def letters_of(database: Database) -> list[DeadLetter]:
    """All dead letters of the source `bank`."""
    return await DeadLetters(database, BANK).all()


async def read_model(database: Database) -> Expected:
    """What the table holds, in the form of the fold."""
    found = Expected()
    for item in await all_items(database.store):
        parts = hash_key_parts(item["hashKey"])
        assert parts is not None
        if parts.kind or parts.entity == "shardql":
            continue
        record = decode_record(CATALOG.entities[parts.entity], item)
        if isinstance(record, Account):
            found.accounts[record.account_id] = record.owner, record.balance, record.version, record.iban
        elif isinstance(record, Statement):
            found.statements.setdefault(record.account_id, {})[record.at] = record.owner, record.balance
    for letter in await letters_of(database):
        if letter.projection is None:
            found.unreadable += 1
        else:
            found.dead[letter.projection].add((letter.stream, letter.seq))
    return found


def differing(found: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What differs, by key, with what was found and what was expected: of many records, a message shows only these."""
    keys = sorted(found.keys() | expected.keys())
    return {key: (found.get(key), expected.get(key)) for key in keys if found.get(key) != expected.get(key)}


async def check_read_model(database: Database, delivery: Delivery) -> None:
    """The table holds the plain fold of the events, and exactly the dead letters of those that cannot be applied."""
    found, expected = await read_model(database), delivery.expected
    assert differing(found.accounts, expected.accounts) == {}
    statements = {
        id: {**entries, "~current": entries[max(entries)]} for id, entries in expected.statements.items() if entries
    }
    assert differing(found.statements, statements) == {}
    assert found.dead == expected.dead
    assert found.unreadable == expected.unreadable
