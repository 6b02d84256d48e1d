"""Random programs: a catalog, records, and what a caller may do with them, drawn step by step.

Hypothesis draws catalogs, records and searches. Steps come from a generator that is seeded by these, since Hypothesis
leans to programs in which little happens.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from graphql_api.cli.commands.sample import json_line
from graphql_api.codecs.record_key import RecordKey, RecordKeySeal
from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.ops.loader import load_lines
from graphql_api.query.search_request import MAX_LIMIT
from tests.laws.search_world import GROWTH, KEYS, Drawn, Record, World, build, changed, records, searches, seen
from tests.same_pages.twins import Twins, error_view, plain

KEY_SEAL = RecordKeySeal(b"this secret never changes at all")
STEPS = [
    *("page", "page", "page", "page", "page", "page backward", "page backward", "write", "write", "update", "delete"),
    *("get", "load", "record key", "growth", "time", "mistake", "mistake"),
]
BAD_LINES = [b"no json\n", b"{}\n", b'{"key": "a", "colour": 1}\n', b"[1]\n", b'{"key": ""}\n', b"\xff\n"]
MISTAKES: list[dict[str, Any]] = [
    {"limit": 0},
    {"limit": MAX_LIMIT + 1},
    {"first": 2, "limit": 2},
    {"last": -1},
    {"colour": 1},
    {"next_token": "no token"},
    {"after": ""},
    {"on_shard_failure": "HOPE"},
    {"eq": object},
]
LIFETIME = 25 * 3_600
"""of a token, at most: it knows the hour in which it was made"""
LIMITS = [1, 2, 3, 7, 50]

Tokens = tuple[str | None, str | None]
"""of one place on each engine"""


@dataclass
class Program:
    """A program on its way."""

    random: Random
    twins: Twins
    world: World
    searches: Sequence[Drawn]
    filters: Sequence[Any]
    """of each search; None: it has none"""
    spare: Sequence[Record]
    """what is yet to be written"""
    folder: Path
    """for files to load"""
    stored: dict[tuple[Any, ...], Record] = field(default_factory=dict)
    """what the records must be, by their primary keys"""
    tokens: dict[int, list[Tokens]] = field(default_factory=dict)
    """what was handed out, by the number of the search"""
    ends: set[Tokens] = field(default_factory=set)
    """those of them at which a page ended, on one of the engines behind its last record"""
    may_tie: bool = True
    least_created: int = 0

    def choose(self, what: str, *values: Any) -> Any:
        chosen = self.random.choice(values)
        note(f"{what}: {chosen!r}")
        return chosen

    def primary(self, record: Record) -> tuple[Any, ...]:
        return tuple(record[name] for name in KEYS if name in record)

    def ties(self, search: Drawn) -> bool:
        """Whether some records stand at one place of a raw index."""
        if not search.raw:
            return False
        name = search.order[0].name
        values = [record[name] for record in self.stored.values() if record[name] is not None]
        return len({*values}) < len(values)

    async def step(self) -> None:
        """Does one thing on both engines."""
        name = self.choose("step", *STEPS)
        if (name in {"update", "delete", "record key"} and not self.stored) or (
            name == "growth" and self.least_created
        ):
            return
        seen[f"step {name}"] += 1
        match name:
            case "page" | "page backward":
                await self.page(backward=name == "page backward")
            case "write":
                await self.write(self.others())
            case "update":
                await self.write([changed(self.some(), other) for other in self.others()[:1]])
            case "load":
                await self.load(self.others())
            case "time":
                self.twins.clock.now += self.choose("seconds", 1, 1, 3_600, LIFETIME)
                self.forget_ties()
            case "growth":
                self.grow()
            case "delete":
                await self.delete()
            case "get":
                await self.get()
            case "record key":
                await self.record_key()
            case "mistake":
                await self.mistake()

    def grow(self) -> None:
        """From now on new records go to a generation of their own; tokens from before stay good."""
        self.least_created = GROWTH
        self.world = build(self.world.shape.grown(self.choose("new shards", 1, 7)))
        self.twins.grow(self.world.catalog)

    def others(self) -> list[Record]:
        """A few records to write, mostly with the creation values that their ids have."""
        chosen = self.random.sample(self.spare, k=min(len(self.spare), self.random.randint(1, 5)))
        created = {(record["key"], record.get("part")): record["created"] for record in self.stored.values()}
        some = []
        for record in chosen:
            new = {**record, "created": self.least_created + record["created"]}
            if self.random.random() < 0.8:
                new["created"] = created.setdefault((record["key"], record.get("part")), new["created"])
            some.append(new)
        note(f"others: {some}")
        return some

    def some(self) -> Record:
        return self.stored[self.choose("record", *self.stored)]

    # --- searching

    async def page(self, *, backward: bool) -> None:
        """A page from any place that is known, with any size, either way."""
        number = self.choose("search", *range(len(self.searches)))
        known = self.tokens.get(number, [])
        if backward and (self.ties(self.searches[number]) or self.filters[number] is not None):
            # Engines show other records that do not count: on one of them the last record may precede its page's end.
            known = [tokens for tokens in known if tokens not in self.ends]
        tokens = self.choose("from", (None, None), *known)
        names = ("last", "before") if backward else self.choose("style", ("limit", "next_token"), ("first", "after"))
        await self.ask(number, tokens, self.choose("limit", *LIMITS), names, reverse=self.reverse(number))

    def reverse(self, number: int) -> bool:
        """The direction belongs to a search as its arguments do."""
        return bool(number % 2)

    async def ask(
        self, number: int, tokens: Tokens, limit: int, names: tuple[str, str], **more: Any
    ) -> tuple[Any, Any] | None:
        """A page of each engine, each by its own token of the place, or where nothing ties by the other's."""
        search, filter = self.searches[number], self.filters[number]
        index = getattr(self.world.thing, search.index)
        ties = self.ties(search)
        if not ties and self.choose("tokens", "own", "the other's") != "own":
            tokens = tokens[::-1]

        def act(db: Database, engine: int) -> Any:
            paging = {names[0]: limit, names[1]: tokens[engine]}
            return db.search(index, **{**search.arguments, "filter": filter, **paging, **more})

        found = await self.twins.pages(act, search.order[0].name, ties=ties, filtered=filter is not None)
        if found is not None:
            one, other = found
            kept = self.tokens.setdefault(number, [])
            kept += zip(one.cursors, other.cursors, strict=True)
            end = one.next_token, other.next_token
            if one.next_token is not None and end not in kept:
                self.ends.add(end)
                kept.append(end)
            expired = (record["expires"] for record in self.stored.values())
            seen["page among expired"] += any(at is not None and at <= self.twins.clock() for at in expired)
            seen["page with ties"] += ties and bool(one.items)
            seen["filtered page"] += filter is not None and bool(one.items)
            seen["tokens that differ"] += one.next_token != other.next_token and not ties
            seen["page without ties"] += search.raw and not ties and bool(one.items)
        return found

    async def whole(self, number: int) -> None:
        """All pages of a search: together they are the same records, ties included."""
        tokens: Tokens | None = (None, None)
        items: list[list[Record]] = [[], []]
        pages = 0
        while tokens is not None:
            limit = self.choose("limit", 2, 7, 50)
            found = await self.ask(number, tokens, limit, ("limit", "next_token"), reverse=self.reverse(number))
            assert found is not None
            for page, so_far in zip(found, items, strict=True):
                so_far += [plain(item) for item in page.items]
            tokens = None if found[0].next_token is None else (found[0].next_token, found[1].next_token)
            pages += 1
        seen["several pages"] += pages > 1
        one, other = (sorted(map(repr, so_far)) for so_far in items)
        assert one == other

    async def long_after(self) -> None:
        """Tokens have expired, and both say so."""
        self.twins.clock.now += LIFETIME
        for number, kept in self.tokens.items():
            for tokens in kept[-1:]:
                names = ("limit", "next_token")
                assert await self.ask(number, tokens, 1, names, reverse=self.reverse(number)) is None

    async def mistake(self) -> None:
        """What no search takes, is refused by both in the same words."""
        number = self.choose("search", *range(len(self.searches)))
        search = self.searches[number]
        of_others = [
            {"next_token": tokens[0]}
            for other, kept in self.tokens.items()
            for tokens in kept
            if other != number and tokens[0] is not None
        ]
        mistakes = of_others if of_others and self.choose("token of another search", True, False) else MISTAKES
        given = {**search.arguments, "filter": self.filters[number], **self.choose("mistake", *mistakes)}
        index = getattr(self.world.thing, search.index)
        principal = self.choose("principal", None, "somebody else")

        def act(db: Database, _: int) -> Any:
            return replace(db, principal=principal).search(index, reverse=self.reverse(number), **given)

        await self.twins.pages(act, search.order[0].name, ties=self.ties(search))

    # --- reading by id

    async def get(self) -> None:
        """A record by its whole key, by its id alone, or by one that nobody has."""
        record = self.some() if self.stored else dict.fromkeys(self.world.primary, "nobody")
        names = self.choose("by", self.world.primary, self.world.ids)
        parts = {name: record[name] for name in names} | self.choose("but", {}, {"key": "nobody"})
        consistent = self.choose("consistent", True, False)
        await self.twins.same(lambda db: _get(db, self.world, parts, consistent=consistent))

    async def record_key(self) -> None:
        """A key made of what one engine gave opens the same record on the other, and is the same text."""
        record = self.some()
        spec = self.twins.catalog.entity(self.world.thing)
        texts = []
        for db, other in ((self.twins.sqlite, self.twins.dynamodb), (self.twins.dynamodb, self.twins.sqlite)):
            found = await db.get(self.world.thing, **{name: record[name] for name in self.world.primary})
            if found is None:
                continue  # It has expired.
            ids, children = ([getattr(found, part.name) for part in parts] for parts in (spec.ids, spec.sub_ids))
            generation = spec.space.generation_at(found.created)  # type: ignore[attr-defined]  # a drawn entity
            texts.append(KEY_SEAL.seal(RecordKey(spec.name, (*ids,), (*children,), db.tenant, generation)))
            key = KEY_SEAL.open(texts[-1], origin=spec.name, tenant=other.tenant)
            parts: Record = dict(zip(self.world.primary, (*key.ids, *key.children), strict=True))
            there = await other.get(self.world.thing, **parts)
            assert there == found
        assert len({*texts}) <= 1
        seen["record key opened"] += len(texts) == 2

    # --- writing

    async def write(self, some: Sequence[Record]) -> None:
        """Records in place of those with their ids, each accepted or refused in the same words."""
        some = self.fitting(some)
        things = [self.world.thing(**record) for record in some]
        told = await self.twins.same(lambda db: _put(db, things))
        self.keep([record for record, problem in zip(some, told, strict=True) if problem is None])

    async def load(self, some: Sequence[Record]) -> None:
        """A file of JSON lines, some of which are no records: written, counted and rejected alike."""
        some = self.fitting(some)
        spec = self.twins.catalog.entity(self.world.thing)
        bad = self.random.choices(BAD_LINES, k=self.random.choice([0, 0, 1, 2]))
        lines = [*bad, *(json_line(spec, self.world.thing(**record)) for record in some)]
        batch = self.choose("batch", 1, 2, 1000)

        async def act(db: Database) -> Any:
            file = self.folder / "lines.jsonl"
            file.write_bytes(b"".join(lines))
            progress = await load_lines(db.put_many, spec, file, batch=batch)
            rejects = file.with_name(f"{file.name}.rejected")
            told = rejects.read_text(encoding="utf-8") if rejects.exists() else ""
            rejects.unlink(missing_ok=True)
            return asdict(progress), told

        progress, told = await self.twins.same(act)
        rejected = {json.loads(line)["line"] for line in told.splitlines()}
        self.keep([record for place, record in enumerate(some, len(bad) + 1) if place not in rejected])
        seen["line rejected"] += progress["rejected"] > 0
        seen["line loaded"] += progress["written"] > 0

    async def delete(self) -> None:
        """One record less."""
        gone = self.some()
        parts = {name: gone[name] for name in self.world.primary}
        await self.twins.same(lambda db: db.delete(self.world.thing, **parts))
        self.forget_ties()
        del self.stored[self.primary(gone)]
        self.forget_ties()

    def fitting(self, some: Sequence[Record]) -> list[Record]:
        """Of some records those that tie with no other one, in a program that is to have no ties."""
        if self.may_tie:
            return [*some]
        fitting: list[Record] = []
        for record in some:
            others = [other for key, other in self.stored.items() if key != self.primary(record)] + fitting
            names = ("raw_text", "raw_number", "raw_state")
            if not any(record[name] is not None and record[name] == other[name] for name in names for other in others):
                fitting.append(record)
        return fitting

    def keep(self, written: Sequence[Record]) -> None:
        self.forget_ties()
        self.stored |= {self.primary(record): record for record in written}
        self.forget_ties()

    def forget_ties(self) -> None:
        """Among ties a change takes other records from before a place than from behind it, on each engine others."""
        for number, search in enumerate(self.searches):
            if self.ties(search):
                self.tokens.pop(number, None)


async def _get(db: Database, world: World, parts: Record, *, consistent: bool) -> Record | None:
    found = await db.get(world.thing, consistent=consistent, **parts)
    return None if found is None else plain(found)


async def _put(db: Database, things: Sequence[Any]) -> list[Any]:
    return [_problem(problem) for problem in await db.put_many(things)]


def _problem(problem: ShardQLError | None) -> Any:
    return None if problem is None else error_view(problem)


def draw_program(data: st.DataObject, world: World, twins: Twins, folder: Path) -> tuple[Program, list[Record]]:
    """A program that has done nothing yet, and the records that it begins with."""
    begin = [record for _ in range(3) for record in data.draw(records(world.shape), label="records")]
    spare = data.draw(records(world.shape).filter(bool), label="spare records")
    drawn = [data.draw(searches(world, begin), label="search") for _ in range(2)]
    random = Random(f"{data.draw(st.integers(0, 2**32), label='seed')} {world.shape} {begin} {drawn}")
    filters = [draw_filter(random, begin) if random.random() < 0.6 else None for _ in drawn]
    return Program(random, twins, world, drawn, filters, spare, folder, may_tie=random.random() < 0.5), begin


def draw_filter(random: Random, known: Sequence[Record], depth: int = 2) -> Any:
    """A filter that some of the known records often meet."""
    joint = random.choice(["and", "or", "not"]) if depth and random.random() < 0.4 else ""
    if joint == "not":
        return {"not": draw_filter(random, known, depth - 1)}
    if joint:
        return {joint: [draw_filter(random, known, depth - 1) for _ in range(random.choice([1, 2, 2]))]}
    record: Record = random.choice(known) if known else {"created": 0, "key": "a"}
    name = random.choice([*record])
    value = record[name]
    if value is None:
        return {name: {"exists": random.random() < 0.5}}
    operation = random.choice(["eq", "ne", "in", "lt", "le", "ge", "gt", "exists"])
    if isinstance(value, str) and random.random() < 0.5:
        begin = random.randint(0, len(value))
        operation, value = random.choice([("prefix", value[:begin]), ("contains", value[begin:])])
    asked = {"in": [value], "exists": random.random() < 0.5}
    return {name: {operation: asked.get(operation, value)}}
