"""`load --checked`: loaded records satisfy all constraints, and existing records are not replaced."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result

from graphql_api import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    Id,
    Int32,
    SubId,
    Timestamp,
    Unique,
    UniqueTogether,
    Updated,
    Version,
    counter,
    open_catalog,
)
from graphql_api.cli import app
from graphql_api.database import Database
from graphql_api.errors import ShardQLError, StoreUnavailable
from graphql_api.examples.issues import BRIDGE, FIXED_ISSUES, Issue, Project, Tenant
from graphql_api.examples.issues import catalog as issues
from graphql_api.ops.checked_loader import conflict_free_groups, conflict_free_writer, create_only_writer
from graphql_api.ops.loader import load_lines
from graphql_api.writes.commands import Command
from tests.ops.payments import rejects_of

ISSUES = "graphql_api.examples.issues:catalog"
STORE = "sqlite:///test.db"
URL = ("--store", STORE)


class Person(Entity):
    """A person with a unique email address and an optional boss."""

    person_id: Id[str]
    created: Created[Timestamp]
    updated: Updated[Timestamp]
    version: Version[Int32]
    email: Unique[str] | None = None
    group: str = "g"
    nick: str | None = None
    num: Int32 = counter("group")
    boss_id: str | None = None

    unique_nick = UniqueTogether("group", "nick")
    of_boss = ForeignKey("Person", by="boss_id")


class Note(Entity):
    """A history of pages."""

    note_id: Id[str]
    page: SubId[int]
    text: str = ""


class Member(Entity, current="~current"):
    """The history of a member, with a unique email address."""

    member_id: Id[str]
    since: SubId[str]
    email: Unique[str] | None = None


PEOPLE = Catalog(Person, Note, Member)
PERSON, NOTE, MEMBER = PEOPLE.entity(Person), PEOPLE.entity(Note), PEOPLE.entity(Member)


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs commands in an empty directory."""
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> Result:
    """Runs one command and returns its result. Unexpected exceptions are raised."""
    result = CliRunner().invoke(app, words, env={"COLUMNS": "300", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def person(person_id: str, **values: Any) -> Person:
    """A valid person with these values."""
    return Person(**{"person_id": person_id, "created": 1, "updated": 1, "version": 1, **values})


async def load(db: Database, *lines: dict[str, Any], plain: bool = False) -> list[tuple[int, str]]:
    """Loads these lines, and returns number and reason of each rejected line."""
    put_many = conflict_free_writer(db.restore_many, PERSON) if plain else create_only_writer(db.apply_each, PERSON)
    file = Path("people.jsonl")
    file.write_text("".join(json.dumps({"created": 1, **line}) + "\n" for line in lines), encoding="utf-8")
    file.with_name("people.jsonl.rejected").unlink(missing_ok=True)
    await load_lines(put_many, PERSON, file)
    return [(kept["line"], kept["reason"]) for kept in rejects_of(file)]


# --- rejected lines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [False, True], ids=["checked", "plain"])
async def test_duplicate_unique_value_is_rejected(plain: bool) -> None:
    """Of two lines with the same unique value, the first is written, and the second is rejected."""
    async with open_catalog(PEOPLE, STORE) as db:
        rejected = await load(
            db,
            {"personId": "a", "email": "x@example.com", "nick": "x"},
            {"personId": "b", "email": "x@example.com"},
            {"personId": "c", "nick": "x"},
            {"personId": "d", "nick": "x", "group": "h"},
            plain=plain,
        )
        assert [line for line, _ in rejected] == [2, 3]
        assert "email" in rejected[0][1]
        assert "nick" in rejected[1][1]
        found = await db.get_many(Person, ["a", "b", "c", "d"])
        assert [one is not None for one in found] == [True, False, False, True]


@pytest.mark.parametrize("plain", [False, True], ids=["checked", "plain"])
async def test_broken_reference_is_rejected(plain: bool) -> None:
    """A line may reference a record of an earlier line, itself, or an existing record, but no later line."""
    async with open_catalog(PEOPLE, STORE) as db:
        await db.put(person("old"))
        rejected = await load(
            db,
            {"personId": "a", "bossId": "b"},
            {"personId": "b", "bossId": "old"},
            {"personId": "c", "bossId": "b"},
            {"personId": "d", "bossId": "c"},
            {"personId": "e", "bossId": "e"},
            plain=plain,
        )
        assert [line for line, _ in rejected] == [1]
        assert "bossId" in rejected[0][1] or "boss_id" in rejected[0][1]
        assert await db.get(Person, "d") is not None


@pytest.mark.parametrize("plain", [False, True], ids=["checked", "plain"])
@pytest.mark.parametrize("name", ["personId", "email", "bossId", "group"])
async def test_lone_surrogate_is_rejected(plain: bool, name: str) -> None:
    """A line with a lone surrogate is rejected; other lines are written."""
    async with open_catalog(PEOPLE, STORE) as db:
        rejected = await load(db, {"personId": "a"}, {"personId": "b", name: "\ud800"}, {"personId": "c"}, plain=plain)
        assert [line for line, _ in rejected] == [2]
        assert "lone surrogate" in rejected[0][1]
        found = await db.get_many(Person, ["a", "b", "c"])
        assert [one is not None for one in found] == [True, False, True]


async def test_existing_id_is_rejected() -> None:
    """A line with the id of an existing record is rejected, unless the records are equal."""
    async with open_catalog(PEOPLE, STORE) as db:
        await db.put(person("a", email="a@example.com"))
        rejected = await load(
            db,
            {"personId": "a", "email": "other@example.com"},
            {"personId": "b", "email": "b@example.com"},
            {"personId": "b", "email": "b2@example.com"},
            {"personId": "a", "email": "a@example.com"},
        )
        assert [line for line, _ in rejected] == [1, 3]
        assert "A different Person a already exists. Load without --checked" in rejected[0][1]
        found = await db.get_many(Person, ["a", "b"])
        assert [one.email for one in found if one is not None] == ["a@example.com", "b@example.com"]


async def test_plain_load_replaces_records() -> None:
    """Without `--checked`, a line replaces the existing record, including version, update time and number."""
    async with open_catalog(PEOPLE, STORE) as db:
        await db.put(person("a", email="a@example.com"))
        line = {"personId": "a", "email": "new@example.com", "version": 7, "updated": 123, "num": 40}
        assert await load(db, {"personId": "b"}, line, plain=True) == []
        found = await db.get(Person, "a")
        assert found is not None
        assert (found.email, found.version, found.updated, found.num) == ("new@example.com", 7, 123, 40)
        assert await load(db, {"personId": "c", "email": "a@example.com"}, plain=True) == []
        assert (await db.create(Person, person_id="d")).num > 40


async def test_loading_twice_changes_nothing() -> None:
    """Loading the same file again succeeds without changes of versions or numbers."""
    lines = [{"personId": f"p{at}", "email": f"{at}@example.com", "num": 10 - at} for at in range(5)]
    async with open_catalog(PEOPLE, STORE) as db:
        assert await load(db, *lines) == []
        before = await db.get_many(Person, [line["personId"] for line in lines])
        assert await load(db, *lines) == []
        assert await db.get_many(Person, [line["personId"] for line in lines]) == before
        assert [one.num for one in before if one is not None] == [10, 9, 8, 7, 6]


async def test_server_assigned_values_are_optional() -> None:
    """Missing numbers, versions and update times are assigned; a provided number is kept."""
    async with open_catalog(PEOPLE, STORE) as db:
        assert await load(db, {"personId": "a"}, {"personId": "b", "num": 7}, {"personId": "c"}) == []
        found = await db.get_many(Person, ["a", "b", "c"])
        numbers = {one.person_id: one.num for one in found if one is not None}
        assert numbers["b"] == 7
        assert len({*numbers.values()}) == 3
        assert all(one.version == 1 and one.updated > 1 for one in found if one is not None)
        created = await db.create(Person, person_id="d")
        assert created.num > max(numbers.values())


async def test_creation_time_is_optional() -> None:
    """A line of a checked load may omit the creation time; loading it again succeeds."""
    async with open_catalog(PEOPLE, STORE) as db:
        lines: list[dict[str, Any]] = [{"personId": "a", "created": None}, {"personId": "b", "created": 7}]
        assert [line for line, _ in await load(db, *lines)] == [1]
        del lines[0]["created"]
        file = Path("people.jsonl")
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        before = int(time.time())
        done = await load_lines(create_only_writer(db.apply_each, PERSON), PERSON, file, new=True)
        assert (done.written, done.rejected) == (2, 0)
        created = await db.get(Person, "a")
        assert created is not None
        assert before <= created.created <= time.time()
        await db.restore_many([person("a", created=3, num=created.num)])
        done = await load_lines(create_only_writer(db.apply_each, PERSON), PERSON, file, new=True)
        assert (done.written, done.rejected) == (2, 0)
        found = await db.get_many(Person, ["a", "b"])
        assert [one.created for one in found if one is not None] == [3, 7]


async def test_retryable_failure_is_retried() -> None:
    """A record that fails with a retryable error is written in a retry."""
    async with open_catalog(PEOPLE, STORE) as db:
        failures = [StoreUnavailable("Not now: try again.")]

        async def apply_each(commands: Sequence[Command]) -> Sequence[Entity | ShardQLError | None]:
            return [failures.pop() for _ in commands] if failures else await db.apply_each(commands)

        file = Path("people.jsonl")
        file.write_text(json.dumps({"personId": "a", "created": 1}))
        done = await load_lines(create_only_writer(apply_each, PERSON), PERSON, file)
        assert (done.written, done.rejected) == (1, 0)
        assert await db.get(Person, "a") is not None


@pytest.mark.parametrize("plain", [False, True], ids=["checked", "plain"])
async def test_conflicting_lines_wait_for_retries(plain: bool) -> None:
    """Lines that may conflict with a record in retry wait for it, and then see it."""
    async with open_catalog(PEOPLE, STORE) as db:
        failures = [StoreUnavailable("Not now: try again.")]

        def with_failure(answers: Sequence[Any]) -> list[Any]:
            return [failures.pop() if failures else answer for answer in answers]

        async def apply_each(commands: Sequence[Command]) -> Sequence[Entity | ShardQLError | None]:
            return with_failure([None]) if failures else await db.apply_each(commands)

        async def restore_many(records: Sequence[Entity]) -> Sequence[ShardQLError | None]:
            return with_failure([None]) if failures else await db.restore_many(records)

        put_many = conflict_free_writer(restore_many, PERSON) if plain else create_only_writer(apply_each, PERSON)
        file = Path("people.jsonl")
        lines = [
            {"personId": "a", "email": "x@example.com", "bossId": "a"},
            {"personId": "b", "email": "x@example.com"},
            {"personId": "c", "bossId": "a"},
        ]
        file.write_text("".join(json.dumps({"created": 1, **line}) + "\n" for line in lines), encoding="utf-8")
        await load_lines(put_many, PERSON, file)
        assert [kept["line"] for kept in rejects_of(file)] == [2]
        found = await db.get_many(Person, ["a", "b", "c"])
        assert [one is not None for one in found] == [True, False, True]


# --- order of writes ---------------------------------------------------------------------------------------------


def test_conflicting_records_are_in_different_groups() -> None:
    """Lines are written concurrently, except those with equal ids or unique values, and those with references."""
    people = [
        person("a", email="x", boss_id="c"),
        person("b", email="y"),
        person("c", email="x"),
        person("d", boss_id="c"),
        person("e", boss_id="c"),
        person("a", email="z"),
        person("f", nick="n"),
        person("g", nick="n", group="h"),
        person("h", nick="n"),
    ]
    assert conflict_free_groups(PERSON, people) == [[0, 1, 6, 7], [2, 5, 8], [3, 4]]


def test_independent_records_are_in_one_group() -> None:
    """Entries of one id do not conflict in a history without current record; nulls never conflict."""
    assert conflict_free_groups(NOTE, [Note(note_id="n", page=page) for page in range(5)]) == [[0, 1, 2, 3, 4]]
    assert conflict_free_groups(PERSON, [person(f"p{at}") for at in range(5)]) == [[0, 1, 2, 3, 4]]
    assert conflict_free_groups(PERSON, []) == []


def test_groups_of_whole_histories() -> None:
    """With `whole_histories`, all entries of a history are in the same group, after histories that may conflict."""
    members = [
        Member(member_id="a", since="1", email="x"),
        Member(member_id="b", since="1", email="x"),
        Member(member_id="a", since="2", email="y"),
        Member(member_id="c", since="1", email="y"),
        Member(member_id="d", since="1"),
        Member(member_id="a", since="3", email="x"),
    ]
    assert conflict_free_groups(MEMBER, members, whole_histories=True) == [[0, 2, 4], [1, 3], [5]]
    assert conflict_free_groups(MEMBER, members) == [[0, 4], [1, 2], [3, 5]]


async def test_unique_values_of_histories_follow_line_order() -> None:
    """Of two histories with the same unique value, the one with the first line gets it, even if its write is slow."""
    async with open_catalog(PEOPLE, STORE) as db:
        batches: list[set[str]] = []

        async def restore_many(records: Sequence[Entity]) -> Sequence[ShardQLError | None]:
            batches.append({one.member_id for one in records if isinstance(one, Member)})
            return await db.restore_many(records)

        file = Path("members.jsonl")
        lines = [
            {"memberId": name, "since": since, "email": f"{at}@example.com"}
            for at in range(3)
            for name, since in ((f"a{at}", "1"), (f"b{at}", "1"), (f"a{at}", "2"))
        ]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        await load_lines(conflict_free_writer(restore_many, MEMBER), MEMBER, file)
        assert [kept["line"] for kept in rejects_of(file)] == [2, 5, 8]
        assert [len({name[1:] for name in names}) == len(names) for names in batches] == [True] * len(batches)


# --- command -----------------------------------------------------------------------------------------------------


def stored_issues(*ids: UUID) -> list[Issue | None]:
    """The stored issues with these ids."""

    async def find() -> list[Issue | None]:
        async with open_catalog(issues, STORE) as db:
            return await db.get_many(Issue, ids)

    return asyncio.run(find())


def test_sample_is_restored_with_its_numbers() -> None:
    """The sample keeps its numbers, with and without `--checked`, and new issues continue them."""
    for words in (("--checked",), ()):
        result = run("load", ISSUES, "--sample", "30", *URL, *words)
        assert result.exit_code == 0, result.output
        assert stored_issues(*(one.issue_id for one in FIXED_ISSUES)) == [*FIXED_ISSUES]

    async def next_number() -> int:
        async with open_catalog(issues, STORE) as db:
            created = await db.create(Issue, name="Bolts are loose", project_id=BRIDGE.project_id)
            return int(created.num)

    assert asyncio.run(next_number()) == 4


@pytest.mark.parametrize("example", ["users", "orders", "issues"])
def test_samples_satisfy_all_constraints(example: str) -> None:
    """`load --checked` accepts the sample of each example, also if it is loaded twice."""
    result = [run("load", f"graphql_api.examples.{example}:catalog", "--sample", "40", *URL, "--checked") for _ in "ab"]
    assert [one.exit_code for one in result] == [0, 0], result[0].output + result[1].output


def test_rejected_lines_are_reported_by_number() -> None:
    """`load --checked` exits with 1 if lines violate a constraint, and keeps their numbers and reasons."""

    async def prepare() -> None:
        tenant = Tenant(name="Rail")
        async with open_catalog(issues, STORE) as db:
            await db.put(tenant)
            await db.put(Project(project_id=BRIDGE.project_id, name="Bridge", tenant_id=tenant.tenant_id))

    asyncio.run(prepare())
    lines = run("sample", ISSUES, "Issue", "--count", "0").stdout.splitlines()[:5]
    again = json.loads(lines[0]) | {"issueId": str(UUID(int=1))}
    Path("issues.jsonl").write_text("\n".join([*lines, json.dumps(again)]), encoding="utf-8")
    result = run("load", ISSUES, "Issue", "issues.jsonl", *URL, "--checked")
    assert result.exit_code == 1
    assert "issues.jsonl: 3 records of Issue written" in result.stdout
    assert "3 lines rejected, see issues.jsonl.rejected" in result.stdout
    kept = rejects_of(Path("issues.jsonl"))
    assert [one["line"] for one in kept] == [2, 4, 6]
    assert all("project" in one["reason"].lower() for one in kept[:2])
    assert "num" in kept[2]["reason"]
    bridge = [one for one in FIXED_ISSUES if one.project_id == BRIDGE.project_id]
    assert stored_issues(*(one.issue_id for one in bridge)) == bridge
