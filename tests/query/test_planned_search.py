"""Pages of a recent search are planned from it, and have the plans that they have alone."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from graphql_api import Catalog, Created, Entity, Id, Index, Int32, Shards, Timestamp, Union
from graphql_api.errors import ExpiredToken, ShardQLError, TokenMismatch
from graphql_api.query import SearchFrame, SearchRequest, TokenSeal, plan_search
from graphql_api.query.page_token import Cursor, pack
from graphql_api.query.planned_search import MAX_RECENT_SEARCHES, recent_searches, search_identity
from tests.support.run_depth import depth

NOW = 1_800_000_000.0
SEAL = TokenSeal([b"a secret of thirty-two bytes only"])


class Stop(Entity, shards=Shards(1).then(5, since=1_000)):
    """A stop of a line."""

    stop_id: Id[str]
    created: Created[Timestamp]
    line: str
    rank: Int32 | None = None
    open: bool = True

    by_created = Index(sort="created")
    by_line = Index(hash="line", sort="rank")
    by_rank = Index(sort=["rank", "created"])
    by_opened = Index(sort=["rank", "line"])
    by_any = Union("by_rank", "by_opened")


CATALOG = Catalog(Stop)


def requests(random: Random) -> Iterator[SearchRequest]:
    """Yield requests of few searches, in different forms, of which some are invalid."""
    values: list[Any] = [1, True, "1", 1.0, None, 7, "é"]
    while True:
        arguments: dict[str, Any] = random.choice(
            [
                {},
                {"line": random.choice(["a", "b", 1])},
                {"line": "a", "eq": random.choice(values)},
                {"from_": random.choice(values)},
                {"from_": 5, "to": random.choice([4, 5, 9])},
                {"from_": 5, "filter": 1},
            ]
        )
        options: dict[str, Any] = {
            "limit": random.choice([None, 3, True, 0]),
            "reverse": random.choice([None, True, False, 1]),
            "principal": random.choice([None, "p"]),
            "filter": random.choice([None, None, {"open": {"eq": True}}]),
            "select": random.choice([None, None, ["line"]]),
            "consistent": random.choice([False, True]),
            "on_shard_failure": random.choice(["FAIL", "PARTIAL", "NONE", []]),
        }
        if random.random() < 0.2:
            options |= {"limit": None, "last": 3}
        yield SearchRequest("stop", random.choice(["by_created", "by_line", "by_rank", "by_any"]), arguments, **options)


def outcome(plan: Any) -> Any:
    """Return a plan, or its error."""
    try:
        return plan()
    except ShardQLError as problem:
        return type(problem), problem.message


def test_pages_are_planned_as_alone(random: Random) -> None:
    """Whatever was planned before, the plan of a page is equal to that of a search that was never planned."""
    planned, shared = 0, 0
    for number, first in zip(range(depth(quick=300, deep=20_000)), requests(random), strict=False):
        pages = [first]
        plan = outcome(lambda first=first: plan_search(CATALOG, first, NOW, SEAL))
        if not isinstance(plan, tuple):
            cursor = Cursor(0, "rank#00009223372036854775813", 0)
            token = SEAL.seal(pack(replace(plan.token, cursor=cursor)), first.tenant, first.principal)
            pages += [
                replace(first, limit=first.limit, next_token=token),
                replace(first, limit=5, next_token=token[:-2]),
            ]
            planned += 1
        for request in pages:
            now = NOW + random.choice([0, number, 3_600, 90_000])
            alone = outcome(lambda request=request, now=now: SearchFrame.of(CATALOG, request, now, SEAL).plan(request))
            assert outcome(lambda request=request, now=now: plan_search(CATALOG, request, now, SEAL)) == alone, request
            shared += search_identity(request) is not None
    assert planned
    assert shared


def test_pages_of_one_search_share_their_scans() -> None:
    """The pages of a search are planned once, but have their own token, position and time."""
    first = SearchRequest("stop", "by_created", {"from_": 5}, limit=3)
    plan = plan_search(CATALOG, first, NOW, SEAL)
    resumed = replace(first, next_token=SEAL.seal(pack(plan.token), None, None))
    pages = [plan_search(CATALOG, resumed, NOW + hours * 3_600, SEAL) for hours in (0, 1)]
    assert pages[0].scans is pages[1].scans
    assert [page.token.issued_hour - plan.token.issued_hour for page in pages] == [0, 1]
    with pytest.raises(ExpiredToken):
        plan_search(CATALOG, resumed, NOW + 26 * 3_600, SEAL)
    with pytest.raises(TokenMismatch, match='made for created from "5", and is used with created from "6"'):
        plan_search(CATALOG, replace(resumed, arguments={"from_": 6}), NOW, SEAL)


def test_mutable_arguments_are_not_kept() -> None:
    """A search is recognised only if nothing in it can change, and few are kept for each catalog."""
    values: list[str] = ["a"]
    request = SearchRequest("stop", "by_line", {"line_in": values})
    assert search_identity(request) is None
    assert search_identity(SearchRequest("stop", "by_line", {"line": "a"}, filter={})) is None
    assert search_identity(SearchRequest("stop", "by_line", {"line": "a"}, history=[])) is None  # type: ignore[arg-type]
    one, two = (SearchRequest("stop", "by_rank", {"eq": value}) for value in (1, True))
    assert search_identity(one) != search_identity(two)
    catalog = Catalog(Stop)
    for number in range(3 * MAX_RECENT_SEARCHES):
        plan_search(catalog, SearchRequest("stop", "by_rank", {"eq": number}), NOW, SEAL)
        assert len(recent_searches(catalog)) <= MAX_RECENT_SEARCHES
