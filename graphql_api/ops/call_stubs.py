"""Stubs of the calls of one entity: the arguments of its searches, reads and writes, as methods for type checkers.

`graphql_api.model.call_signatures` says which call reads which method.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any, get_type_hints

from graphql_api.model import EntitySpec, IndexSpec, PropertySpec, UnionSpec, parse_annotation
from graphql_api.ops.type_names import TypeNames
from graphql_api.query import LOGICAL_OPERATORS, PAGE_ARGUMENTS, PYTHON_NAMES, SearchRequest, filter_property_name

SIGNATURES = "graphql_api.model"
FAILURES = ("FAIL", "PARTIAL")
HISTORIES = ("ALL", "PAST", "CURRENT")


@dataclass(frozen=True)
class Parameter:
    """A parameter that callers provide by name."""

    name: str
    type: str
    required: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.type}{'' if self.required else ' = ...'}"


@dataclass(frozen=True)
class CallStubs:
    """Writes the stubs of one entity."""

    entity: EntitySpec
    types: TypeNames

    def index_class(self, search: IndexSpec | UnionSpec, name: str) -> str:
        """Return the class of a reference to an index, lookup or union, with its searches and counts."""
        text = self.types.text
        index = search.members[0] if isinstance(search, UnionSpec) else search
        conditions = [*self._conditions(index, is_union=isinstance(search, UnionSpec))]
        options = [*self._options(is_union=isinstance(search, UnionSpec))]
        counted = [Parameter("at_most", text(int)), *(one for one in options if one.name in ("filter", "history"))]
        model = text(self.entity.model)
        reference = self.types.imported(SIGNATURES, "IndexRef")
        search_method = _method("_search_arguments", model, [*conditions, *self._paging(), *options])
        count_method = _method("_count_arguments", model, [*conditions, *counted])
        return f"class {name}({reference}[{model}]):\n{indent(search_method + count_method, '    ')}"

    def entity_methods(self) -> str:
        """Return the methods that declare the arguments of reads and writes of the entity."""
        text = self.types.text
        changes, key_parts = [*map(self._whole, self._changeable())], [*map(self._key_part, self.entity.primary_key)]
        version = Parameter("expected_version", text(int | None))
        idempotency = Parameter("idempotency_key", text(str | None))
        id = f"{'_id' if 'id' in self.entity.properties else 'id'}: {self._id_type} | None = ..."
        calls: list[tuple[str, list[Parameter], str | None]] = [
            ("_get_arguments", [Parameter("consistent", text(bool)), *key_parts], id),
            ("_get_by_arguments", [*self._unique_values()], None),
            ("_create_arguments", [idempotency, *self._created_values()], None),
            ("_update_arguments", [version, idempotency, *key_parts, *changes], id),
            ("_delete_arguments", [version, idempotency, *key_parts], id),
            ("_remove_arguments", [version, *key_parts], id),
            ("_change_arguments", [version, *key_parts, *changes], id),
        ]
        returned = self.types.imported("typing", "Self")
        return "".join(
            "@classmethod\n" + _method(name, returned, parameters, ["cls"] if first is None else ["cls", first, "/"])
            for name, parameters, first in calls
        )

    # --- searches ----------------------------------------------------------------------------------------------

    def _conditions(self, index: IndexSpec, *, is_union: bool) -> Iterator[Parameter]:
        """Yield the parameters for hash properties and for conditions on sort properties."""
        takes_id = index.is_primary and bool(self.entity.ids) and "id" not in self.entity.properties
        if takes_id:
            yield Parameter("id", f"{self._id_type} | None")
        for part in index.hash:
            yield Parameter(PYTHON_NAMES.property_argument(part.name), self._value(part))
            several = self.types.imported("collections.abc", "Iterable")
            yield Parameter(PYTHON_NAMES.list_argument(self.entity, part.name), f"{several}[{self._value(part)}]")
        for part in index.id_prefix:
            yield Parameter(PYTHON_NAMES.property_argument(part.name), self._value(part), required=not takes_id)
        sort = [part.property for part in index.sort]
        if sort:
            yield from self._shorthand(sort, is_composite=index.is_primary and len(sort) > 1)
        condition = self.types.imported(SIGNATURES, "SortCondition")
        for part in () if is_union else sort:
            yield Parameter(PYTHON_NAMES.property_argument(part.name), f"{condition}[{self._value(part)}] | None")

    def _shorthand(self, sort: Sequence[PropertySpec], *, is_composite: bool) -> Iterator[Parameter]:
        """Yield the parameters that apply to the first sort property, or to a composite sub id as one text."""
        value = self.types.text(str) if is_composite else self._value(sort[0])
        yield Parameter("eq", f"{value} | None")
        if is_composite or sort[0].kind == "text":
            yield Parameter("prefix", self.types.text(str | None))
        yield Parameter("from_", f"{value} | None")
        yield Parameter("to", f"{value} | None")

    def _paging(self) -> Iterator[Parameter]:
        hints = get_type_hints(SearchRequest)
        for name in (*PAGE_ARGUMENTS, "read_budget"):
            yield Parameter(name, self.types.text(hints[name]))

    def _options(self, *, is_union: bool) -> Iterator[Parameter]:
        imported, property_names, filter_type = self.types.imported, *self._aliases
        yield Parameter("on_shard_failure", self.types.names(FAILURES))
        yield Parameter("filter", f"{filter_type} | None")
        yield Parameter("select", f"{imported('collections.abc', 'Collection')}[{property_names}] | None")
        if is_union:
            sortable = [name for name, part in self.entity.properties.items() if part.codec is not None]
            yield Parameter("order_by", f"{self.types.names(sortable)} | {imported(SIGNATURES, 'Descending')} | None")
        if self.entity.current is not None:
            yield Parameter("history", self.types.names(HISTORIES))

    @property
    def _aliases(self) -> tuple[str, str]:
        """The names of two types: of the names of all properties, and of filters."""
        return f"_{self.entity.type_name}Property", f"_{self.entity.type_name}Filter"

    def option_types(self) -> str:
        """Return the declarations of the types that options of all searches have."""
        property_names, filter_type = self._aliases
        filtered = [filter_property_name(PYTHON_NAMES, name) for name in self.entity.properties]
        names = self.types.names([*filtered, *LOGICAL_OPERATORS])
        mapping, alias = self.types.imported("collections.abc", "Mapping"), self.types.imported("typing", "TypeAlias")
        return (
            f"{property_names}: {alias} = {self.types.names([*self.entity.properties])}\n"
            f"{filter_type}: {alias} = {mapping}[{names}, {self.types.text(Any)}]\n"
        )

    # --- records -----------------------------------------------------------------------------------------------

    @property
    def _id_type(self) -> str:
        """The type of an id: a value of the only id property, or the text of any id, or a record key."""
        own = [self._plain(part) for part in self.entity.ids] if len(self.entity.ids) == 1 else []
        return " | ".join(dict.fromkeys([*own, self.types.text(str), self.types.imported("graphql_api", "RecordKey")]))

    def _key_part(self, part: PropertySpec) -> Parameter:
        return Parameter(PYTHON_NAMES.key_argument(part.name), self._value(part))

    def _unique_values(self) -> Iterator[Parameter]:
        parts = {part.name: part for unique in self.entity.unique for part in unique.parts}
        for part in parts.values():
            yield Parameter(part.name, self._value(part), required=len(self.entity.unique) == 1)

    def _created_values(self) -> Iterator[Parameter]:
        entity = self.entity
        for part in entity.provided_properties:
            if part not in (entity.updated, entity.version):
                is_set = part is entity.created or part in entity.counters
                field = entity.model.model_fields[part.name]
                optional = f"{self._plain(part)} | None" if is_set else self._whole(part).type
                yield Parameter(part.name, optional, required=field.is_required() and not is_set)

    def _changeable(self) -> Iterator[PropertySpec]:
        """Yield the properties that an update can change."""
        entity = self.entity
        server_set = (entity.created, entity.updated, entity.version)
        fixed = {part.name for part in (*entity.primary_key, *entity.counters, *server_set) if part is not None}
        return (part for part in entity.provided_properties if part.name not in fixed and not part.immutable)

    # --- types of values ---------------------------------------------------------------------------------------

    def _whole(self, part: PropertySpec) -> Parameter:
        return Parameter(part.name, self.types.text(self.entity.model.model_fields[part.name].annotation))

    def _plain(self, part: PropertySpec) -> str:
        """Return the type of a value that is not null."""
        field = self.entity.model.model_fields[part.name]
        kinds = parse_annotation(field.annotation, field.metadata).types
        return self.types.union(kinds) if kinds else self.types.text(Any)

    def _value(self, part: PropertySpec) -> str:
        """Return the type of a value to search for: a derived property also takes what it is derived from."""
        if part.search_function is None:
            return self._plain(part)
        source = self.entity.properties[part.sources[0]]
        accepted = [source] if source.codec == part.codec else [source, part]
        return " | ".join(dict.fromkeys(map(self._plain, accepted)))


def _method(name: str, returns: str, parameters: Iterable[Parameter], first: Sequence[str] = ("self",)) -> str:
    """Return the text of a method."""
    named = {parameter.name: str(parameter) for parameter in reversed([*parameters])}
    required_first = [*first, "*", *reversed(named.values())] if named else [*first]
    lines = "".join(f"    {part},\n" for part in required_first)
    return f"def {name}(\n{lines}) -> {returns}: ...\n"
