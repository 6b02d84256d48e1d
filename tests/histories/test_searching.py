"""`history`: which records of histories a search gives, on every way to them, page by page."""

from collections.abc import Sequence
from typing import Any

import pytest

from graphql_api.errors import InvalidValue, TokenMismatch, UnknownArgument
from graphql_api.model.markers import IndexRef
from graphql_api.query.planner import plan_search
from graphql_api.query.search_request import SearchRequest
from tests.histories.orders import CATALOG, CURRENT, NOW, SEAL, Counted, Entry, Order, Shop, order

VERSIONS = ("v1", "v10", "v9", "z", "zebra", "~", "~curren", "~current!", "~z", "é", "🦓")
"""entries on both sides of the current record, close to it and beyond ASCII"""

Found = list[tuple[str, str]]


async def _fill(shop: Shop) -> None:
    for name in "abc":
        records = [
            order(name, version, status="even" if at % 2 == 0 else "odd", total=at, note=version)
            for at, version in enumerate(VERSIONS)
        ]
        assert await shop.db.put_many(records) == [None] * len(records)


async def _walk(shop: Shop, index: IndexRef, limit: int, **arguments: Any) -> Found:
    """All pages of a search; each but the last is full."""
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


def _wanted(pairs: Sequence[tuple[str, str]], history: str) -> Found:
    if history == "ALL":
        return [*pairs]
    return [pair for pair in pairs if (pair[1] == CURRENT) == (history == "CURRENT")]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("history", ["ALL", "PAST", "CURRENT"])
async def test_by_id(shop: Shop, history: str, reverse: bool) -> None:
    """No entry is lost for how its sub id sorts, and pages are as exact as without."""
    await _fill(shop)
    whole = [("b", version) for version in sorted([*VERSIONS, CURRENT], reverse=reverse)]
    for limit in (1, 4, 50):
        found = await _walk(shop, Order.by_id, limit, order_id="b", history=history, reverse=reverse)
        assert found == _wanted(whole, history)
    counted = await shop.db.count(Order.by_id, order_id="b", history=history)
    assert (counted.value, counted.exact) == (len(_wanted(whole, history)), True)


@pytest.mark.parametrize("history", ["ALL", "PAST", "CURRENT"])
async def test_indexes_and_unions(shop: Shop, history: str) -> None:
    """The same on an index that is sorted by the sub id, on one that is not and carries keys alone, and on a union."""
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
        found = await _walk(shop, Order.by_status, limit, status="even", history=history)
        assert found == _wanted([(name, shown) for shown, name in by_status], history)
        found = await _walk(shop, Order.by_total, limit, history=history)
        assert found == _wanted([(name, shown) for _, name, shown in by_total], history)
        found = await _walk(shop, Order.by_any, limit, prefix="v", history=history)
        assert sorted(found) == sorted(
            _wanted([(name, shown) for name, _, version, shown in records if version.startswith("v")], history)
        )
        assert len(set(found)) == len(found)


async def test_with_conditions_and_filters(shop: Shop) -> None:
    """A condition on the sub id and a filter hold beside it; where the two exclude each other nothing is found."""
    await _fill(shop)

    async def versions(history: str, **arguments: Any) -> list[str]:
        return [version for _, version in await _walk(shop, Order.by_id, 3, order_id="a", history=history, **arguments)]

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
async def test_current_records_by_key(shop: Shop, index: IndexRef, arguments: dict[str, Any]) -> None:
    """Where the sub id comes next in the order, current records are a range of keys: no entry is looked at."""
    await _fill(shop)
    page = await shop.db.search(index, **arguments, history="CURRENT")
    assert page.items
    assert page.explain["read"]["recordsRead"] == len(page.items)


async def test_nothing_is_read_where_nothing_can_be(shop: Shop) -> None:
    """Conditions that leave no room for the current record cost no read."""
    store = Counted(shop.store)
    for arguments in ({"eq": "v1"}, {"prefix": "v"}, {"to": "~cur"}, {"from_": "~d"}):
        page = await shop.through(store).search(Order.by_id, order_id="a", **arguments, history="CURRENT")
        assert not page.items
    assert store.calls == []


async def test_the_record_without_its_sub_id(shop: Shop) -> None:
    """It is the current one, by one read of its key; of a history without such records it is the last."""
    await _fill(shop)
    store = Counted(shop.store)
    found = await shop.through(store).get(Order, "a")
    assert found is not None
    assert (found.version, found.total, found.note) == (CURRENT, len(VERSIONS) - 1, VERSIONS[-1])
    assert store.calls == ["get_many"]
    await shop.db.put_many([Entry(order_id="o", part=1, at=at, line=1, total=5) for at in ("a", "b")])
    last = await shop.db.get(Entry, "o/1")
    assert last is not None
    assert (last.at, last.total) == ("b", 5)


def test_tokens_are_bound_to_it_only_where_it_says_something() -> None:
    """ALL is what a search without it is, to the last octet; the others are searches of their own."""

    def binding(**more: Any) -> tuple[bytes, str]:
        plan = plan_search(CATALOG, SearchRequest("order", "by_id", {"order_id": "a"}, **more), NOW, SEAL)
        return plan.token_binding.search_digest, plan.token_binding.description

    assert binding() == binding(history="ALL")
    assert len({binding(), binding(history="PAST"), binding(history="CURRENT")}) == 3


async def test_a_token_of_another_history(shop: Shop) -> None:
    """A token goes on with the records that it was made for, and says so."""
    await _fill(shop)
    page = await shop.db.search(Order.by_id, order_id="a", limit=2, history="PAST")
    with pytest.raises(TokenMismatch, match=CURRENT):
        await shop.db.search(Order.by_id, order_id="a", limit=2, next_token=page.next_token)
    assert (await shop.db.search(Order.by_id, order_id="a", history="PAST", after=page.next_token)).items


@pytest.mark.parametrize("history", ["current", "OLD", "", None, 1, ["PAST"]])
async def test_a_word_that_is_none(on_file: Shop, history: Any) -> None:
    """Anything but the three words is refused, with the nearest of them."""
    with pytest.raises(InvalidValue, match="history is ALL, PAST or CURRENT") as refused:
        await on_file.db.search(Order.by_id, order_id="a", history=history)
    assert refused.value.argument == "history"


async def test_histories_that_keep_no_current_records(on_file: Shop) -> None:
    """There is nothing to choose from, so only ALL is taken."""
    assert not (await on_file.db.search(Entry.by_id, order_id="o", part=1, history="ALL")).items
    for history in ("PAST", "CURRENT"):
        with pytest.raises(UnknownArgument, match="Entry keeps no current records"):
            await on_file.db.search(Entry.by_id, order_id="o", part=1, history=history)
        with pytest.raises(UnknownArgument, match="omit it"):
            await on_file.db.count(Entry.by_id, order_id="o", part=1, history=history)
