"""A catalog with all that the data page shows: joins, versions, unique values, rules, nested values and a history."""

from datetime import date
from enum import Enum
from typing import Annotated

from pydantic import BaseModel, Field

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
    RefMany,
    Shards,
    SubId,
    Unique,
    Version,
    allow,
    group,
    owner,
)


class Level(Enum):
    """Urgency of a task."""

    low = "low"
    high = "high"


class Effort(BaseModel):
    """Hours of a task."""

    planned: float
    spent: float = 0.0


class Team(Entity):
    """A team with tasks."""

    team_id: Id[str]
    """Unique id of the team."""
    name: str
    """Name of the team."""

    by_name = Index(sort="name")

    tasks = HasMany("Task", via="by_team", description="The tasks of the team, by title.")


class Task(Entity, shards=Shards(4)):
    """Something to do."""

    task_id: Id[str]
    """Unique id of the task."""
    title: Annotated[str, Field(min_length=3, max_length=60)]
    """What is to be done."""
    code: Unique[str]
    """Code of the task, which no other task has."""
    team_id: str
    """Unique id of the team."""
    reporter: Immutable[str] = "somebody"
    """Who reported the task; it never changes."""
    level: Level = Level.low
    """Urgency."""
    points: Int32 = 1
    """Estimated size."""
    is_done: bool = False
    """Whether it is done."""
    due: date | None = None
    """Day by which it must be done."""
    labels: list[str] = Field(default_factory=list)
    """Labels, in any order."""
    blocks: list[str] = Field(default_factory=list)
    """Unique ids of tasks that wait for this one."""
    effort: Effort | None = None
    """Planned and spent hours."""
    version: Version[Int32]
    """Counts the writes."""

    by_title = Index(sort="title")
    by_team = Index(hash="team_id", sort="title", sharded=False)
    by_points = Index(sort="points", projection=["title"])

    of_team = ForeignKey("Team", by="team_id")

    team = Ref("Team", by="team_id", description="The team that does it.")
    waiting = RefMany("Task", by="blocks", description="Tasks that wait for this one.")


class Note(Entity, write=[group("Writers"), owner("author")]):
    """A note, which only its author and writers change."""

    note_id: Id[str]
    """Unique id of the note."""
    author: str
    """Subject of the author."""
    text: str
    """What it says."""
    remark: Annotated[str, allow(group("Writers"))] = "hidden"
    """What only writers read."""

    by_text = Index(sort="text")


class Event(Entity):
    """A history of what happened to a thing."""

    thing: Id[str]
    """What it happened to."""
    at: SubId[Int32]
    """When it happened."""
    what: str
    """What happened."""

    by_what = Index(sort="what")


class Vault(Entity, allow=group("Keepers")):
    """What only keepers read."""

    vault_id: Id[str]
    """Unique id of the vault."""


TASK_CATALOG = Catalog(Team, Task, Note, Event, Vault)

TEAMS = [Team(team_id="t1", name="Bridge"), Team(team_id="t2", name="Paper")]
TASKS = [
    Task(
        task_id=f"k{number:03}",
        title=f"Task {number:03}",
        code=f"C-{number}",
        team_id=f"t{1 + number % 2}",
        points=number % 7,
        level=Level.high if number % 3 == 0 else Level.low,
        labels=["a", "b"] if number == 0 else [],
        blocks=["k001", "k002"] if number == 0 else [],
        effort=Effort(planned=2.5) if number == 0 else None,
        version=1,
    )
    for number in range(240)
]
NOTES = [Note(note_id="n1", author="ann", text="By Ann"), Note(note_id="n2", author="bob", text="By Bob")]
EVENTS = [Event(thing="door", at=at, what=f"opened {at}") for at in range(12)]
