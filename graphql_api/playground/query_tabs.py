"""Tabs for GraphiQL, written from the catalog: operations that run as they are, and teach what else can be asked."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from graphql_api.model import Catalog, Entity, EntitySpec, JoinSpec, camel_case, capitalized, is_open
from graphql_api.playground.access_paths import Way, answers_everybody, needed_id, ways_of
from graphql_api.playground.mutation_tabs import EditTabs
from graphql_api.playground.tab_text import Tab, and_joined, braced, comment, document, gap_comment, rules_comment
from graphql_api.schema import YEAR, Graph, Names, example_range, groups_of, literal, orders_of

PAGE = 5
"""records of a page: few enough to see the answer whole"""

MAX_FIELDS = 6
"""of a record, unless its key and its order need more"""

MAX_JOINED = 3
"""fields of a record that another one shows"""

MAX_NAMES = 3
"""of entities, in a title"""


def title_of(catalog: Catalog) -> str:
    """What a catalog is called where people see it: its namespace, else its first entities."""
    if catalog.namespace is not None:
        return catalog.namespace
    names = [spec.type_name for spec in catalog.entities.values()]
    further = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {further} more" if further > 0 else "")


def tabs_of(graph: Graph, records: Iterable[Entity] = (), *, read_only: bool = False) -> tuple[Tab, ...]:
    """One tab for each manner of asking, over the entity and the index that show it best; then some that write.

    Where a search needs an id or the value of a hash property, it takes those of `records`, which are in the store;
    without a record there is a gap to fill, and the comment says with what. `read_only`: nothing can be written.
    """
    catalog, schema = graph.catalog, graph.read_only_schema if read_only else graph.schema
    known: dict[str, list[Entity]] = {}
    for record in records:
        known.setdefault(catalog.entity(type(record)).name, []).append(record)
    writer = _Writer(catalog, graph.names, {name: found[0] for name, found in known.items()})
    ways = writer.ways()
    edits = EditTabs(catalog, graph.names, schema._schema, known)  # noqa: SLF001 - its only way
    return (*writer.tabs(ways), *edits.tabs(next(iter(ways), None), writer.record_fields))


@dataclass(frozen=True, slots=True)
class _Writer:
    catalog: Catalog
    names: Names
    known: Mapping[str, Entity]

    # --- which tabs --------------------------------------------------------------------------------------------

    def ways(self) -> list[Way]:
        """All searches, and first the one that shows best what a search is."""
        # A search by names, as (last name, first name, created) is one, shows more than one by a number or an id.
        return sorted(
            ways_of(self.catalog, self.names, self.known),
            key=lambda way: (
                not way.is_open,
                len(way.gaps),
                way.index.physical is None,
                way.kind != "text",
                -len(way.index.sort),
            ),
        )

    def tabs(self, best_first: Sequence[Way]) -> Iterator[Tab]:
        """First what answers everybody and runs as it is, then the entity of the first tab, then declared order."""
        main = next(iter(best_first), None)
        if main is None:
            yield from map(self.one, self.catalog.entities.values())
            return
        order = [*self.catalog.entities.values()]
        ways = sorted(
            best_first,
            key=lambda way: (
                not way.is_open,
                bool(way.gaps),
                way.entity is not main.entity,
                order.index(way.entity),
            ),
        )
        yield self.paging(main)
        yield self.one(main.entity)
        searched = [way for way in ways if way.kind is not None]
        newest = next((way for way in searched if way.kind == "time"), next(iter(searched), main))
        yield self.reverse(newest)
        # Another index than the newest's, and one by a time rather than one by a number or a text, if there is any.
        ranges = sorted(searched, key=lambda way: (way is newest, way.kind != "time", way.kind != "number"))
        yield from map(self.between, [way for way in ranges if way.kind != "other"][:1])
        yield from self.listed(main)
        yield self.backward(main)
        hashed = [way for way in ways if way.needed and way is not main]
        yield from map(self.needing, sorted(hashed, key=lambda way: way.entity is main.entity)[:1])

    # --- what they say -----------------------------------------------------------------------------------------

    def paging(self, way: Way) -> Tab:
        """A search, and how to get on in it."""
        return self._tab(
            capitalized(way.field),
            [
                comment(
                    f"{self._records(way)}, {PAGE} at a time: all shards at once, in one exact order.",
                    "Ctrl-Enter runs it.",
                ),
                comment(
                    "While nextToken is not null, more follows: copy it into the variables below, with its quotes, and",
                    "run it again.",
                ),
                comment(self._conditions(way)),
            ],
            way,
            [f"limit: {PAGE}", "nextToken: $nextToken"],
            variable="nextToken",
        )

    def one(self, entity: EntitySpec) -> Tab:
        """One record by its id, with what it shows of others."""
        needed = (needed_id(entity, self.known.get(entity.name)),) if entity.ids else ()
        name = self.names.record(entity)
        what = f"One {entity.type_name}, {'by its id' if needed else 'of which there is one'}"
        if entity.sub_ids:
            what = f"The {'last' if entity.current is None else 'current'} entry of one {entity.type_name}"
        joins = self._joins(entity)
        shown = [camel_case(join.name) for join in joins]
        return Tab(
            capitalized(name),
            document(
                f"query {capitalized(name)}",
                [
                    comment(f"{what}: a single read, or null where there is none."),
                    comment(f"What it shows of others ({and_joined(shown)}) is read in one step more.")
                    if shown
                    else "",
                    comment("node(id: …) finds it by its id, as it finds every record."),
                    gap_comment([one.name for one in needed if not one.known]),
                    rules_comment(open_to_all=answers_everybody(entity, None)),
                ],
                name,
                [one.text for one in needed],
                ["id", *self._fields(entity, None), *chain.from_iterable(map(self._joined, joins))],
            ),
        )

    def reverse(self, way: Way) -> Tab:
        """A search from its other end."""
        newest = way.kind == "time"
        return self._tab(
            "Newest" if newest else "Reverse",
            [
                comment(
                    f"{self._records(way)}, from its end{', the newest first' if newest else ''}.",
                    "reverse goes with every search, and costs the same.",
                )
            ],
            way,
            ["reverse: true", f"limit: {PAGE}"],
        )

    def between(self, way: Way) -> Tab:
        """A search within bounds."""
        bounds, words = self._bounds(way)
        return self._tab(
            "Range",
            [
                comment(
                    f"{way.entity.type_name} records whose {self._first(way)} is {words}.",
                    "from and to are part of the range; without one of them that end is open.",
                )
            ],
            way,
            [*bounds, f"limit: {PAGE}"],
        )

    def listed(self, way: Way) -> Iterator[Tab]:
        """The same entity in another order."""
        for number, group in enumerate(groups_of(way.entity)):
            orders = [
                order
                for order, (index, _) in orders_of(group).items()
                if index is not way.index and answers_everybody(way.entity, index) >= way.is_open
            ]
            if way.index in group and orders:
                field = self.names.listed(way.entity, way.index.hash, first=number == 0)
                listing = replace(way, field=field, index=orders_of(group)[min(orders, key=len)][0])
                yield self._tab(
                    capitalized(field),
                    [
                        comment(
                            f"{way.entity.type_name} records in any order that an index holds.",
                            "Ctrl-Space behind orderBy: proposes them all.",
                        )
                    ],
                    listing,
                    [f"orderBy: {min(orders, key=len)}", f"limit: {PAGE}"],
                )

    def backward(self, way: Way) -> Tab:
        """The last page, and those before it."""
        return self._tab(
            "LastPage",
            [
                comment(
                    f"The last {PAGE} {self._records(way)}.",
                    "They cost what the first cost, however many there are.",
                ),
                comment("For those before them, copy startCursor into the variables below, with its quotes."),
                comment("Forward this style has first and after; Relay and Apollo Client speak it."),
            ],
            way,
            [f"last: {PAGE}", "before: $before"],
            variable="before",
        )

    def needing(self, way: Way) -> Tab:
        """A search that has to be told what it is about."""
        given = " and ".join(one.name for one in way.needed)
        return self._tab(
            capitalized(way.field),
            [comment(f"{self._records(way)}, with one {given}: only shards that can hold them are asked.")],
            way,
            [f"limit: {PAGE}"],
        )

    # --- its parts ---------------------------------------------------------------------------------------------

    def _tab(
        self, title: str, comments: Sequence[str], way: Way, arguments: Sequence[str], *, variable: str | None = None
    ) -> Tab:
        """The search as pages of items, or of edges where it walks by `before`; how to get on stands above them."""
        fields = self._fields(way.entity, way)
        selection = ["nextToken", *braced("items", fields)]
        if variable == "before":
            page_info = ["hasPreviousPage", "startCursor"]
            selection = [*braced("pageInfo", page_info), *braced("edges", braced("node", fields))]
        head = f"query {title}" + (f"(${variable}: String)" if variable else "")
        given = [*(one.text for one in way.needed), *arguments]
        ends = [gap_comment(way.gaps), rules_comment(open_to_all=way.is_open)]
        query = document(head, [*comments, *ends], way.field, given, selection)
        return Tab(title, query, json.dumps({variable: None}, indent=2) if variable else "")

    def _fields(self, entity: EntitySpec, way: Way | None) -> list[str]:
        """The key, what the order is made from, then others as declared."""
        ordered = [sort.property for sort in way.index.sort] if way else []
        sources = [entity.properties[name] for part in ordered for name in part.given_by]
        plain = [
            part
            for part in entity.properties.values()
            if part.codec is not None and part.function is None and is_open(part.allow)
        ]
        wanted = dict.fromkeys(part.name for part in (*entity.primary, *sources))
        further = (part.name for part in plain if part.name not in wanted)
        wanted |= dict.fromkeys(islice(further, max(0, MAX_FIELDS - len(wanted))))
        return [self.names.dialect.property(name) for name in wanted]

    def record_fields(self, entity: EntitySpec) -> list[str]:
        """The key of a record, then others as declared."""
        return self._fields(entity, None)

    def _joins(self, entity: EntitySpec) -> list[JoinSpec]:
        """The first join of each kind that shows everybody something."""
        first: dict[str, JoinSpec] = {}
        for join in entity.joins.values():
            target = self.catalog.entities[join.target]
            search = None if join.via is None else target.unions.get(join.via) or target.indexes[join.via]
            if answers_everybody(target, search) and all(is_open(part.allow) for part in join.by):
                first.setdefault(join.kind, join)
        return [*first.values()]

    def _joined(self, join: JoinSpec) -> list[str]:
        """The beginning of what a join shows."""
        fields = self._fields(self.catalog.entities[join.target], None)[:MAX_JOINED]
        if join.kind == "page":
            return braced(f"{camel_case(join.name)}(limit: {PAGE})", braced("items", fields))
        return braced(camel_case(join.name), fields)

    def _bounds(self, way: Way) -> tuple[list[str], str]:
        """Bounds that records lie between, as arguments and in words: of a text, that of a known record."""
        assert way.first is not None
        codec = way.first.column.codec
        if way.kind == "text" and way.record and (value := getattr(way.record, way.first.name)) is not None:
            return [f"from: {literal(codec, value)}"], f"{literal(codec, value)} or behind it"
        low, high = example_range(codec)
        return [f"from: {low}", f"to: {high}"], f"in {YEAR}, UTC" if way.kind == "time" else f"from {low} to {high}"

    def _conditions(self, way: Way) -> str:
        """What else may be asked of the first property of the order; of a text, how a known record's begins."""
        if way.first is None or way.kind is None:
            return ""
        if way.kind != "text":
            return f"The conditions eq, from and to are about {self._first(way)}."
        value = getattr(way.record, way.first.name, None)
        beginning = literal(way.first.column.codec, value[:1]) if isinstance(value, str) and value else '"j"'
        return f"With prefix: {beginning} in front of limit come those whose {self._first(way)} begins so."

    def _records(self, way: Way) -> str:
        parts = [
            self.names.dialect.property(part.property.name) + (" (descending)" * part.descending)
            for part in way.index.sort
        ]
        return f"{way.entity.type_name} records in the order of {', '.join(parts) or 'their ids'}"

    def _first(self, way: Way) -> str:
        return self.names.dialect.property(way.first.name) if way.first else ""
