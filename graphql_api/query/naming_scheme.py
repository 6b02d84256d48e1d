"""Name the arguments of a search for its audience: Python or GraphQL. Error messages use the same names."""

from collections.abc import Callable
from dataclasses import dataclass

from graphql_api.model import EntitySpec, IndexSpec, UnionSpec

PAGE_ARGUMENTS = ("reverse", "limit", "next_token", "first", "after", "last", "before")
"""arguments that select a page of the result"""

PAGING_ARGUMENTS = frozenset({*PAGE_ARGUMENTS, "on_shard_failure"})
"""paging arguments of every search"""

CONDITION_ARGUMENTS = ("eq", "prefix", "from_", "to")
"""conditions on the first sort property"""

OPTION_ARGUMENTS = frozenset({"filter", "history", "order_by", "select", "read_budget"})
"""further options of a search from Python"""

RESERVED_ARGUMENTS = PAGING_ARGUMENTS | OPTION_ARGUMENTS | {*CONDITION_ARGUMENTS, "from"}
"""Names that common arguments use or reserve: the argument of a property with such a name ends in an underscore."""


@dataclass(frozen=True, slots=True)
class NamingScheme:
    """The names that one audience uses for properties, arguments and searches."""

    property_name: Callable[[str], str]
    """name of a property, from its Python name"""
    common_argument: Callable[[str], str]
    """name of an argument that every search accepts, from its Python name"""
    search_name: Callable[[EntitySpec, IndexSpec | UnionSpec], str]
    """name of the search of an index or union"""
    reserved: frozenset[str] = frozenset()
    """names that no property argument can have, because the audience uses them otherwise"""

    def property_argument(self, python_name: str) -> str:
        """Return the search argument for conditions on a property."""
        name = self.key_argument(python_name)
        return f"{name}_" if name in map(self.common_argument, RESERVED_ARGUMENTS) else name

    def key_argument(self, python_name: str) -> str:
        """Return the argument for one part of a primary key."""
        name = self.property_name(python_name)
        return f"{name}_" if name in self.reserved else name


PYTHON_NAMES = NamingScheme(
    property_name=lambda name: name,
    common_argument=lambda name: name,
    search_name=lambda entity, index: f"{entity.type_name}.{index.attribute}",
)
