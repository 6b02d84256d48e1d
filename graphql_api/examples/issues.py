"""Example catalog: an issue tracker whose grid shows the issues of a project in any of eight orders."""

from collections.abc import Iterator
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


def sample(count: int) -> Iterator[Tenant | Project | Issue]:
    """Yield two fixed projects and some small ones, then a project with `count` issues."""
    from graphql_api.examples.issue_samples import generate_projects  # noqa: PLC0415 - imports this module

    yield from generate_projects(count)
