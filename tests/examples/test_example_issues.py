"""The example catalog `issues`: its declaration and its sample data."""

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
from graphql_api.examples.issues import (
    ACME,
    BRIDGE,
    DAILY_NEWS,
    FIXED_ISSUES,
    FIXED_RECORDS,
    GRID_VIEW,
    Issue,
    IssueState,
    Project,
    Tenant,
    catalog,
    generate_issue,
    generate_issues,
    sample,
)
from graphql_api.ops.design_advice import find_advice
from graphql_api.storage.values import AttributeValue
from graphql_api.writes.item_keys import to_item
from tests.support.run_depth import depth
from tests.support.sample_digest import digest_of

E = TypeVar("E", bound=Entity)

RECORDS = [*sample(300)]


def all_of(kind: type[E]) -> list[E]:
    """The records of one entity, in the order of the sample."""
    return [record for record in RECORDS if isinstance(record, kind)]


def stored(record: Entity) -> Mapping[str, AttributeValue]:
    """The stored item of a record."""
    return to_item(catalog.entity(type(record)), record, None, "a write")


# --- catalog -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [spec.type_name for spec in catalog.entities.values()])
def test_everything_is_described(name: str) -> None:
    """Each entity, property and join has a description."""
    spec = catalog.entity(name)
    assert spec.description
    assert [part.name for part in spec.properties.values() if not part.description] == []
    assert [name for name, join in spec.model.__declaration__.joins.items() if not join.description] == []


def test_columns_match_the_reference_document() -> None:
    """The three entities have exactly the columns of the reference document."""
    columns = {spec.type_name: [*spec.properties] for spec in catalog.entities.values()}
    assert columns == {
        "Tenant": ["tenant_id", "name"],
        "Project": ["project_id", "name", "tenant_id"],
        "Issue": ["issue_id", "name", "project_id", "num", "state"],
    }


def test_index_has_one_hash_key_per_project() -> None:
    """An index holds the issues of each project under one hash key, while the table spreads issues over all shards."""
    hash_keys = defaultdict(set)
    for one in all_of(Issue):
        hash_keys[one.project_id].add(stored(one)["issueProjectUnshardedHashKey"])
    assert {project_id: {f"issue!|projectId#{project_id}"} for project_id in hash_keys} == hash_keys
    assert len(hash_keys) == len(all_of(Project))
    assert {stored(one)["hashKey"] for one in all_of(Issue)} == {f"issue!0{digit}" for digit in "0123456789abcdef"}


def test_index_order_of_issues() -> None:
    """The index sorts issues by state (open first), descending number, and id."""
    index = catalog.index(Issue.by_state_num)
    own_issues = [one for one in all_of(Issue) if one.project_id == GRID_VIEW.project_id]
    keys = sorted(str(stored(one)["issueStateNumRangeKey"]) for one in own_issues)
    found = [decode_tuple(index.columns, key) for key in keys]
    assert found == sorted(
        ((one.state, one.num, one.issue_id) for one in own_issues),
        key=lambda one: (one[0] is IssueState.closed, -one[1]),
    )


async def test_constraints_of_issues(tmp_path: Path) -> None:
    """Numbers count within a project, a project with issues stays, and project and number are immutable."""
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


def test_no_design_advice() -> None:
    """There is no design advice for the catalog and its sample."""
    records: dict[str, list[Entity]] = defaultdict(list)
    for record in RECORDS:
        records[catalog.entity(type(record)).name].append(record)
    assert [str(one) for one in find_advice(catalog, records)] == []


# --- sample ------------------------------------------------------------------------------------------------------


def test_sample_is_pinned() -> None:
    """The sample is the same on every platform and Python version."""
    assert digest_of(sample(100)) == PINNED_SAMPLE


def test_shorter_sample_is_a_prefix() -> None:
    """A shorter sample is a prefix of a longer one. Another seed generates other issues after the fixed ones."""
    shorter = [*sample(40)]
    assert RECORDS[: len(shorter)] == shorter
    assert len(RECORDS) == len(shorter) + 260
    one, other = ({repr(record) for record in sample(40, seed) if isinstance(record, Issue)} for seed in (1, 2))
    assert one & other == {repr(record) for record in FIXED_RECORDS if isinstance(record, Issue)}


def test_sample_starts_with_the_reference_rows() -> None:
    """The sample starts with the rows of the reference document; other records belong to other tenants and projects."""
    assert RECORDS[: len(FIXED_RECORDS)] == [*FIXED_RECORDS]
    fixed_issues = [record for record in FIXED_RECORDS if isinstance(record, Issue)]
    assert [
        (str(one.issue_id)[:4], one.name, str(one.project_id)[:4], one.num, one.state.value) for one in fixed_issues
    ] == [
        ("020e", "Needs Painting", "35e9", 1, "open"),
        ("3544", "Launch new newspaper!", "7b7e", 1, "closed"),
        ("67d1", "Check for rust", "35e9", 2, "closed"),
        ("83a4", "Hire reporter for showbiz desk", "7b7e", 2, "open"),
        ("af34", "Girder needs replacing", "35e9", 3, "open"),
    ]
    later = RECORDS[len(FIXED_RECORDS) :]
    fixed_tenants = {record.tenant_id for record in FIXED_RECORDS if isinstance(record, Tenant)}
    assert not fixed_tenants & {record.tenant_id for record in later if isinstance(record, Project)}
    assert not {one.project_id for one in fixed_issues} & {one.project_id for one in later if isinstance(one, Issue)}


def test_references_exist() -> None:
    """Each project references an earlier tenant, and each issue an earlier project."""
    seen_ids = set()
    for record in RECORDS:
        if isinstance(record, Project):
            assert record.tenant_id in seen_ids
        if isinstance(record, Issue):
            assert record.project_id in seen_ids
        seen_ids.add(getattr(record, catalog.entity(type(record)).ids[0].name))
    assert len(seen_ids) == len(RECORDS)


def test_every_project_has_issues() -> None:
    """Small projects have 1 to 12 issues; the large project has the requested number."""
    counted = Counter(one.project_id for one in all_of(Issue))
    assert counted.pop(GRID_VIEW.project_id) == 300
    assert {project.project_id for project in all_of(Project)} == {*counted, GRID_VIEW.project_id}
    assert all(1 <= count <= 12 for count in counted.values())


def test_issue_numbers_have_no_gaps() -> None:
    """The issues of each project are numbered from 1 without gaps."""
    numbers = defaultdict(list)
    for one in all_of(Issue):
        numbers[one.project_id].append(one.num)
    assert all(found == [*range(1, len(found) + 1)] for found in numbers.values())


def test_a_hundred_thousand_issues() -> None:
    """A project can have 100,000 issues: ids sort as numbers do, and many names tie."""
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


def test_issue_is_generated_independently() -> None:
    """One issue can be generated without the issues before it."""
    last = generate_issue(100_000)
    assert (last.num, last.project_id) == (100_000, GRID_VIEW.project_id)
    assert str(last.issue_id) > str(generate_issue(99_999).issue_id)
    assert generate_issue(7) == [*generate_issues(7)][-1]


PINNED_SAMPLE = "8e0518dc66892ddc"
