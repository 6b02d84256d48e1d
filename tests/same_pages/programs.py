"""Random programs: a catalog, records, and operations of a caller, drawn step by step.

Hypothesis draws catalogs, records and searches. Steps come from a generator that is seeded by these, since Hypothesis
favours programs in which little happens.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from graphql_api.codecs.record_key import RecordKey, RecordKeySeal
from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.model import encode_record
from graphql_api.ops import record_line
from graphql_api.ops.loader import load_lines
from graphql_api.query.search_request import MAX_LIMIT
from tests.laws.search_catalogs import (
    GROWTH,
    KEYS,
    DrawnCatalog,
    DrawnSearch,
    Record,
    build,
    records,
    searches,
    seen,
    with_mutable_fields_of,
)
from tests.same_pages.paired_engines import PairedEngines, error_view, record_values

KEY_SEAL = RecordKeySeal(b"this secret never changes at all")
STEPS = [
    *("page", "page", "page", "page", "page", "page backward", "page backward", "write", "write", "update", "delete"),
    *("get", "load", "record key", "growth", "time", "invalid search", "invalid search"),
]
BAD_LINES = [b"no json\n", b"{}\n", b'{"key": "a", "colour": 1}\n', b"[1]\n", b'{"key": ""}\n', b"\xff\n"]
INVALID_ARGUMENTS: list[dict[str, Any]] = [
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
"""maximum lifetime of a token: it stores the hour of its creation"""
LIMITS = [1, 2, 3, 7, 50]

Tokens = tuple[str | None, str | None]
"""tokens of the same position, one for each engine"""


@dataclass
class Program:
    """A running program."""

    random: Random
    pair: PairedEngines
    drawn: DrawnCatalog
    searches: Sequence[DrawnSearch]
    filters: Sequence[Any]
    """of each search; None: no filter"""
    spare: Sequence[Record]
    """records to write later"""
    folder: Path
    """for files to load"""
    stored: dict[tuple[Any, ...], Record] = field(default_factory=dict)
    """the expected records by primary key"""
    tokens: dict[int, list[Tokens]] = field(default_factory=dict)
    """the tokens received, by the number of the search"""
    ends: set[Tokens] = field(default_factory=set)
    """tokens of page ends, which may be past the last record on one engine"""
    allows_ties: bool = True
    least_created: int = 0

    def choose(self, what: str, *values: Any) -> Any:
        chosen = self.random.choice(values)
        note(f"{what}: {chosen!r}")
        return chosen

    def primary_key(self, record: Record) -> tuple[Any, ...]:
        return tuple(record[name] for name in KEYS if name in record)

    def ties(self, search: DrawnSearch) -> bool:
        """Whether some records tie on a raw index."""
        if not search.raw:
            return False
        name = search.order[0].name
        values = [record[name] for record in self.stored.values() if record[name] is not None]
        return len({*values}) < len(values)

    async def step(self) -> None:
        """Runs one step on both engines."""
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
                await self.write(self.spare_records())
            case "update":
                await self.write(
                    [with_mutable_fields_of(self.stored_record(), other) for other in self.spare_records()[:1]]
                )
            case "load":
                await self.load(self.spare_records())
            case "time":
                self.pair.clock.now += self.choose("seconds", 1, 1, 3_600, LIFETIME)
                self.drop_tied_tokens()
            case "growth":
                self.grow()
            case "delete":
                await self.delete()
            case "get":
                await self.get()
            case "record key":
                await self.record_key()
            case "invalid search":
                await self.invalid_search()

    def grow(self) -> None:
        """Adds a generation for new records; earlier tokens stay valid."""
        self.least_created = GROWTH
        self.drawn = build(self.drawn.shape.grown(self.choose("new shards", 1, 7)))
        self.pair.grow(self.drawn.catalog)

    def spare_records(self) -> list[Record]:
        """Returns a few records to write, most of them with the creation values of their ids."""
        chosen = self.random.sample(self.spare, k=min(len(self.spare), self.random.randint(1, 5)))
        created = {(record["key"], record.get("part")): record["created"] for record in self.stored.values()}
        drawn = []
        for record in chosen:
            new = {**record, "created": self.least_created + record["created"]}
            if self.random.random() < 0.8:
                new["created"] = created.setdefault((record["key"], record.get("part")), new["created"])
            drawn.append(new)
        note(f"records: {drawn}")
        return drawn

    def stored_record(self) -> Record:
        return self.stored[self.choose("record", *self.stored)]

    # --- searches

    async def page(self, *, backward: bool) -> None:
        """Reads a page from a known position, with any size, in either direction."""
        number = self.choose("search", *range(len(self.searches)))
        known = self.tokens.get(number, [])
        if backward and (self.ties(self.searches[number]) or self.filters[number] is not None):
            # Engines return different expired or filtered records: one page may end past the last record.
            known = [tokens for tokens in known if tokens not in self.ends]
        tokens = self.choose("from", (None, None), *known)
        names = ("last", "before") if backward else self.choose("style", ("limit", "next_token"), ("first", "after"))
        await self.request_page(number, tokens, self.choose("limit", *LIMITS), names, reverse=self.reverse(number))

    def reverse(self, number: int) -> bool:
        """The direction of a search; it is as fixed as its arguments."""
        return bool(number % 2)

    async def request_page(
        self, number: int, tokens: Tokens, limit: int, names: tuple[str, str], **more: Any
    ) -> tuple[Any, Any] | None:
        """Reads a page of each engine by its own token, or by the token of the other engine if nothing ties."""
        search, filter = self.searches[number], self.filters[number]
        index = getattr(self.drawn.thing, search.index)
        ties = self.ties(search)
        if not ties and self.choose("tokens", "own", "the other's") != "own":
            tokens = tokens[::-1]

        def operation(db: Database, engine: int) -> Any:
            paging = {names[0]: limit, names[1]: tokens[engine]}
            return db.search(index, **{**search.arguments, "filter": filter, **paging, **more})

        found = await self.pair.pages(operation, search.order[0].name, ties=ties, filtered=filter is not None)
        if found is not None:
            one, other = found
            kept = self.tokens.setdefault(number, [])
            kept += zip(one.cursors, other.cursors, strict=True)
            end = one.next_token, other.next_token
            if one.next_token is not None and end not in kept:
                self.ends.add(end)
                kept.append(end)
            expired = (record["expires"] for record in self.stored.values())
            seen["page among expired"] += any(at is not None and at <= self.pair.clock() for at in expired)
            seen["page with ties"] += ties and bool(one.items)
            seen["filtered page"] += filter is not None and bool(one.items)
            seen["tokens that differ"] += one.next_token != other.next_token and not ties
            seen["page without ties"] += search.raw and not ties and bool(one.items)
        return found

    async def read_all_pages(self, number: int) -> None:
        """Reads all pages of a search; both engines return the same records, ties included."""
        tokens: Tokens | None = (None, None)
        items: list[list[Record]] = [[], []]
        pages = 0
        while tokens is not None:
            limit = self.choose("limit", 2, 7, 50)
            found = await self.request_page(
                number, tokens, limit, ("limit", "next_token"), reverse=self.reverse(number)
            )
            assert found is not None
            for page, read in zip(found, items, strict=True):
                read += [record_values(item) for item in page.items]
            tokens = None if found[0].next_token is None else (found[0].next_token, found[1].next_token)
            pages += 1
        seen["several pages"] += pages > 1
        one, other = (sorted(map(repr, read)) for read in items)
        assert one == other

    async def expire_tokens(self) -> None:
        """Lets all tokens expire; both engines report it."""
        self.pair.clock.now += LIFETIME
        for number, kept in self.tokens.items():
            for tokens in kept[-1:]:
                names = ("limit", "next_token")
                assert await self.request_page(number, tokens, 1, names, reverse=self.reverse(number)) is None

    async def invalid_search(self) -> None:
        """Runs an invalid search; both engines report the same error."""
        number = self.choose("search", *range(len(self.searches)))
        search = self.searches[number]
        tokens_of_other_searches = [
            {"next_token": tokens[0]}
            for other, kept in self.tokens.items()
            for tokens in kept
            if other != number and tokens[0] is not None
        ]
        invalid_arguments = (
            tokens_of_other_searches
            if tokens_of_other_searches and self.choose("token of another search", True, False)
            else INVALID_ARGUMENTS
        )
        arguments = {
            **search.arguments,
            "filter": self.filters[number],
            **self.choose("invalid search", *invalid_arguments),
        }
        index = getattr(self.drawn.thing, search.index)
        principal = self.choose("principal", None, "another principal")

        def operation(db: Database, _: int) -> Any:
            return replace(db, principal=principal).search(index, reverse=self.reverse(number), **arguments)

        await self.pair.pages(operation, search.order[0].name, ties=self.ties(search))

    # --- reads by id

    async def get(self) -> None:
        """Reads a record by its whole key, by its id alone, or by an id that does not exist."""
        record = self.stored_record() if self.stored else dict.fromkeys(self.drawn.primary, "missing")
        names = self.choose("by", self.drawn.primary, self.drawn.ids)
        parts = {name: record[name] for name in names} | self.choose("but", {}, {"key": "missing"})
        consistent = self.choose("consistent", True, False)
        await self.pair.run_on_both(lambda db: _get(db, self.drawn, parts, consistent=consistent))

    async def record_key(self) -> None:
        """Record keys from both engines are equal texts, and each opens the same record on the other engine."""
        record = self.stored_record()
        spec = self.pair.catalog.entity(self.drawn.thing)
        texts = []
        for db, other in ((self.pair.sqlite, self.pair.dynamodb), (self.pair.dynamodb, self.pair.sqlite)):
            found = await db.get(self.drawn.thing, **{name: record[name] for name in self.drawn.primary})
            if found is None:
                continue  # It has expired.
            ids, children = ([getattr(found, part.name) for part in parts] for parts in (spec.ids, spec.sub_ids))
            generation = spec.space.generation_at(found.created)  # type: ignore[attr-defined]  # a drawn entity
            texts.append(KEY_SEAL.seal(RecordKey(spec.name, (*ids,), (*children,), db.tenant, generation)))
            key = KEY_SEAL.open(texts[-1], origin=spec.name, tenant=other.tenant)
            parts: Record = dict(zip(self.drawn.primary, (*key.ids, *key.children), strict=True))
            opened = await other.get(self.drawn.thing, **parts)
            assert opened == found
        assert len({*texts}) <= 1
        seen["record key opened"] += len(texts) == 2

    # --- writes

    async def write(self, new_records: Sequence[Record]) -> None:
        """Writes records; both engines accept or reject each of them with the same error."""
        new_records = self.without_ties(new_records)
        things = [self.drawn.thing(**record) for record in new_records]
        outcomes = await self.pair.run_on_both(lambda db: _put(db, things))
        self.remember([record for record, problem in zip(new_records, outcomes, strict=True) if problem is None])

    async def load(self, new_records: Sequence[Record]) -> None:
        """Loads JSON lines, some of them invalid; both engines write, count and reject the same lines."""
        new_records = self.without_ties(new_records)
        spec = self.pair.catalog.entity(self.drawn.thing)
        bad = self.random.choices(BAD_LINES, k=self.random.choice([0, 0, 1, 2]))
        lines = [*bad, *(record_line(spec, encode_record(spec, self.drawn.thing(**record))) for record in new_records)]
        batch = self.choose("batch", 1, 2, 1000)

        async def operation(db: Database) -> Any:
            file = self.folder / "lines.jsonl"
            file.write_bytes(b"".join(lines))
            progress = await load_lines(db.put_many, spec, file, batch=batch)
            rejects = file.with_name(f"{file.name}.rejected")
            rejected_lines = rejects.read_text(encoding="utf-8") if rejects.exists() else ""
            rejects.unlink(missing_ok=True)
            return asdict(progress), rejected_lines

        progress, rejected_lines = await self.pair.run_on_both(operation)
        rejected = {json.loads(line)["line"] for line in rejected_lines.splitlines()}
        self.remember([record for number, record in enumerate(new_records, len(bad) + 1) if number not in rejected])
        seen["line rejected"] += progress["rejected"] > 0
        seen["line loaded"] += progress["written"] > 0

    async def delete(self) -> None:
        """Deletes a record."""
        record = self.stored_record()
        parts = {name: record[name] for name in self.drawn.primary}
        await self.pair.run_on_both(lambda db: db.delete(self.drawn.thing, **parts))
        self.drop_tied_tokens()
        del self.stored[self.primary_key(record)]
        self.drop_tied_tokens()

    def without_ties(self, new_records: Sequence[Record]) -> list[Record]:
        """Returns the records that tie with no other record, if the program has no ties."""
        if self.allows_ties:
            return [*new_records]
        untied: list[Record] = []
        for record in new_records:
            others = [other for key, other in self.stored.items() if key != self.primary_key(record)] + untied
            names = ("raw_text", "raw_number", "raw_state")
            if not any(record[name] is not None and record[name] == other[name] for name in names for other in others):
                untied.append(record)
        return untied

    def remember(self, written: Sequence[Record]) -> None:
        self.drop_tied_tokens()
        self.stored |= {self.primary_key(record): record for record in written}
        self.drop_tied_tokens()

    def drop_tied_tokens(self) -> None:
        """Drops the tokens of tied searches: after a change, engines differ in the tied records before a position."""
        for number, search in enumerate(self.searches):
            if self.ties(search):
                self.tokens.pop(number, None)


async def _get(db: Database, drawn: DrawnCatalog, parts: Record, *, consistent: bool) -> Record | None:
    found = await db.get(drawn.thing, consistent=consistent, **parts)
    return None if found is None else record_values(found)


async def _put(db: Database, things: Sequence[Any]) -> list[Any]:
    return [_problem(problem) for problem in await db.put_many(things)]


def _problem(problem: ShardQLError | None) -> Any:
    return None if problem is None else error_view(problem)


def draw_program(
    data: st.DataObject, drawn: DrawnCatalog, pair: PairedEngines, folder: Path
) -> tuple[Program, list[Record]]:
    """Draws a program that has not started, and its initial records."""
    begin = [record for _ in range(3) for record in data.draw(records(drawn.shape), label="records")]
    spare = data.draw(records(drawn.shape).filter(bool), label="spare records")
    drawn_searches = [data.draw(searches(drawn, begin), label="search") for _ in range(2)]
    random = Random(f"{data.draw(st.integers(0, 2**32), label='seed')} {drawn.shape} {begin} {drawn_searches}")
    filters = [draw_filter(random, begin) if random.random() < 0.6 else None for _ in drawn_searches]
    return Program(
        random, pair, drawn, drawn_searches, filters, spare, folder, allows_ties=random.random() < 0.5
    ), begin


def draw_filter(random: Random, known: Sequence[Record], depth: int = 2) -> Any:
    """Draws a filter that often matches some of the known records."""
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
    special_operands = {"in": [value], "exists": random.random() < 0.5}
    return {name: {operation: special_operands.get(operation, value)}}
