"""`load --checked` accepts and rejects the same lines as a reference that reads them one by one."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from graphql_api.cli import app
from graphql_api.connection import open_catalog
from graphql_api.storage.engines import registry
from tests.ops.payments import rejects_of
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.support.run_depth import depth
from tests.write_guarantees.conftest import LENIENT_SETTINGS
from tests.write_guarantees.faulty_store import FaultyStore
from tests.write_guarantees.table_audit import check_table
from tests.write_guarantees.team_catalog import LATEST_CATALOG, SINCE, Team

ADDRESS = "tests.write_guarantees.team_catalog:LATEST_CATALOG"
TEAMS = ["a", "b"]
LINES = 60
MAX_RETRIES = 10
TERMINAL = {"TERM": "dumb"}
STORE_FAILED = 3
"""exit code"""

FaultInjection = Callable[[], AbstractContextManager[None]]
"""a context in which stores have faults"""

Line = dict[str, Any]
COMPARED = ("created", "teamId", "nick", "email", "mentorId", "code")


def random_lines(random: Random) -> Iterator[Line]:
    """Draws lines of members with duplicates, conflicting values and references to missing records."""
    drawn: list[Line] = []
    for _ in range(LINES):
        if drawn and random.random() < 0.15:
            line = random.choice(drawn)
        else:
            line = {
                "memberId": f"m{random.randrange(40)}",
                "created": random.choice([10, SINCE[0], SINCE[1] + 7]),
                "teamId": random.choice([*TEAMS, *TEAMS, *TEAMS, "nowhere"]),
                "nick": random.choice([None, None, f"n{random.randrange(12)}"]),
                "email": random.choice([None, f"{random.randrange(30)}@example.com"]),
                "mentorId": random.choice([None, None, f"m{random.randrange(40)}"]),
                "code": "c",
            }
            if random.random() < 0.3:
                line["num"] = random.randrange(1, 200)
        drawn.append(line)
        yield line


def expected_rejections(lines: Sequence[Line], stored: dict[str, Line]) -> list[int]:
    """Returns the numbers of the lines that must be rejected, and adds the others to `stored`."""
    rejected = []
    for number, line in enumerate(lines, 1):
        old = stored.get(line["memberId"])
        if old is not None:
            if any(old[name] != line[name] for name in COMPARED) or ("num" in line and old.get("num") != line["num"]):
                rejected.append(number)
            continue
        others = stored.values()
        free = line["email"] is None or all(one["email"] != line["email"] for one in others)
        pair = line["teamId"], line["nick"]
        free &= line["nick"] is None or all((one["teamId"], one["nick"]) != pair for one in others)
        reference_exists = line["mentorId"] in {None, line["memberId"], *stored}
        if free and reference_exists and line["teamId"] in TEAMS:
            stored[line["memberId"]] = {**line}
        else:
            rejected.append(number)
    return rejected


def load(url: str, lines: Sequence[Line], folder: Path) -> list[int]:
    """Runs the command and returns the numbers of the rejected lines. Repeats the command while the store fails."""
    file = folder / "members.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    file.with_name("members.jsonl.rejected").unlink(missing_ok=True)
    arguments = ("load", ADDRESS, "Member", str(file), "--store", url, "--checked")
    result = CliRunner().invoke(app, arguments, env=TERMINAL)
    for _ in range(MAX_RETRIES):
        if result.exit_code == STORE_FAILED:
            result = CliRunner().invoke(app, arguments, env=TERMINAL)
    rejected = [kept["line"] for kept in rejects_of(file)] if result.exit_code else []
    assert result.exit_code == (1 if rejected else 0), result.output
    return rejected


async def members(url: str) -> Mapping[str, Line]:
    """Audits the table and returns its members."""
    async with open_catalog(LATEST_CATALOG, url) as db:
        return {item["memberId"]: dict(item) for item in (await check_table(db)).records.get("member", [])}


async def prepare(url: str) -> None:
    """Creates a table with teams and without members."""
    async with open_catalog(LATEST_CATALOG, url, create_table=True) as db:
        await db.put_many([Team(team_id=team, name=team, version=1) for team in TEAMS])


def check_loads(url: str, folder: Path, random: Random, fault_injection: FaultInjection = nullcontext) -> None:
    """Loads a file twice, and compares the rejected lines and the stored members with the reference."""
    asyncio.run(prepare(url))
    lines = [*random_lines(random)]
    stored: dict[str, Line] = {}
    for _ in range(2):
        expected = expected_rejections(lines, stored)
        with fault_injection():
            assert load(url, lines, folder) == expected
        found = asyncio.run(members(url))
        assert {id: {name: one.get(name) for name in COMPARED} for id, one in found.items()} == {
            id: {name: one[name] for name in COMPARED} for id, one in stored.items()
        }
        for id, one in found.items():
            assert one["version"] == 1
            assert one["num"] == stored[id].setdefault("num", one["num"])
        assert len(expected) > LINES / 10
        assert len(stored) > LINES / 10


def test_checked_loads_match_the_reference(tmp_path: Path, random: Random) -> None:
    """A checked load gives the same result as reading the lines one by one."""
    for number in range(depth(2, 150)):
        check_loads(f"sqlite:///{tmp_path}/{number}.db", tmp_path, random)


def test_checked_loads_over_a_faulty_store(tmp_path: Path, random: Random) -> None:
    """The same holds with lost replies and conflicts: the order of conflicting lines is kept."""
    open_store = registry.open_store
    fault_count = 0

    @contextmanager
    def fault_injection() -> Iterator[None]:
        nonlocal fault_count
        stores = []

        async def open_faulty(url: str, **options: Any) -> FaultyStore:
            stores.append(
                FaultyStore(await open_store(url, **options), Random(random.random()), conflicts=0.1, lost=0.3)
            )
            return stores[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(registry, "open_store", open_faulty)
            yield
        fault_count += sum(store.fault_count for store in stores)

    for number in range(depth(2, 150)):
        check_loads(f"sqlite:///{tmp_path}/{number}.db", tmp_path, random, fault_injection)
    assert fault_count > 3


def test_checked_loads_on_dynamodb(
    dynamodb: Server, tmp_path: Path, random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds on DynamoDB Local."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    for _ in range(depth(1, 20)):
        url = f"dynamodb://loads-{uuid4().hex}?region={REGION}&endpoint={dynamodb.endpoint}"
        check_loads(f"{url}&{LENIENT_SETTINGS}", tmp_path, random)
