"""Sample operations for the tabs of GraphiQL, generated from a catalog. They run unchanged."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from graphql_api.codecs import EXAMPLE_YEAR, ScalarKind
from graphql_api.model import (
    Catalog,
    Entity,
    EntitySpec,
    IndexSpec,
    JoinSpec,
    PropertySpec,
    UnionSpec,
    allows_anyone,
    camel_case,
    capitalized,
)
from graphql_api.playground.mutation_tabs import mutation_tabs
from graphql_api.playground.tab_text import (
    PLACEHOLDER,
    RequiredArgument,
    Tab,
    block,
    id_argument,
    join_names,
    operation_tab,
)
from graphql_api.schema import (
    Graph,
    GraphQLNames,
    available_orders,
    indexes_by_hash,
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
    main = paths[0].index if paths else None
    mutations = mutation_tabs(graph, schema._schema, stored, main, queries.fields)  # noqa: SLF001 - no public API
    return (*queries.tabs(paths), *mutations)


@dataclass(frozen=True, slots=True)
class AccessPath:
    """A field of the schema that searches one index, with the arguments that it requires."""

    entity: EntitySpec
    index: IndexSpec
    field: str
    required: tuple[RequiredArgument, ...]
    sample: Entity | None
    """A stored record that the search finds, if one is known."""

    @property
    def placeholders(self) -> list[str]:
        """Return the arguments that have a placeholder as value."""
        return [argument.name for argument in self.required if not argument.is_known]

    @property
    def is_open(self) -> bool:
        """Return whether any caller may use the search."""
        return _is_open_to_all(self.entity, self.index)

    @property
    def sort_kind(self) -> ScalarKind | None:
        """Return the kind of values that the results are ordered by; None if the index has no sort property."""
        if not self.index.sort:
            return None
        # The parts of a composite key are one string in conditions, so bounds of the first part mean nothing.
        is_composite = self.index.is_primary and len(self.index.sort) > 1
        return "other" if is_composite else self.index.sort[0].property.kind


def _is_open_to_all(entity: EntitySpec, search: IndexSpec | UnionSpec | None) -> bool:
    """Return whether any caller may search the entity by this index, or read its records by key if `search` is None."""
    return allows_anyone(entity.allow if search is None or search.allow is None else search.allow)


def _hash_argument(name: str, part: PropertySpec, record: Entity | None) -> RequiredArgument:
    codec = part.column.codec
    if record is not None and (value := getattr(record, part.name)) is not None:
        return RequiredArgument(name, codec.literal(value), is_known=True)
    is_known, is_text = codec.cardinality is not None, codec.kind in ("text", "other")
    placeholder = PLACEHOLDER if is_text and not is_known else codec.example_range[0]
    return RequiredArgument(name, placeholder, is_known)


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
            self._access_paths(),
            key=lambda path: (
                not path.is_open,
                len(path.placeholders),
                path.index.is_primary,
                path.sort_kind != "text",
                -len(path.index.sort),
            ),
        )

    def _access_paths(self) -> Iterator[AccessPath]:
        for spec in self.catalog.entities.values():
            sample = self.samples.get(spec.name)
            for index in spec.indexes.values():
                if index.is_primary and not spec.primary_key:
                    continue  # The entity has a single record; the field that reads it is not a search.
                required = [
                    _hash_argument(self.names.naming.property_argument(part.name), part, sample) for part in index.hash
                ]
                arguments = [id_argument(spec, sample)] if index.id_prefix else required
                yield AccessPath(spec, index, self.names.search_field(spec, index), tuple(arguments), sample)

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
            sorted_paths,
            key=lambda path: (path is newest, path.sort_kind != "time", path.sort_kind not in ("integer", "number")),
        )
        yield from map(self.bounded_search, [path for path in by_suitability if path.sort_kind != "other"][:1])
        yield from self.ordered_list(main)
        yield self.last_page(main)
        hashed = [path for path in paths if path.required and path is not main]
        yield from map(self.hash_search, sorted(hashed, key=lambda path: path.entity is main.entity)[:1])

    # --- tabs --------------------------------------------------------------------------------------------------

    def search(self, path: AccessPath) -> Tab:
        return self._tab(
            path,
            capitalized(path.field),
            f"{self._records(path)}. Each page has {PAGE_SIZE} records, merged from all shards. "
            "Press Ctrl-Enter to run the query.",
            "For the next page, copy nextToken with its quotes into the variables below, and run the query again. "
            "On the last page nextToken is null.",
            self._conditions(path),
            arguments=[f"limit: {PAGE_SIZE}", "nextToken: $nextToken"],
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
        joined = join_names([camel_case(join.name) for join in joins])
        return operation_tab(
            "query",
            capitalized(name),
            name,
            f"{what}, in a single read. The result is null if the record does not exist.",
            f"Joined records ({joined}) are read in a second step." if joins else "",
            "node(id: …) reads any record by the value of its field id.",
            arguments=[*map(str, required)],
            selection=["id", *self.fields(entity), *chain.from_iterable(map(self._join_selection, joins))],
            placeholders=[argument.name for argument in required if not argument.is_known],
            open_to_all=_is_open_to_all(entity, None),
        )

    def reverse(self, path: AccessPath) -> Tab:
        newest = path.sort_kind == "time"
        return self._tab(
            path,
            "Newest" if newest else "Reverse",
            f"{self._records(path)}, in reverse order{', newest first' if newest else ''}. "
            "Every search accepts reverse, at the same cost.",
            arguments=["reverse: true", f"limit: {PAGE_SIZE}"],
        )

    def bounded_search(self, path: AccessPath) -> Tab:
        """Return a search with bounds that match records. For strings, use the value of the sample."""
        part = path.index.sort[0].property
        codec, value = part.column.codec, getattr(path.sample, part.name, None)
        if path.sort_kind == "text" and value is not None:
            bounds, description = [f"from: {codec.literal(value)}"], f"{codec.literal(value)} or after it"
        else:
            low, high = codec.example_range
            bounds = [f"from: {low}", f"to: {high}"]
            description = f"in {EXAMPLE_YEAR}, UTC" if path.sort_kind == "time" else f"from {low} to {high}"
        return self._tab(
            path,
            "Range",
            f"{path.entity.type_name} records whose {self._name(part)} is {description}. "
            "from and to are inclusive. Omit one of them for a range without that bound.",
            arguments=[*bounds, f"limit: {PAGE_SIZE}"],
        )

    def ordered_list(self, path: AccessPath) -> Iterator[Tab]:
        """Return a list of the same entity with an order from orderBy."""
        for number, group in enumerate(indexes_by_hash(path.entity)):
            if path.index not in group:
                continue
            indexes = {order: index for order, (index, _) in available_orders(group).items()}
            orders = [
                order
                for order, index in indexes.items()
                if index is not path.index and _is_open_to_all(path.entity, index) >= path.is_open
            ]
            if orders:
                field = self.names.list_field(path.entity, path.index.hash, first=number == 0)
                order = min(orders, key=len)
                yield self._tab(
                    replace(path, field=field, index=indexes[order]),
                    capitalized(field),
                    f"{path.entity.type_name} records in any order that an index supports. "
                    "Press Ctrl-Space after orderBy: to list the orders.",
                    arguments=[f"orderBy: {order}", f"limit: {PAGE_SIZE}"],
                )

    def last_page(self, path: AccessPath) -> Tab:
        """Return a search from the last page backward, in the style of Relay."""
        return self._tab(
            path,
            "LastPage",
            f"The last {PAGE_SIZE} of the {self._records(path)}. The last page costs as much as the first page.",
            "For the page before, copy startCursor with its quotes into the variables below.",
            "To page forward, use first and after. Relay and Apollo Client use these arguments.",
            arguments=[f"last: {PAGE_SIZE}", "before: $before"],
            variable="before",
        )

    def hash_search(self, path: AccessPath) -> Tab:
        required = " and ".join(argument.name for argument in path.required)
        explanation = f"{self._records(path)}. Requires {required}: only the shards of these records are read."
        return self._tab(path, capitalized(path.field), explanation, arguments=[f"limit: {PAGE_SIZE}"])

    # --- parts of a tab ----------------------------------------------------------------------------------------

    def _tab(
        self, path: AccessPath, title: str, *comments: str, arguments: Sequence[str], variable: str | None = None
    ) -> Tab:
        """Return a tab for a search. It selects items, or edges if the variable is `before`."""
        fields = self.fields(path.entity, path.index)
        selection = ["nextToken", *block("items", fields)]
        if variable == "before":
            page_info = ["hasPreviousPage", "startCursor"]
            selection = [*block("pageInfo", page_info), *block("edges", block("node", fields))]
        return operation_tab(
            "query",
            title,
            path.field,
            *comments,
            arguments=[*map(str, path.required), *arguments],
            selection=selection,
            placeholders=path.placeholders,
            open_to_all=path.is_open,
            variable=variable,
        )

    def fields(self, entity: EntitySpec, index: IndexSpec | None = None) -> list[str]:
        """Return the fields to select: the key, the properties of the sort order, then others as declared."""
        ordered = [sort.property for sort in index.sort] if index else []
        sources = [entity.properties[name] for part in ordered for name in part.input_names]
        names = dict.fromkeys(part.name for part in (*entity.primary_key, *sources))
        others = [
            part.name
            for part in entity.properties.values()
            if part.codec is not None and part.function is None and allows_anyone(part.allow) and part.name not in names
        ]
        names |= dict.fromkeys(others[: max(0, MAX_FIELDS - len(names))])
        return [*map(self.names.naming.property_name, names)]

    def _joins(self, entity: EntitySpec) -> list[JoinSpec]:
        """Return the first join of each kind that any caller may read."""
        first: dict[str, JoinSpec] = {}
        for join in entity.joins.values():
            target = self.catalog.entities[join.target]
            search = None if join.via is None else target.unions.get(join.via) or target.indexes[join.via]
            if _is_open_to_all(target, search) and all(allows_anyone(part.allow) for part in join.by):
                first.setdefault(join.kind, join)
        return [*first.values()]

    def _join_selection(self, join: JoinSpec) -> list[str]:
        """Return the selection of a join, with the first fields of its records."""
        fields = self.fields(self.catalog.entities[join.target])[:MAX_JOINED_FIELDS]
        if join.kind == "page":
            return block(f"{camel_case(join.name)}(limit: {PAGE_SIZE})", block("items", fields))
        return block(camel_case(join.name), fields)

    def _conditions(self, path: AccessPath) -> str:
        """Return a hint on the conditions of the sort property. For strings, the prefix matches the sample."""
        if path.sort_kind is None:
            return ""
        part = path.index.sort[0].property
        if path.sort_kind != "text":
            return f"The arguments eq, from and to filter by {self._name(part)}."
        value = getattr(path.sample, part.name, None)
        prefix = json.dumps(value[:1] if isinstance(value, str) and value else "j", ensure_ascii=False)
        return f"Add prefix: {prefix} before limit to filter by the beginning of {self._name(part)}."

    def _records(self, path: AccessPath) -> str:
        parts = [self._name(part.property) + (" (descending)" * part.descending) for part in path.index.sort]
        return f"{path.entity.type_name} records ordered by {', '.join(parts) or 'their ids'}"

    def _name(self, part: PropertySpec) -> str:
        return self.names.naming.property_name(part.name)
