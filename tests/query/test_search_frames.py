"""Frames of searches: what is planned once gives the plans that planning from the beginning gives."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api import Catalog
from graphql_api.errors import InvalidLimit, ShardQLError
from graphql_api.examples.users import catalog
from graphql_api.query.page_token import Cursor, pack
from graphql_api.query.planner import MAX_KNOWN_SCANS, SearchFrame, plan_search
from graphql_api.query.search_plan import SearchPlan
from graphql_api.query.search_request import SearchRequest
from graphql_api.query.token_seal import TokenSeal

SEAL = TokenSeal([b"s" * 32])
NOW = 1_800_000_000.0
KEPT = catalog.with_entities(catalog.entities)
"""a catalog whose frames are kept over all examples"""
values = st.sampled_from(["a", "", "b\0", 1, True, 1_700_000_000, 1.0, None])
arguments = st.dictionaries(st.sampled_from(["eq", "prefix", "from_", "to", "beneficiary_id", "nothing"]), values)
fields: Any = st.fixed_dictionaries(
    {
        "entity": st.just("user"),
        "index": st.sampled_from(["by_created", "by_first_name", "by_name", "by_beneficiary_created", "by_id"]),
        "arguments": arguments,
    },
    optional={
        "limit": st.sampled_from([1, 20, True, 1.0, 0]),
        "first": st.just(5),
        "reverse": st.sampled_from([True, False, 1]),
        "tenant": st.sampled_from(["t", "u"]),
        "filter": st.sampled_from([{"phone": {"exists": True}}, {"phone": {"eq": "1"}}]),
        "select": st.sampled_from([("user_id",), frozenset({"created"}), ["phone"]]),
        "on_shard_failure": st.sampled_from(["PARTIAL", "SOMETIMES"]),
        "read_budget": st.sampled_from([1, 10_000, 10_000.0]),
    },
)
requests = fields.map(lambda drawn: SearchRequest(**drawn))


def planned(of: Catalog, request: SearchRequest) -> Any:
    """Return the parts of the plan of a search, or its error."""
    try:
        plan = plan_search(of, request, NOW, SEAL)
    except ShardQLError as problem:
        return type(problem), problem.message
    scans = [(one.conditions, one.read, one.hash_keys, one.fetches_records, one.filters_records) for one in plan.scans]
    return plan.describe(), plan.token, plan.limit, plan.resumed, plan.traversal, scans


def following(plan: SearchPlan) -> SearchRequest:
    """Return the request of a page after the first."""
    here = plan.token._replace(cursor=Cursor(0, "created#00000000000000000001\x01|userId#u", 1))
    return replace(plan.request, next_token=SEAL.seal(pack(here), plan.request.tenant, plan.request.principal))


@given(request=requests)
def test_kept_frames_give_the_same_plans(request: SearchRequest) -> None:
    """A search has the plan, or the error, that it has in a catalog of which nothing was planned before."""
    fresh = catalog.with_entities(catalog.entities)
    expected = planned(fresh, request)
    assert [planned(KEPT, request) for _ in range(2)] == [expected] * 2
    if len(expected) > 2 and request.first is None:
        later = following(plan_search(fresh, request, NOW, SEAL))
        expected = planned(catalog.with_entities(catalog.entities), later)
        assert [planned(KEPT, later) for _ in range(2)] == [expected] * 2


def test_equal_values_of_other_types_share_no_frame() -> None:
    """A limit that is True is refused, although a search with the limit 1 was planned before."""
    plan_search(KEPT, SearchRequest("user", "by_created", limit=1), NOW, SEAL)
    with pytest.raises(InvalidLimit):
        plan_search(KEPT, SearchRequest("user", "by_created", limit=True), NOW, SEAL)


def test_known_scans_are_bounded() -> None:
    """A frame keeps the scans of a bounded number of searches."""
    plan = plan_search(KEPT, SearchRequest("user", "by_created", {"from_": 0}), NOW, SEAL)
    frame = SearchFrame.of(KEPT, following(plan))
    for start in range(2 * MAX_KNOWN_SCANS):
        request = SearchRequest("user", "by_created", {"from_": start})
        frame.plan(following(plan_search(KEPT, request, NOW, SEAL)), NOW, SEAL)
    assert len(frame.known_scans) <= MAX_KNOWN_SCANS


def test_tenants_share_frames_and_no_hash_keys() -> None:
    """The same search of another tenant reads the hash keys of that tenant, also after the first page."""
    for tenant in ("t", "u", "t"):
        plan = plan_search(KEPT, SearchRequest("user", "by_created", tenant=tenant), NOW, SEAL)
        for one in (plan, plan_search(KEPT, following(plan), NOW, SEAL)):
            assert {key.partition("|")[0] for key in one.scans[0].hash_keys.values()} == {tenant}
