"""How a search's arguments are called by whoever asks: in Python, or in GraphQL. Errors speak the asker's words."""

from collections.abc import Callable
from dataclasses import dataclass

from graphql_api.model import EntitySpec, IndexSpec, UnionSpec

PAGING = frozenset({"reverse", "limit", "next_token", "first", "after", "last", "before", "on_shard_failure"})
"""arguments of every search that are about its pages"""

FLAT = ("eq", "prefix", "from_", "to")
"""conditions on the first sort property"""

OPTIONS = frozenset({"filter", "history", "order_by", "select", "read_budget"})
"""further arguments of a search from Python"""

FIXED = PAGING | OPTIONS | {*FLAT, "from"}
"""Arguments that a search takes, now or later: a property of such a name is asked for with an underscore behind it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The names under which arguments come, and under which errors speak of them."""

    property: Callable[[str], str]
    """of a property, from its name in Python"""
    word: Callable[[str], str]
    """of an argument that every search takes, from its name in Python"""
    index: Callable[[EntitySpec, IndexSpec | UnionSpec], str]
    """of a search"""
    kept: frozenset[str] = frozenset()
    """names that no argument can have, because whoever asks means something else by them"""

    def argument(self, property_name: str) -> str:
        """The argument of a search that asks for a property."""
        name = self.key_part(property_name)
        return f"{name}_" if name in map(self.word, FIXED) else name

    def key_part(self, property_name: str) -> str:
        """The argument that gives a part of one record's key."""
        name = self.property(property_name)
        return f"{name}_" if name in self.kept else name


PYTHON = Dialect(
    property=lambda name: name,
    word=lambda name: name,
    index=lambda entity, index: f"{entity.type_name}.{index.attribute}",
)
