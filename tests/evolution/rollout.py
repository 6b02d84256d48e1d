"""Servers of two releases side by side, and clients that know what their own records should be."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests.evolution.rollout_releases import AFTER, BEFORE
from tests.server.server_processes import environment
from tests.support.dynamodb_servers import ROOT
from tests.write_guarantees.forked_servers import NO_FAULTS, Server, ServerForker
from tests.write_guarantees.server_cluster import PATH, SETTINGS, client_of

RELEASES = "tests.evolution.rollout_releases"
LABELS = ("ada", "bob", "cy")
"""Both functions of tags divide them equally."""

PUT_USER = "mutation ($input: UserInput!) { putUser(input: $input) { user { userId } } }"
PUT_TAG = "mutation ($input: TagInput!) { putTag(input: $input) { tag { tagId } } }"
USER = {
    "OLDER": "query ($id: ID!) { user(id: $id) { town } }",
    "NEWER": "query ($id: ID!) { user(id: $id) { town note } }",
}
BY_NAME = "query ($name: String!) { userByName(prefix: $name, limit: 50) { items { userId town } } }"
BY_TOWN = "query ($town: String!) { userByTown(town: $town, limit: 50) { items { userId } } }"
BY_INITIAL = "query ($label: String!) { tagByInitial(initial: $label, limit: 50) { items { tagId label } } }"


@dataclass
class Rollout:
    """The servers that run, one of each release at most."""

    folder: Path
    url: str
    forker: ServerForker
    variables: Mapping[str, str] = field(default_factory=dict)
    servers: dict[str, Server] = field(default_factory=dict)
    clients: dict[str, httpx.AsyncClient] = field(default_factory=dict)
    in_flight: dict[str, set[asyncio.Future[None]]] = field(default_factory=lambda: defaultdict(set))
    refusals: set[tuple[str, str]] = field(default_factory=set)
    """release and code of the errors"""
    requests: int = 0

    async def start(self, release: str) -> None:
        """Starts the server of a release."""
        arguments = (f"{RELEASES}:{release}", "--production", "--no-migrate", "--store", self.url)
        starting = self.forker.start(self.folder, *arguments, faults=NO_FAULTS, **SETTINGS, **self.variables)
        self.servers[release] = await asyncio.to_thread(starting.wait_until_ready)
        self.clients[release] = client_of(self.servers[release])

    async def stop(self, release: str) -> None:
        """Stops the server of a release, after its requests."""
        client, server = self.clients.pop(release), self.servers.pop(release)
        if self.in_flight[release]:
            await asyncio.wait(self.in_flight[release])
        await client.aclose()
        await asyncio.to_thread(server.stop)

    async def execute(self, release: str, query: str, **variables: Any) -> Any:
        """Sends a request. Returns its only field, or None after an error that says what is not ready."""
        self.requests += 1
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.in_flight[release].add(ended)
        try:
            reply = await self.clients[release].post(PATH, json={"query": query, "variables": variables})
        finally:
            self.in_flight[release].discard(ended)
            ended.set_result(None)
        body = reply.json()
        if "errors" in body:
            (error,) = body["errors"]
            code = error["extensions"]["code"]
            lacks_function = release == "OLDER" and query in {PUT_TAG, BY_INITIAL}
            possible = ["NOT_READY"] * (release == "NEWER" or lacks_function) + ["CATALOG_BEHIND"] * lacks_function
            assert code in possible, (release, query, variables, body)
            self.refusals.add((release, code))
            return None
        (found,) = body["data"].values()
        return found

    async def migrate(self) -> None:
        """Runs `shardql migrate` with the newer release."""
        words = ("-m", "graphql_api.cli", "migrate", f"{RELEASES}:NEWER", "--store", self.url, "--apply")
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdout=PIPE, stderr=PIPE, cwd=ROOT, env=environment(**self.variables)
        )
        output, log = await process.communicate()
        assert process.returncode == 0, log.decode() + output.decode()


@dataclass
class Client:
    """A client with users and tags of its own. It sends each request to any of the servers that run."""

    rollout: Rollout
    number: int
    random: Random
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """by release and request"""
    most_users: int = 5
    """later ones are created in the new generation"""

    async def act(self) -> None:
        """Sends a request, and compares the answer."""
        release = self.random.choice([*self.rollout.clients])
        await self._send(release, self.random.choice(self._actions(release)))

    async def act_in_all_ways(self) -> None:
        """Sends all kinds of requests to each server."""
        for release in [*self.rollout.clients]:
            for action in self._actions(release):
                if release in self.rollout.clients:  # it may be stopped meanwhile
                    await self._send(release, action)

    def _actions(self, release: str) -> Sequence[Callable[[str], Awaitable[bool]]]:
        actions = [self._put_user, self._put_user, self._read_user, self._find_names, self._put_tag, self._find_tags]
        return actions + ([self._find_town] if release == "NEWER" else [])

    async def _send(self, release: str, action: Callable[[str], Awaitable[bool]]) -> None:
        if await action(release):
            self.answers[release, action.__name__] += 1

    async def _put_user(self, release: str) -> bool:
        number = self.random.randrange(self.most_users)
        user_id, town = f"u{self.number}-{number}", self._town()
        created = BEFORE if number < Client.most_users else AFTER
        own = {"userId": user_id, "name": user_id, "town": town, "email": user_id, "created": created}
        note = {"note": f"{self.random.random()}"} if release == "NEWER" else {}
        if await self.rollout.execute(release, PUT_USER, input={**own, **note}) is None:
            return False
        self.users[user_id] = {"note": None, **self.users.get(user_id, {}), "town": town, **note}
        return True

    async def _read_user(self, release: str) -> bool:
        user_id = f"u{self.number}-{self.random.randrange(self.most_users)}"
        found = await self.rollout.execute(release, USER[release], id=user_id)
        stored = self.users.get(user_id)
        names = ("town", "note") if release == "NEWER" else ("town",)
        assert found == (None if stored is None else {name: stored[name] for name in names}), (release, user_id)
        return True

    async def _find_names(self, release: str) -> bool:
        found = await self.rollout.execute(release, BY_NAME, name=f"u{self.number}-")
        expected = [{"userId": user_id, "town": self.users[user_id]["town"]} for user_id in sorted(self.users)]
        assert found is not None, "the index of both releases is ready"
        assert found["items"] == expected, release
        return True

    async def _find_town(self, release: str) -> bool:
        town = self._town()
        found = await self.rollout.execute(release, BY_TOWN, town=town)
        expected = [{"userId": user_id} for user_id in sorted(self.users) if self.users[user_id]["town"] == town]
        assert found is None or found["items"] == expected, (release, town)
        return found is not None

    async def _put_tag(self, release: str) -> bool:
        tag_id, label = f"t{self.number}-{self.random.randrange(5)}", self._label()
        if await self.rollout.execute(release, PUT_TAG, input={"tagId": tag_id, "label": label}) is None:
            return False
        self.tags[tag_id] = label
        return True

    async def _find_tags(self, release: str) -> bool:
        label = self._label()
        found = await self.rollout.execute(release, BY_INITIAL, label=label)
        if found is None:
            return False
        expected = [{"tagId": tag_id, "label": label} for tag_id in sorted(self.tags) if self.tags[tag_id] == label]
        own = [one for one in found["items"] if one["tagId"].startswith(f"t{self.number}-")]
        assert own == expected, release
        return True

    def _town(self) -> str:
        return f"t{self.number}-{self.random.randrange(3)}"

    def _label(self) -> str:
        return self.random.choice(LABELS)
