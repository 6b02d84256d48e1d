"""The `history` argument selects current records, past entries or both, in every kind of search."""

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from graphql_api.errors import InvalidValue, TokenMismatch, UnknownArgument
from graphql_api.model.markers import IndexRef
from graphql_api.query.planner import plan_search
from graphql_api.query.search_request import SearchRequest
from tests.writes.histories.order_history import (
    CATALOG,
    CURRENT,
    NOW,
    SEAL,
    CallRecordingStore,
    Entry,
    Order,
    Shop,
    order,
)

VERSIONS = ("v1", "v10", "v9", "z", "zebra", "~", "~curren", "~current!", "~z", "é", "🦓")
"""entries before and after the current record, similar to it, and outside of ASCII"""

Found = list[tuple[str, str]]


async def _fill(shop: Shop) -> None:
    for name in "abc":
        records = [
            order(name, version, status="even" if at % 2 == 0 else "odd", total=at, note=version)
            for at, version in enumerate(VERSIONS)
        ]
        assert await shop.db.put_many(records) == [None] * len(records)


async def _read_all_pages(shop: Shop, index: IndexRef, limit: int, **arguments: Any) -> Found:
    """Returns the records of all pages. All pages except the last are full."""
    found: list[Order] = []
    token = None
    while True:
        page = await shop.db.search(index, limit=limit, next_token=token, **arguments)
        found += page.items
        token = page.next_token
        if token is None:
            assert len(page.items) <= limit
            return [(each.order_id, each.version) for each in found]
        assert len(page.items) == limit


def _select(pairs: Sequence[tuple[str, str]], history: str) -> Found:
    if history == "ALL":
        return [*pairs]
    return [pair for pair in pairs if (pair[1] == CURRENT) == (history == "CURRENT")]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("history", ["ALL", "PAST", "CURRENT"])
async def test_by_id(shop: Shop, history: Literal["ALL", "PAST", "CURRENT"], reverse: bool) -> None:
    """A search by id returns exactly the selected records, on full pages and in both directions."""
    await _fill(shop)
    expected = [("b", version) for version in sorted([*VERSIONS, CURRENT], reverse=reverse)]
    for limit in (1, 4, 50):
        found = await _read_all_pages(shop, Order.by_id, limit, order_id="b", history=history, reverse=reverse)
        assert found == _select(expected, history)
    counted = await shop.db.count(Order.by_id, order_id="b", history=history)
    assert (counted.value, counted.exact) == (len(_select(expected, history)), True)


@pytest.mark.parametrize("history", ["ALL", "PAST", "CURRENT"])
async def test_indexes_and_unions(shop: Shop, history: str) -> None:
    """The same holds for indexes sorted by the sub id or otherwise, for keys-only indexes, and for unions."""
    await _fill(shop)
    records = [
        (name, at, version, CURRENT if last else version)
        for name in "abc"
        for at, version in enumerate(VERSIONS)
        for last in ([False, True] if at == len(VERSIONS) - 1 else [False])
    ]
    by_status = sorted((shown, name) for name, at, _, shown in records if at % 2 == 0)
    by_total = sorted((at, name, shown) for name, at, _, shown in records)
    for limit in (5, 50):
        found = await _read_all_pages(shop, Order.by_status, limit, status="even", history=history)
        assert found == _select([(name, shown) for shown, name in by_status], history)
        found = await _read_all_pages(shop, Order.by_total, limit, history=history)
        assert found == _select([(name, shown) for _, name, shown in by_total], history)
        found = await _read_all_pages(shop, Order.by_any, limit, prefix="v", history=history)
        assert sorted(found) == sorted(
            _select([(name, shown) for name, _, version, shown in records if version.startswith("v")], history)
        )
        assert len(set(found)) == len(found)


async def test_with_conditions_and_filters(shop: Shop) -> None:
    """`history` combines with conditions on the sub id and with filters. Contradictions return nothing."""
    await _fill(shop)

    async def versions(history: str, **arguments: Any) -> list[str]:
        return [
            version
            for _, version in await _read_all_pages(shop, Order.by_id, 3, order_id="a", history=history, **arguments)
        ]

    assert await versions("PAST", from_="z", to="~z") == ["z", "zebra", "~", "~curren", "~current!", "~z"]
    assert await versions("PAST", prefix="~c") == ["~curren", "~current!"]
    assert await versions("PAST", eq=CURRENT) == []
    assert await versions("CURRENT", eq=CURRENT) == await versions("CURRENT", from_="v") == [CURRENT]
    assert await versions("CURRENT", prefix="~") == [CURRENT]
    assert await versions("CURRENT", prefix="v") == await versions("CURRENT", to="z") == []
    assert await versions("CURRENT", eq="v1") == []
    assert await versions("PAST", filter={"total": {"ge": 8}}) == ["~z", "é", "🦓"]
    assert await versions("CURRENT", filter={"version": {"prefix": "v"}}) == []
    assert await versions("ALL", filter={"version": {"ne": CURRENT}}) == sorted(VERSIONS)


@pytest.mark.parametrize(
    ("index", "arguments"),
    [
        (Order.by_id, {"order_id": "a"}),
        (Order.by_id, {"order_id": "a", "from_": "v"}),
        (Order.by_status, {"status": "even"}),
        (Order.by_words, {"note": "🦓"}),
    ],
)
async def test_current_records_are_a_key_range(shop: Shop, index: IndexRef, arguments: dict[str, Any]) -> None:
    """If the sub id is next in the sort order, current records are a key range, and no entry is read."""
    await _fill(shop)
    page = await shop.db.search(index, **arguments, history="CURRENT")
    assert page.items
    assert page.explain["read"]["recordsRead"] == len(page.items)


async def test_excluded_current_records_cause_no_read(shop: Shop) -> None:
    """A condition that excludes the current record causes no read."""
    store = CallRecordingStore(shop.store)
    conditions: list[dict[str, Any]] = [{"eq": "v1"}, {"prefix": "v"}, {"to": "~cur"}, {"from_": "~d"}]
    for arguments in conditions:
        page = await shop.through(store).search(Order.by_id, order_id="a", **arguments, history="CURRENT")
        assert not page.items
    assert store.calls == []


async def test_read_without_sub_id(shop: Shop) -> None:
    """A read without sub id returns the current record in one call, or the last entry of other histories."""
    await _fill(shop)
    store = CallRecordingStore(shop.store)
    found = await shop.through(store).get(Order, "a")
    assert found is not None
    assert (found.version, found.total, found.note) == (CURRENT, len(VERSIONS) - 1, VERSIONS[-1])
    assert store.calls == ["get_many"]
    await shop.db.put_many([Entry(order_id="o", part=1, at=at, line=1, total=5) for at in ("a", "b")])
    last = await shop.db.get(Entry, "o/1")
    assert last is not None
    assert (last.at, last.total) == ("b", 5)


def test_token_binding_of_history() -> None:
    """The digest of a search with `ALL` equals that of a search without `history`. `PAST` and `CURRENT` differ."""

    def binding(**more: Any) -> tuple[bytes, str]:
        plan = plan_search(CATALOG, SearchRequest("order", "by_id", {"order_id": "a"}, **more), NOW, SEAL)
        return plan.token.search_digest, plan.token.description

    assert binding() == binding(history="ALL")
    assert len({binding(), binding(history="PAST"), binding(history="CURRENT")}) == 3


async def test_a_token_of_another_history_is_refused(shop: Shop) -> None:
    """A token is bound to the `history` of its search."""
    await _fill(shop)
    page = await shop.db.search(Order.by_id, order_id="a", limit=2, history="PAST")
    with pytest.raises(TokenMismatch, match=CURRENT):
        await shop.db.search(Order.by_id, order_id="a", limit=2, next_token=page.next_token)
    assert (await shop.db.search(Order.by_id, order_id="a", history="PAST", after=page.next_token)).items


@pytest.mark.parametrize("history", ["current", "OLD", "", None, 1, ["PAST"]])
async def test_invalid_history_values_are_refused(sqlite_shop: Shop, history: Any) -> None:
    """Any other value is refused with the valid ones."""
    with pytest.raises(InvalidValue, match="history is ALL, PAST or CURRENT") as refused:
        await sqlite_shop.db.search(Order.by_id, order_id="a", history=history)
    assert refused.value.argument == "history"


async def test_histories_without_current_records(sqlite_shop: Shop) -> None:
    """Histories without current records accept `ALL` only."""
    assert not (await sqlite_shop.db.search(Entry.by_id, order_id="o", part=1, history="ALL")).items
    for history in ("PAST", "CURRENT"):
        with pytest.raises(UnknownArgument, match="Entry keeps no current records"):
            await sqlite_shop.db.search(Entry.by_id, order_id="o", part=1, history=history)
        with pytest.raises(UnknownArgument, match="omit it"):
            await sqlite_shop.db.count(Entry.by_id, order_id="o", part=1, history=history)
