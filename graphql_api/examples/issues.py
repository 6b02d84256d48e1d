"""An issue tracker: tenants with projects, projects with issues, which a grid shows in any of eight orders."""

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
    """Whether there is something left to do; open issues sort before closed ones."""

    open = "open"
    closed = "closed"


class Tenant(Entity):
    """A customer of the tracker."""

    tenant_id: Id[UUID] = Field(default_factory=uuid4)
    """Unique id of the tenant."""
    name: str
    """What the tenant is called."""

    by_name = Index(sort="name", name="tenantName")

    projects = HasMany("Project", via="by_tenant", description="The tenant's projects, by name.")


class Project(Entity):
    """Something that a tenant works on."""

    project_id: Id[UUID] = Field(default_factory=uuid4)
    """Unique id of the project."""
    name: str
    """What the project is called."""
    tenant_id: UUID
    """Unique id of the tenant whose project it is."""

    by_tenant = Index(hash="tenant_id", sort="name", name="projectName")

    of_tenant = ForeignKey("Tenant", by="tenant_id")

    tenant = Ref("Tenant", by="tenant_id", description="Whose project it is.")
    issues = HasMany("Issue", via="by_num", description="The issues of the project, by number.")


class Issue(Entity, shards=Shards(16)):
    """Something to do in a project."""

    issue_id: Id[UUID] = Field(default_factory=uuid4)
    """Unique id of the issue."""
    name: str
    """What is to be done."""
    project_id: Immutable[UUID]
    """Unique id of the project; it never changes."""
    num: Int32 = counter("project_id")
    """The number that people call the issue by: no two issues of a project have the same."""
    state: IssueState = IssueState.open
    """Whether there is something left to do."""

    # The issues of one project fit under one hash key by far, so a page is one read, however many projects there are.
    # What ties comes in the order of the ids.
    by_num = Index(hash="project_id", sort="num", sharded=False, name="issueNum")
    by_name = Index(hash="project_id", sort="name", sharded=False, name="issueName")
    by_state = Index(hash="project_id", sort="state", sharded=False, name="issueState")
    by_state_num = Index(hash="project_id", sort=["state", desc("num")], sharded=False, name="issueStateNum")

    unique_num = UniqueTogether("project_id", "num")
    of_project = ForeignKey("Project", by="project_id")

    project = Ref("Project", by="project_id", description="The project that it is an issue of.")


catalog = Catalog(Tenant, Project, Issue)


def sample(count: int) -> Iterator[Tenant | Project | Issue]:
    """Two projects that are written out and some small ones, then a project with so many issues."""
    from graphql_api.examples.issue_samples import projects  # noqa: PLC0415 - projects are made of the classes above

    yield from projects(count)
