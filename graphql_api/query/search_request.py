"""Describe a search as requested: its arguments, their names for each audience, and its page."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from graphql_api.codecs import short_repr
from graphql_api.errors import ConflictingArguments, InvalidLimit, InvalidValue
from graphql_api.model import EntitySpec, IndexSpec, UnionSpec

DEFAULT_LIMIT = 50
MAX_LIMIT = 500

READ_BUDGET = 10_000
"""records that the engine may examine for one page"""

MAX_SORTED = 1_000
"""matches of a union that `order_by` sorts"""

MAX_HASH_KEYS = 1_000
"""hash keys that one search reads: values of its hash property, times shards"""

MAX_COUNTED = 10_000
COUNT_BUDGET = 20_000
"""records that the engine may examine for one count"""


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
        return f"{name}_" if name in _reserved_arguments(self.common_argument) else name

    def list_argument(self, entity: EntitySpec, python_name: str) -> str:
        """Return the search argument for several values of a hash property; it has no name of another argument."""
        name = self.property_name(f"{python_name}_in")
        is_taken = name in _reserved_arguments(self.common_argument)
        return f"{name}_" if is_taken or name in map(self.property_argument, entity.properties) else name

    def key_argument(self, python_name: str) -> str:
        """Return the argument for one part of a primary key."""
        name = self.property_name(python_name)
        return f"{name}_" if name in self.reserved else name


@lru_cache(maxsize=64)
def _reserved_arguments(common_argument: Callable[[str], str]) -> frozenset[str]:
    return frozenset(map(common_argument, RESERVED_ARGUMENTS))


PYTHON_NAMES = NamingScheme(
    property_name=lambda name: name,
    common_argument=lambda name: name,
    search_name=lambda entity, index: f"{entity.type_name}.{index.attribute}",
)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search: the index, its arguments, and the page of the result.

    `arguments` holds hash properties (or several values of one of them, as `customer_id_in`), conditions on the first
    sort property (`eq`, `prefix`, `from_`, `to`) and conditions by property name. A page is selected by `limit` and
    `next_token`, or by `first`, `after`, `last` and `before`, never by both.
    """

    entity: str
    index: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reverse: bool | None = None
    limit: int | None = None
    next_token: str | None = None
    first: int | None = None
    after: str | None = None
    last: int | None = None
    before: str | None = None
    on_shard_failure: str = "FAIL"
    filter: Any = None
    """filter from the caller, as `parse_filter` accepts it"""
    enforced_filter: Any = None
    """filter from the authorization policy, with Python names"""
    order_by: Any = None
    """property that sorts the whole result of a union, or `desc()` of it"""
    history: str = "ALL"
    """for histories with current records: ALL, only the entries (PAST), or only the current records (CURRENT)"""
    select: Collection[str] | None = None
    """Python names of the needed properties; None: all"""
    read_budget: int = READ_BUDGET
    count_only: bool = False
    """only the number of records is needed"""
    consistent: bool = False
    """for `by_id`: reads see every acknowledged write"""
    all_ids: bool = False
    """for `by_id`: read the records of all ids, also of an entity with sub ids, in the order of their keys"""
    why: str | None = None
    """reason for the choice of the index, if the caller did not name the index"""
    tenant: str | None = None
    principal: str | None = None
    naming: NamingScheme = PYTHON_NAMES


@dataclass(frozen=True, slots=True)
class Paging:
    """The page of a request: size, order, direction and start."""

    limit: int
    reverse: bool
    backward: bool
    token_field: str
    """field of the request that holds the token"""
    argument: str
    """name of the argument that holds the token"""


def parse_paging(request: SearchRequest) -> Paging:
    """Merge the two styles of paging arguments into one order, direction and limit, and the place of the token."""
    name_of = request.naming.common_argument
    styles = (("limit", "next_token"), ("first", "after"), ("last", "before"))
    provided = [[name for name in style if getattr(request, name) is not None] for style in styles]
    used = [names for names in provided if names]
    if len(used) > 1:
        one = used[0][0]
        others = [name for names in used[1:] for name in names]
        other = min(others, key=("first", "last", "after", "before").index)
        raise ConflictingArguments(
            f"{name_of(one)} and {name_of(other)} exclude each other. Page forward with limit and "
            f"{name_of('next_token')} or with first and after, backward with last and before.",
            argument=name_of(one),
        )
    size_name, start_name = styles[provided.index(used[0])] if used else styles[0]
    size = getattr(request, size_name)
    limit = DEFAULT_LIMIT if size is None else _check_count(size_name, size, MAX_LIMIT)
    reverse: object = request.reverse
    if reverse is not None and not isinstance(reverse, bool):
        raise InvalidValue(f"reverse must be True or False, not {short_repr(reverse)}.", argument="reverse")
    return Paging(limit, bool(reverse), start_name == "before", start_name, name_of(start_name))


def check_options(request: SearchRequest) -> None:
    """Check the policy for failing shards and the read budget."""
    if request.on_shard_failure not in ("FAIL", "PARTIAL"):
        argument = request.naming.common_argument("on_shard_failure")
        raise InvalidValue(f"{argument} is FAIL or PARTIAL, not {request.on_shard_failure!r}.", argument=argument)
    _check_count(request.naming.common_argument("read_budget"), request.read_budget)


def _check_count(argument: str, count: Any, most: int | None = None) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= (most or count):
        bounds = "of at least 1" if most is None else f"from 1 to {most}"
        raise InvalidLimit(f"{argument} must be a whole number {bounds}, not {short_repr(count)}.", argument=argument)
    return count
