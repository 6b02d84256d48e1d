"""The example catalog `issues`: its layout, and the issues of its sample."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import pytest

from graphql_api import Entity, open_catalog
from graphql_api.codecs.key_ranges import decode_tuple
from graphql_api.errors import ForeignKeyBroken, ImmutableChanged, InvalidValue, NotUnique
from graphql_api.examples.issue_samples import (
    ACME,
    BRIDGE,
    DAILY_NEWS,
    FIXED_ISSUES,
    FIXED_RECORDS,
    GRID_VIEW,
    generate_issue,
    generate_issues,
    generate_projects,
)
from graphql_api.examples.issues import Issue, IssueState, Project, Tenant, catalog, sample
from graphql_api.ops.design_advice import find_advice
from graphql_api.storage.values import AttributeValue
from graphql_api.writes.item_keys import to_item
from tests.depth import depth
from tests.unit.pinned import digest_of

E = TypeVar("E", bound=Entity)

RECORDS = [*sample(300)]


def all_of(kind: type[E]) -> list[E]:
    """The records of an entity, in the order of the sample."""
    return [record for record in RECORDS if isinstance(record, kind)]


def stored(record: Entity) -> Mapping[str, AttributeValue]:
    """A record as the table would hold it."""
    return to_item(catalog.entity(type(record)), record, None, "a write")


# --- the catalog -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [spec.type_name for spec in catalog.entities.values()])
def test_everything_is_described(name: str) -> None:
    """Each entity has a description, and so has each of its properties and joins."""
    spec = catalog.entity(name)
    assert spec.description
    assert [part.name for part in spec.properties.values() if not part.description] == []
    assert [name for name, join in spec.model.__declaration__.joins.items() if not join.description] == []


def test_issues_have_the_columns_of_the_document() -> None:
    """The three entities have the document's columns and no others."""
    columns = {spec.type_name: [*spec.properties] for spec in catalog.entities.values()}
    assert columns == {
        "Tenant": ["tenant_id", "name"],
        "Project": ["project_id", "name", "tenant_id"],
        "Issue": ["issue_id", "name", "project_id", "num", "state"],
    }


def test_issues_of_a_project_lie_under_one_hash_key() -> None:
    """An index holds the issues of a project in one shard and those of another project in another; records spread."""
    places = defaultdict(set)
    for one in all_of(Issue):
        places[one.project_id].add(stored(one)["issueProjectUnshardedHashKey"])
    assert {project_id: {f"issue!|projectId#{project_id}"} for project_id in places} == places
    assert len(places) == len(all_of(Project))
    assert {stored(one)["hashKey"] for one in all_of(Issue)} == {f"issue!0{digit}" for digit in "0123456789abcdef"}


def test_issues_sort_as_their_values() -> None:
    """Keys hold state, number and id in this order: open before closed, the greatest number first, then by id."""
    index = catalog.index(Issue.by_state_num)
    mine = [one for one in all_of(Issue) if one.project_id == GRID_VIEW.project_id]
    keys = sorted(str(stored(one)["issueStateNumRangeKey"]) for one in mine)
    found = [decode_tuple(index.columns, key) for key in keys]
    assert found == sorted(
        ((one.state, one.num, one.issue_id) for one in mine), key=lambda one: (one[0] is IssueState.closed, -one[1])
    )


async def test_what_must_hold_of_issues(tmp_path: Path) -> None:
    """Numbers go on in their project, which exists as long as its issues; an issue keeps its project and its number."""
    async with open_catalog(catalog, f"sqlite:///{tmp_path}/issues.db") as db:
        for record in FIXED_RECORDS:
            await db.put(record)
        made = await db.create(Issue, name="Rivets are loose", project_id=BRIDGE.project_id)
        other = await db.create(Issue, name="Print the first page", project_id=DAILY_NEWS.project_id)
        assert (made.num, other.num, made.state) == (4, 3, IssueState.open)
        assert made.issue_id.version == 4
        with pytest.raises(InvalidValue, match="num is assigned by a counter"):
            await db.create(Issue, name="First", project_id=BRIDGE.project_id, num=1)
        with pytest.raises(NotUnique):
            await db.put(made.model_copy(update={"issue_id": uuid4()}))
        with pytest.raises(ForeignKeyBroken):
            await db.create(Issue, name="Nowhere", project_id=uuid4())
        for change in ({"num": 9}, {"project_id": DAILY_NEWS.project_id}):
            with pytest.raises(ImmutableChanged):
                await db.update(Issue, made.issue_id, **change)
        with pytest.raises(ForeignKeyBroken):
            await db.delete(Project, BRIDGE.project_id)
        with pytest.raises(ForeignKeyBroken):
            await db.delete(Tenant, ACME.tenant_id)
        for issue_id in [made.issue_id, *(one.issue_id for one in FIXED_ISSUES)]:
            await db.delete(Issue, issue_id)
        await db.delete(Project, BRIDGE.project_id)
        await db.delete(Tenant, ACME.tenant_id)
        assert await db.get(Tenant, ACME.tenant_id) is None


def test_nothing_stands_out() -> None:
    """The catalog and its sample are such that there is no advice to give."""
    records: dict[str, list[Entity]] = defaultdict(list)
    for record in RECORDS:
        records[catalog.entity(type(record)).name].append(record)
    assert [str(one) for one in find_advice(catalog, records)] == []


# --- the sample ------------------------------------------------------------------------------------------------


def test_sample_is_pinned() -> None:
    """The sample is the same on every platform and in every Python."""
    assert digest_of(sample(100)) == PINNED_SAMPLE


def test_longer_sample_begins_with_the_shorter() -> None:
    """A longer sample has the records of the shorter one first; another seed has other issues beside the first ones."""
    shorter = [*sample(40)]
    assert RECORDS[: len(shorter)] == shorter
    assert len(RECORDS) == len(shorter) + 260
    one, other = (
        {repr(record) for record in generate_projects(40, seed) if isinstance(record, Issue)} for seed in (1, 2)
    )
    assert one & other == {repr(record) for record in FIXED_RECORDS if isinstance(record, Issue)}


def test_sample_begins_with_the_rows_of_the_document() -> None:
    """The document's rows stand first; nothing behind them belongs to their tenants and projects."""
    assert RECORDS[: len(FIXED_RECORDS)] == [*FIXED_RECORDS]
    written = [record for record in FIXED_RECORDS if isinstance(record, Issue)]
    assert [
        (str(one.issue_id)[:4], one.name, str(one.project_id)[:4], one.num, one.state.value) for one in written
    ] == [
        ("020e", "Needs Painting", "35e9", 1, "open"),
        ("3544", "Launch new newspaper!", "7b7e", 1, "closed"),
        ("67d1", "Check for rust", "35e9", 2, "closed"),
        ("83a4", "Hire reporter for showbiz desk", "7b7e", 2, "open"),
        ("af34", "Girder needs replacing", "35e9", 3, "open"),
    ]
    later = RECORDS[len(FIXED_RECORDS) :]
    theirs = {record.tenant_id for record in FIXED_RECORDS if isinstance(record, Tenant)}
    assert not theirs & {record.tenant_id for record in later if isinstance(record, Project)}
    assert not {one.project_id for one in written} & {one.project_id for one in later if isinstance(one, Issue)}


def test_whatever_is_referred_to_is_there() -> None:
    """Each issue has its project, each project its tenant, and either has stood before it."""
    known = set()
    for record in RECORDS:
        if isinstance(record, Project):
            assert record.tenant_id in known
        if isinstance(record, Issue):
            assert record.project_id in known
        known.add(getattr(record, catalog.entity(type(record)).ids[0].name))
    assert len(known) == len(RECORDS)


def test_every_project_has_issues() -> None:
    """The small projects have some issues each, the large one as many as were asked for."""
    counted = Counter(one.project_id for one in all_of(Issue))
    assert counted.pop(GRID_VIEW.project_id) == 300
    assert {project.project_id for project in all_of(Project)} == {*counted, GRID_VIEW.project_id}
    assert all(1 <= count <= 12 for count in counted.values())


def test_numbers_count_from_one() -> None:
    """The issues of each project are numbered from one without a gap, so no two have the same number."""
    numbers = defaultdict(list)
    for one in all_of(Issue):
        numbers[one.project_id].append(one.num)
    assert all(found == [*range(1, len(found) + 1)] for found in numbers.values())


def test_a_hundred_thousand_issues() -> None:
    """A project can have a hundred thousand issues, whose ids sort as their numbers, and many of which tie by name."""
    count = depth(quick=5_000, deep=100_000)
    issues = [*generate_issues(count)]
    assert [one.num for one in issues] == [*range(1, count + 1)]
    assert all(str(one.issue_id) < str(other.issue_id) for one, other in pairwise(issues))
    assert {one.issue_id.version for one in issues} == {7}
    states = Counter(one.state for one in issues)
    assert 0.68 < states[IssueState.closed] / count < 0.72
    names = Counter(one.name for one in issues)
    assert max(names.values()) > 100
    assert len(names) > 200


def test_an_issue_is_drawn_by_itself() -> None:
    """The last of a hundred thousand issues is made without the others."""
    last = generate_issue(100_000)
    assert (last.num, last.project_id) == (100_000, GRID_VIEW.project_id)
    assert str(last.issue_id) > str(generate_issue(99_999).issue_id)
    assert generate_issue(7) == [*generate_issues(7)][-1]


PINNED_SAMPLE = "8e0518dc66892ddc"
