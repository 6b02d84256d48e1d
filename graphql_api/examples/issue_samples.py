"""Generate sample issues: two fixed projects, some small ones, and one with any number of issues.

The samples are the same on every platform and Python version. Each generated issue depends only on the seed,
its project and its number, so a longer sample begins with the shorter one.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID

from graphql_api.examples.issues import Issue, IssueState, Project, Tenant
from graphql_api.examples.seeded_random import SeededRandom

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

FIXED_ISSUES = (
    Issue(
        issue_id=UUID("020e94b7-c8d1-4625-a7f0-3e5b81d6092f"),
        name="Needs Painting",
        project_id=BRIDGE.project_id,
        num=1,
        state=IssueState.open,
    ),
    Issue(
        issue_id=UUID("3544d81e-9f06-4a7c-b25d-60c7e3f1a894"),
        name="Launch new newspaper!",
        project_id=DAILY_NEWS.project_id,
        num=1,
        state=IssueState.closed,
    ),
    Issue(
        issue_id=UUID("67d10c5b-2ae4-4938-8d76-f1b9042e7ca3"),
        name="Check for rust",
        project_id=BRIDGE.project_id,
        num=2,
        state=IssueState.closed,
    ),
    Issue(
        issue_id=UUID("83a47f26-e05d-4b1a-9e83-5d2c06f8b417"),
        name="Hire reporter for showbiz desk",
        project_id=DAILY_NEWS.project_id,
        num=2,
        state=IssueState.open,
    ),
    Issue(
        issue_id=UUID("af34e9d2-158c-4076-b3ca-82f70e4d6b59"),
        name="Girder needs replacing",
        project_id=BRIDGE.project_id,
        num=3,
        state=IssueState.open,
    ),
)

FIXED_RECORDS = (ACME, BIG_MEDIA, BRIDGE, DAILY_NEWS, *FIXED_ISSUES)

SMALL_PROJECTS = (
    "Accounts",
    "Billing",
    "Calendar",
    "Charts",
    "Dashboard",
    "Export",
    "Forms",
    "Help",
    "Import",
    "Login",
    "Mail",
    "Notes",
    "Reports",
    "Search",
    "Settings",
    "Themes",
)
MAX_SMALL_PROJECT_ISSUES = 12
"""maximum number of issues of a small project"""

PROBLEMS = (
    "Rows are missing",
    "Rows come twice",
    "Wrong order",
    "Blank page",
    "Crash",
    "Time-out",
    "Flicker",
    "Typo",
    "Wrong total",
    "Lost focus",
    "Stale value",
    "Unreadable text",
    "Memory leak",
    "Misplaced tooltip",
    "Broken link",
    "Overlapping columns",
)
OCCASIONS = (
    "while scrolling",
    "when sorting by name",
    "when sorting by state",
    "when a filter is cleared",
    "after the last page",
    "after a row was deleted",
    "after waking up",
    "in an empty project",
    "in a project of 100,000 issues",
    "on a narrow screen",
    "on a slow network",
    "in dark mode",
    "in print",
    "with a long name",
    "with the keyboard alone",
    "at midnight",
)


def generate_projects(count: int, seed: int = SEED) -> Iterator[Tenant | Project | Issue]:
    """Yield every tenant and project with its issues. The large project comes last and has `count` issues."""
    yield from FIXED_RECORDS
    yield from (TABLE_WORKS, GRID_VIEW)
    for name in SMALL_PROJECTS:
        random = SeededRandom(f"project {seed} {name}")
        project_id = UUID(hex=random.text(HEX, 32), version=4)
        yield Project(project_id=project_id, name=name, tenant_id=TABLE_WORKS.tenant_id)
        yield from generate_issues(1 + random.integer_below(MAX_SMALL_PROJECT_ISSUES), project_id, seed)
    yield from generate_issues(count, seed=seed)


def generate_issues(count: int, project_id: UUID = GRID_VIEW.project_id, seed: int = SEED) -> Iterator[Issue]:
    """Yield `count` issues of a project, numbered from one in the order in which they were opened."""
    for number in range(1, count + 1):
        yield generate_issue(number, project_id, seed)


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
