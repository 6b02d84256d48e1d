"""The law of loads: `load --checked` takes and refuses what reading the lines one by one would."""

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

from graphql_api import opening
from graphql_api.cli import app
from graphql_api.opening import open_catalog
from graphql_api.storage import engines
from tests.depth import depth
from tests.dynamodb_local import CREDENTIALS, REGION, Server
from tests.unit.payments import rejects_of
from tests.writes.audit import check_table
from tests.writes.club import GROWN, SINCE, Team
from tests.writes.conftest import PATIENT
from tests.writes.troubles import TroubledStore

ADDRESS = "tests.writes.club:GROWN"
TEAMS = ["a", "b"]
LINES = 60
MAX_TIMES = 10
DUMB = {"TERM": "dumb"}
STORE_FAILED = 3
"""exit code"""

Spoiled = Callable[[], AbstractContextManager[None]]
"""in it stores have troubles"""

Line = dict[str, Any]
SHOWN = ("created", "teamId", "nick", "email", "mentorId", "code")


def lines_of(random: Random) -> Iterator[Line]:
    """Lines of members that often want what others have, and name whom there is not; some come again just so."""
    told: list[Line] = []
    for _ in range(LINES):
        if told and random.random() < 0.15:
            line = random.choice(told)
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
        told.append(line)
        yield line


def one_by_one(lines: Sequence[Line], stands: dict[str, Line]) -> list[int]:
    """Which lines are refused, by number; `stands` gets the others."""
    refused = []
    for number, line in enumerate(lines, 1):
        old = stands.get(line["memberId"])
        if old is not None:
            if any(old[name] != line[name] for name in SHOWN) or ("num" in line and old.get("num") != line["num"]):
                refused.append(number)
            continue
        others = stands.values()
        free = line["email"] is None or all(one["email"] != line["email"] for one in others)
        pair = line["teamId"], line["nick"]
        free &= line["nick"] is None or all((one["teamId"], one["nick"]) != pair for one in others)
        named = line["mentorId"] in {None, line["memberId"], *stands}
        if free and named and line["teamId"] in TEAMS:
            stands[line["memberId"]] = {**line}
        else:
            refused.append(number)
    return refused


def load(url: str, lines: Sequence[Line], folder: Path) -> list[int]:
    """What the command refuses of a file, by number; where the store fails it is given again, and goes on."""
    file = folder / "members.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    file.with_name("members.jsonl.rejected").unlink(missing_ok=True)
    words = ("load", ADDRESS, "Member", str(file), "--store", url, "--checked")
    result = CliRunner().invoke(app, words, env=DUMB)
    for _ in range(MAX_TIMES):
        if result.exit_code == STORE_FAILED:
            result = CliRunner().invoke(app, words, env=DUMB)
    refused = [kept["line"] for kept in rejects_of(file)] if result.exit_code else []
    assert result.exit_code == (1 if refused else 0), result.output
    return refused


async def members(url: str) -> Mapping[str, Line]:
    """What stands, where everything that binds it agrees."""
    async with open_catalog(GROWN, url) as db:
        return {item["memberId"]: dict(item) for item in (await check_table(db)).records.get("member", [])}


async def prepare(url: str) -> None:
    """A table with teams, and no members."""
    async with open_catalog(GROWN, url, create_table=True) as db:
        await db.put_many([Team(team_id=team, name=team, version=1) for team in TEAMS])


def check_loads(url: str, folder: Path, random: Random, spoiled: Spoiled = nullcontext) -> None:
    """A file, and the same file again: what a first line of it has, no later one gets."""
    asyncio.run(prepare(url))
    lines = [*lines_of(random)]
    stands: dict[str, Line] = {}
    for _ in range(2):
        expected = one_by_one(lines, stands)
        with spoiled():
            assert load(url, lines, folder) == expected
        found = asyncio.run(members(url))
        assert {id: {name: one.get(name) for name in SHOWN} for id, one in found.items()} == {
            id: {name: one[name] for name in SHOWN} for id, one in stands.items()
        }
        for id, one in found.items():
            assert one["version"] == 1
            assert one["num"] == stands[id].setdefault("num", one["num"])
        assert len(expected) > LINES / 10
        assert len(stands) > LINES / 10


def test_loads_are_as_reading_one_by_one(tmp_path: Path, random: Random) -> None:
    """Lines that may meet count in their order, and all others are as they are said to be."""
    for number in range(depth(2, 150)):
        check_loads(f"sqlite:///{tmp_path}/{number}.db", tmp_path, random)


def test_loads_over_a_store_with_troubles(tmp_path: Path, random: Random) -> None:
    """So it is where replies are lost and transactions meet others: nobody overtakes what has to be tried again."""
    open_store = engines.open_store
    met = 0

    @contextmanager
    def spoiled() -> Iterator[None]:
        nonlocal met
        stores = []

        async def open_troubled(url: str) -> TroubledStore:
            stores.append(TroubledStore(await open_store(url), Random(random.random()), conflicts=0.1, lost=0.3))
            return stores[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(opening, "open_store", open_troubled)
            yield
        met += sum(store.met for store in stores)

    for number in range(depth(2, 150)):
        check_loads(f"sqlite:///{tmp_path}/{number}.db", tmp_path, random, spoiled)
    assert met > 3


def test_the_same_loads_on_dynamodb(
    dynamodb: Server, tmp_path: Path, random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DynamoDB Local takes and refuses the same lines."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    for _ in range(depth(1, 20)):
        url = f"dynamodb://loads-{uuid4().hex}?region={REGION}&endpoint={dynamodb.endpoint}"
        check_loads(f"{url}&{PATIENT}", tmp_path, random)
