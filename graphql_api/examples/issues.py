"""Example catalog: an issue tracker whose grid shows the issues of a project in any of eight orders."""

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import Enum
from uuid import UUID, uuid4

from pydantic import Field

from graphql_api import (
    Catalog,
    Entity,
    ForeignKey,
    HasMany,
    Id,
    Immutable,
    Index,
    Int32,
    Ref,
    Shards,
    UniqueTogether,
    counter,
    desc,
)
from graphql_api.examples.seeded_random import SeededRandom


class IssueState(Enum):
    """State of an issue; open issues sort before closed ones."""

    open = "open"
    closed = "closed"


class Tenant(Entity):
    """A customer of the tracker."""

    tenant_id: Id[UUID] = Field(default_factory=uuid4)
    """Unique id of the tenant."""
    name: str
    """Name of the tenant."""

    by_name = Index(sort="name", name="tenantName")

    projects = HasMany("Project", via="by_tenant", description="The tenant's projects, sorted by name.")


class Project(Entity):
    """A project of a tenant."""

    project_id: Id[UUID] = Field(default_factory=uuid4)
    """Unique id of the project."""
    name: str
    """Name of the project."""
    tenant_id: UUID
    """Unique id of the tenant that owns the project."""

    by_tenant = Index(hash="tenant_id", sort="name", name="projectName")

    of_tenant = ForeignKey("Tenant", by="tenant_id")

    tenant = Ref("Tenant", by="tenant_id", description="The tenant that owns the project.")
    issues = HasMany("Issue", via="by_num", description="The issues of the project, sorted by number.")


class Issue(Entity, shards=Shards(16)):
    """An issue of a project."""

    issue_id: Id[UUID] = Field(default_factory=uuid4)
    """Unique id of the issue."""
    name: str
    """Title of the issue."""
    project_id: Immutable[UUID]
    """Unique id of the project; it never changes."""
    num: Int32 = counter("project_id")
    """Number of the issue, unique within its project."""
    state: IssueState = IssueState.open
    """State of the issue."""

    # All issues of a project fit under one hash key, so one read returns a page. Ties are sorted by id.
    by_num = Index(hash="project_id", sort="num", sharded=False, name="issueNum")
    by_name = Index(hash="project_id", sort="name", sharded=False, name="issueName")
    by_state = Index(hash="project_id", sort="state", sharded=False, name="issueState")
    by_state_num = Index(hash="project_id", sort=["state", desc("num")], sharded=False, name="issueStateNum")

    unique_num = UniqueTogether("project_id", "num")
    of_project = ForeignKey("Project", by="project_id")

    project = Ref("Project", by="project_id", description="The project of the issue.")


catalog = Catalog(Tenant, Project, Issue)


# --- sample ----------------------------------------------------------------------------------------------------
# The same on every platform and Python version. Each generated issue depends only on the seed, its project and its
# number, so a longer sample begins with the shorter one.

SEED = 1
HEX = "0123456789abcdef"
FIRST_OPENED_MS = int(datetime(2021, 1, 4, 8, tzinfo=UTC).timestamp()) * 1000
MEAN_INTERVAL_MS = 20 * 60 * 1000
"""average milliseconds between two issues of a project"""
CLOSED_SHARE = 0.7

ACME = Tenant(tenant_id=UUID("0807b2c9-6f1e-4d53-9a40-7c18e5d2f36b"), name="ACME Engineering")
BIG_MEDIA = Tenant(tenant_id=UUID("3cc81f5a-02d7-4b8e-8f69-d4a7305be91c"), name="Big Media")
TABLE_WORKS = Tenant(tenant_id=UUID("91d4e07c-b853-4a26-a1f7-58c09be6234d"), name="Table Works")

BRIDGE = Project(
    project_id=UUID("35e9a4d0-71bc-4f28-b6e5-09f3d8c1427a"), name="Forth Rail Bridge", tenant_id=ACME.tenant_id
)
DAILY_NEWS = Project(
    project_id=UUID("7b7e603f-d95a-4c14-8b02-e6a1f72c48d5"), name="The Daily News", tenant_id=BIG_MEDIA.tenant_id
)
GRID_VIEW = Project(
    project_id=UUID("c6f28a15-4e90-4d7b-9c3d-1b05d7e8f964"), name="Grid View", tenant_id=TABLE_WORKS.tenant_id
)

FIXED_ISSUES = tuple(
    Issue(issue_id=UUID(issue_id), name=name, project_id=project.project_id, num=num, state=state)
    for issue_id, name, project, num, state in (
        ("020e94b7-c8d1-4625-a7f0-3e5b81d6092f", "Needs Painting", BRIDGE, 1, IssueState.open),
        ("3544d81e-9f06-4a7c-b25d-60c7e3f1a894", "Launch new newspaper!", DAILY_NEWS, 1, IssueState.closed),
        ("67d10c5b-2ae4-4938-8d76-f1b9042e7ca3", "Check for rust", BRIDGE, 2, IssueState.closed),
        ("83a47f26-e05d-4b1a-9e83-5d2c06f8b417", "Hire reporter for showbiz desk", DAILY_NEWS, 2, IssueState.open),
        ("af34e9d2-158c-4076-b3ca-82f70e4d6b59", "Girder needs replacing", BRIDGE, 3, IssueState.open),
    )
)

FIXED_RECORDS: tuple[Tenant | Project | Issue, ...] = (ACME, BIG_MEDIA, BRIDGE, DAILY_NEWS, *FIXED_ISSUES)


def _split(text: str) -> list[str]:
    return text.split(", ")


SMALL_PROJECTS = _split(
    "Accounts, Billing, Calendar, Charts, Dashboard, Export, Forms, Help, Import, Login, Mail, Notes, Reports, "
    "Search, Settings, Themes"
)
MAX_SMALL_PROJECT_ISSUES = 12
"""maximum number of issues of a small project"""

PROBLEMS = _split(
    "Rows are missing, Rows come twice, Wrong order, Blank page, Crash, Time-out, Flicker, Typo, Wrong total, "
    "Lost focus, Stale value, Unreadable text, Memory leak, Misplaced tooltip, Broken link, Overlapping columns"
)
OCCASIONS = _split(
    "while scrolling, when sorting by name, when sorting by state, when a filter is cleared, "
    "after the last page, after a row was deleted, after waking up, in an empty project, "
    "in a project of 100,000 issues, on a narrow screen, on a slow network, in dark mode, in print, "
    "with a long name, with the keyboard alone, at midnight"
)


def generate_issues(count: int, project_id: UUID = GRID_VIEW.project_id, seed: int = SEED) -> Iterator[Issue]:
    """Yield `count` issues of a project, numbered from one in the order in which they were opened."""
    return (generate_issue(number, project_id, seed) for number in range(1, count + 1))


def generate_issue(num: int, project_id: UUID = GRID_VIEW.project_id, seed: int = SEED) -> Issue:
    """Generate one issue of a project by number. Many issues have the same name."""
    random = SeededRandom(f"issue {seed} {project_id} {num}")
    opened = FIRST_OPENED_MS + num * MEAN_INTERVAL_MS + random.integer_below(MEAN_INTERVAL_MS)
    return Issue(
        issue_id=uuid7(opened, random),
        name=f"{random.choose(PROBLEMS)} {random.choose(OCCASIONS)}",
        project_id=project_id,
        num=num,
        state=IssueState.closed if random.chance(CLOSED_SHARE) else IssueState.open,
    )


def uuid7(milliseconds: int, random: SeededRandom) -> UUID:
    """Generate a UUID of version 7, which begins with a timestamp, so ids sort by creation time."""
    return UUID(f"{milliseconds:012x}7{random.text(HEX, 3)}{HEX[8 + random.integer_below(4)]}{random.text(HEX, 15)}")


def sample(count: int, seed: int = SEED) -> Iterator[Tenant | Project | Issue]:
    """Yield two fixed projects and some small ones, then a project with `count` issues."""
    yield from (*FIXED_RECORDS, TABLE_WORKS, GRID_VIEW)
    for name in SMALL_PROJECTS:
        random = SeededRandom(f"project {seed} {name}")
        project_id = UUID(hex=random.text(HEX, 32), version=4)
        yield Project(project_id=project_id, name=name, tenant_id=TABLE_WORKS.tenant_id)
        yield from generate_issues(1 + random.integer_below(MAX_SMALL_PROJECT_ISSUES), project_id, seed)
    yield from generate_issues(count, seed=seed)
