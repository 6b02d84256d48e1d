"""Sample operations for the tabs of GraphiQL, generated from a catalog. They run unchanged."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from graphql_api.model import Catalog, Entity, EntitySpec, JoinSpec, allows_anyone, camel_case, capitalized
from graphql_api.playground.access_paths import AccessPath, find_access_paths, id_argument, is_open_to_all
from graphql_api.playground.mutation_tabs import MutationTabs
from graphql_api.playground.tab_text import (
    Tab,
    access_comment,
    block,
    comment,
    join_names,
    operation_text,
    placeholder_comment,
)
from graphql_api.schema import (
    EXAMPLE_YEAR,
    Graph,
    GraphQLNames,
    available_orders,
    example_range,
    indexes_by_hash,
    scalar_literal,
)

PAGE_SIZE = 5
"""Records per page. The whole response is visible without scrolling."""

MAX_FIELDS = 6
"""Selected fields of a record, unless its key and its sort order need more."""

MAX_JOINED_FIELDS = 3
"""Selected fields of a joined record."""

MAX_TITLE_NAMES = 3
"""Entity names in a title."""


def catalog_title(catalog: Catalog) -> str:
    """Return the title of the page: the namespace of the catalog, or the names of its first entities."""
    if catalog.namespace is not None:
        return catalog.namespace
    names = [spec.type_name for spec in catalog.entities.values()]
    omitted = len(names) - MAX_TITLE_NAMES
    return ", ".join(names[:MAX_TITLE_NAMES]) + (f" and {omitted} more" if omitted > 0 else "")


def sample_tabs(graph: Graph, records: Iterable[Entity] = (), *, read_only: bool = False) -> tuple[Tab, ...]:
    """Return one tab per kind of query, on the entity and index that show it best, followed by mutations.

    `records`: stored records. Required arguments take their values, so that the operations return results. Without a
    record the value is a placeholder, and a comment names the argument. `read_only`: omit the mutations.
    """
    catalog, schema = graph.catalog, graph.read_only_schema if read_only else graph.schema
    stored: dict[str, list[Entity]] = {}
    for record in records:
        stored.setdefault(catalog.entity(type(record)).name, []).append(record)
    queries = _QueryTabs(catalog, graph.names, {name: samples[0] for name, samples in stored.items()})
    paths = queries.ranked_paths()
    mutations = MutationTabs(catalog, graph.names, schema._schema, stored)  # noqa: SLF001 - no public API
    return (*queries.tabs(paths), *mutations.tabs(next(iter(paths), None), queries.record_fields))


@dataclass(frozen=True, slots=True)
class _QueryTabs:
    catalog: Catalog
    names: GraphQLNames
    samples: Mapping[str, Entity]
    """A stored record of some entities, by entity name."""

    # --- selection of tabs -------------------------------------------------------------------------------------

    def ranked_paths(self) -> list[AccessPath]:
        """Return all searches, the best example first."""
        # A search by several names, such as (last name, first name, created), is a better example than by a number.
        return sorted(
            find_access_paths(self.catalog, self.names, self.samples),
            key=lambda path: (
                not path.is_open,
                len(path.placeholders),
                path.index.physical is None,
                path.sort_kind != "text",
                -len(path.index.sort),
            ),
        )

    def tabs(self, ranked_paths: Sequence[AccessPath]) -> Iterator[Tab]:
        """Return the tabs.

        Searches that are open to all and need no placeholder are preferred, then the entity of the first tab, then the
        order of declaration.
        """
        main = next(iter(ranked_paths), None)
        if main is None:
            yield from map(self.record, self.catalog.entities.values())
            return
        order = [*self.catalog.entities.values()]
        paths = sorted(
            ranked_paths,
            key=lambda path: (
                not path.is_open,
                bool(path.placeholders),
                path.entity is not main.entity,
                order.index(path.entity),
            ),
        )
        yield self.search(main)
        yield self.record(main.entity)
        sorted_paths = [path for path in paths if path.sort_kind is not None]
        newest = next((path for path in sorted_paths if path.sort_kind == "time"), next(iter(sorted_paths), main))
        yield self.reverse(newest)
        # Prefer another index than in the tab before, and times to numbers, numbers to strings.
        by_suitability = sorted(
            sorted_paths, key=lambda path: (path is newest, path.sort_kind != "time", path.sort_kind != "number")
        )
        yield from map(self.bounded_search, [path for path in by_suitability if path.sort_kind != "other"][:1])
        yield from self.ordered_list(main)
        yield self.last_page(main)
        hashed = [path for path in paths if path.required and path is not main]
        yield from map(self.hash_search, sorted(hashed, key=lambda path: path.entity is main.entity)[:1])

    # --- tabs --------------------------------------------------------------------------------------------------

    def search(self, path: AccessPath) -> Tab:
        """Return a search with pagination by token."""
        return self._tab(
            capitalized(path.field),
            [
                comment(
                    f"{self._records(path)}. Each page has {PAGE_SIZE} records, merged from all shards.",
                    "Press Ctrl-Enter to run the query.",
                ),
                comment(
                    "For the next page, copy nextToken with its quotes into the variables below, and run the query",
                    "again. On the last page nextToken is null.",
                ),
                comment(self._conditions(path)),
            ],
            path,
            [f"limit: {PAGE_SIZE}", "nextToken: $nextToken"],
            variable="nextToken",
        )

    def record(self, entity: EntitySpec) -> Tab:
        """Return a read of one record by its id, with its joins."""
        required = (id_argument(entity, self.samples.get(entity.name)),) if entity.ids else ()
        name = self.names.record_field(entity)
        what = f"One {entity.type_name} by its id" if required else f"The only {entity.type_name}"
        if entity.sub_ids:
            what = f"The {'last' if entity.current is None else 'current'} entry of one {entity.type_name}"
        joins = self._joins(entity)
        join_fields = [camel_case(join.name) for join in joins]
        return Tab(
            capitalized(name),
            operation_text(
                f"query {capitalized(name)}",
                [
                    comment(f"{what}, in a single read. The result is null if the record does not exist."),
                    comment(f"Joined records ({join_names(join_fields)}) are read in a second step.")
                    if join_fields
                    else "",
                    comment("node(id: …) reads any record by the value of its field id."),
                    placeholder_comment([argument.name for argument in required if not argument.is_known]),
                    access_comment(open_to_all=is_open_to_all(entity, None)),
                ],
                name,
                [argument.text for argument in required],
                ["id", *self._fields(entity, None), *chain.from_iterable(map(self._join_selection, joins))],
            ),
        )

    def reverse(self, path: AccessPath) -> Tab:
        """Return a search in reverse order."""
        newest = path.sort_kind == "time"
        return self._tab(
            "Newest" if newest else "Reverse",
            [
                comment(
                    f"{self._records(path)}, in reverse order{', newest first' if newest else ''}.",
                    "Every search accepts reverse, at the same cost.",
                )
            ],
            path,
            ["reverse: true", f"limit: {PAGE_SIZE}"],
        )

    def bounded_search(self, path: AccessPath) -> Tab:
        """Return a search with a range condition."""
        bounds, description = self._bounds(path)
        return self._tab(
            "Range",
            [
                comment(
                    f"{path.entity.type_name} records whose {self._sort_field(path)} is {description}.",
                    "from and to are inclusive. Omit one of them for a range without that bound.",
                )
            ],
            path,
            [*bounds, f"limit: {PAGE_SIZE}"],
        )

    def ordered_list(self, path: AccessPath) -> Iterator[Tab]:
        """Return a list of the same entity with an order from orderBy."""
        for number, group in enumerate(indexes_by_hash(path.entity)):
            orders = [
                order
                for order, (index, _) in available_orders(group).items()
                if index is not path.index and is_open_to_all(path.entity, index) >= path.is_open
            ]
            if path.index in group and orders:
                field = self.names.list_field(path.entity, path.index.hash, first=number == 0)
                listing = replace(path, field=field, index=available_orders(group)[min(orders, key=len)][0])
                yield self._tab(
                    capitalized(field),
                    [
                        comment(
                            f"{path.entity.type_name} records in any order that an index supports.",
                            "Press Ctrl-Space after orderBy: to list the orders.",
                        )
                    ],
                    listing,
                    [f"orderBy: {min(orders, key=len)}", f"limit: {PAGE_SIZE}"],
                )

    def last_page(self, path: AccessPath) -> Tab:
        """Return a search from the last page backward, in the style of Relay."""
        return self._tab(
            "LastPage",
            [
                comment(
                    f"The last {PAGE_SIZE} of the {self._records(path)}.",
                    "The last page costs as much as the first page.",
                ),
                comment("For the page before, copy startCursor with its quotes into the variables below."),
                comment("To page forward, use first and after. Relay and Apollo Client use these arguments."),
            ],
            path,
            [f"last: {PAGE_SIZE}", "before: $before"],
            variable="before",
        )

    def hash_search(self, path: AccessPath) -> Tab:
        """Return a search with required arguments."""
        arguments = " and ".join(argument.name for argument in path.required)
        return self._tab(
            capitalized(path.field),
            [comment(f"{self._records(path)}. Requires {arguments}: only the shards of these records are read.")],
            path,
            [f"limit: {PAGE_SIZE}"],
        )

    # --- parts of a tab ----------------------------------------------------------------------------------------

    def _tab(
        self,
        title: str,
        comments: Sequence[str],
        path: AccessPath,
        arguments: Sequence[str],
        *,
        variable: str | None = None,
    ) -> Tab:
        """Return a tab for a search. It selects items, or edges if the variable is `before`."""
        fields = self._fields(path.entity, path)
        selection = ["nextToken", *block("items", fields)]
        if variable == "before":
            page_info = ["hasPreviousPage", "startCursor"]
            selection = [*block("pageInfo", page_info), *block("edges", block("node", fields))]
        head = f"query {title}" + (f"(${variable}: String)" if variable else "")
        all_arguments = [*(argument.text for argument in path.required), *arguments]
        all_comments = [*comments, placeholder_comment(path.placeholders), access_comment(open_to_all=path.is_open)]
        query = operation_text(head, all_comments, path.field, all_arguments, selection)
        return Tab(title, query, json.dumps({variable: None}, indent=2) if variable else "")

    def _fields(self, entity: EntitySpec, path: AccessPath | None) -> list[str]:
        """Return the fields to select: the key, the properties of the sort order, then others as declared."""
        ordered = [sort.property for sort in path.index.sort] if path else []
        sources = [entity.properties[name] for part in ordered for name in part.input_names]
        scalars = [
            part
            for part in entity.properties.values()
            if part.codec is not None and part.function is None and allows_anyone(part.allow)
        ]
        names = dict.fromkeys(part.name for part in (*entity.primary_key, *sources))
        others = (part.name for part in scalars if part.name not in names)
        names |= dict.fromkeys(islice(others, max(0, MAX_FIELDS - len(names))))
        return [self.names.naming.property_name(name) for name in names]

    def record_fields(self, entity: EntitySpec) -> list[str]:
        """Return the fields to select of a record: the key, then others as declared."""
        return self._fields(entity, None)

    def _joins(self, entity: EntitySpec) -> list[JoinSpec]:
        """Return the first join of each kind that any caller may read."""
        first: dict[str, JoinSpec] = {}
        for join in entity.joins.values():
            target = self.catalog.entities[join.target]
            search = None if join.via is None else target.unions.get(join.via) or target.indexes[join.via]
            if is_open_to_all(target, search) and all(allows_anyone(part.allow) for part in join.by):
                first.setdefault(join.kind, join)
        return [*first.values()]

    def _join_selection(self, join: JoinSpec) -> list[str]:
        """Return the selection of a join, with the first fields of its records."""
        fields = self._fields(self.catalog.entities[join.target], None)[:MAX_JOINED_FIELDS]
        if join.kind == "page":
            return block(f"{camel_case(join.name)}(limit: {PAGE_SIZE})", block("items", fields))
        return block(camel_case(join.name), fields)

    def _bounds(self, path: AccessPath) -> tuple[list[str], str]:
        """Return bounds that match records, as arguments and as text. For strings, use the value of the sample."""
        assert path.sort_property is not None
        codec = path.sort_property.column.codec
        value = getattr(path.sample, path.sort_property.name, None)
        if path.sort_kind == "text" and value is not None:
            return [f"from: {scalar_literal(codec, value)}"], f"{scalar_literal(codec, value)} or after it"
        low, high = example_range(codec)
        description = f"in {EXAMPLE_YEAR}, UTC" if path.sort_kind == "time" else f"from {low} to {high}"
        return [f"from: {low}", f"to: {high}"], description

    def _conditions(self, path: AccessPath) -> str:
        """Return a hint on the conditions of the sort property. For strings, the prefix matches the sample."""
        if path.sort_property is None or path.sort_kind is None:
            return ""
        if path.sort_kind != "text":
            return f"The arguments eq, from and to filter by {self._sort_field(path)}."
        value = getattr(path.sample, path.sort_property.name, None)
        prefix = (
            scalar_literal(path.sort_property.column.codec, value[:1]) if isinstance(value, str) and value else '"j"'
        )
        return f"Add prefix: {prefix} before limit to filter by the beginning of {self._sort_field(path)}."

    def _records(self, path: AccessPath) -> str:
        parts = [
            self.names.naming.property_name(part.property.name) + (" (descending)" * part.descending)
            for part in path.index.sort
        ]
        return f"{path.entity.type_name} records ordered by {', '.join(parts) or 'their ids'}"

    def _sort_field(self, path: AccessPath) -> str:
        return self.names.naming.property_name(path.sort_property.name) if path.sort_property else ""
