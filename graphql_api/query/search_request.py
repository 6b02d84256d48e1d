"""A search as it was asked for, and its paging arguments made one thing."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql_api.codecs import shown
from graphql_api.errors import ConflictingArguments, InvalidLimit, InvalidValue
from graphql_api.query.argument_names import PYTHON, Dialect

DEFAULT_LIMIT = 50
MAX_LIMIT = 500

READ_BUDGET = 10_000
"""records that one page looks at before it ends early"""

MAX_SORTED = 1_000
"""matches of a union that `order_by` sorts"""

MAX_COUNTED = 10_000
COUNT_BUDGET = 20_000
"""records that one count looks at before it says so many, or more"""


PAGE_WORDS = ("reverse", "limit", "next_token", "first", "after", "last", "before")
"""arguments that choose a page of an answer"""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search: which index, with which arguments, and which page of the answer.

    `arguments` holds hash properties, the flat conditions (`eq`, `prefix`, `from_`, `to`) and conditions by property.
    Pages are asked for by `limit` and `next_token`, or by `first`, `after`, `last` and `before`, never by both.
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
    """what else must hold, as `read_filter` takes it"""
    only: Any = None
    """what must hold besides, whatever is asked for: the same, in Python's words"""
    order_by: Any = None
    """of a union: the property that sorts the whole answer, or `desc()` of it"""
    history: str = "ALL"
    """of histories with current records: ALL, the entries alone (PAST), or the current records alone (CURRENT)"""
    select: Collection[str] | None = None
    """the properties that are needed, by Python names; None: all"""
    read_budget: int = READ_BUDGET
    """records that the page looks at before it ends early"""
    counts: bool = False
    """only how many records there are is asked for"""
    consistent: bool = False
    """of by_id: no read may lag behind writes"""
    why: str | None = None
    """in words, why it is this index, where the asker did not name it"""
    tenant: str | None = None
    principal: str | None = None
    dialect: Dialect = PYTHON


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page: how many, in which order, walking which way, from where."""

    limit: int
    reverse: bool
    backward: bool
    token: str | None
    argument: str
    """the name under which the token was given"""


def read_paging(request: SearchRequest) -> Paging:
    """One order, one direction, one limit and one token out of the two styles of paging arguments."""
    word = request.dialect.word
    given = [
        name
        for name in ("limit", "next_token", "first", "after", "last", "before")
        if getattr(request, name) is not None
    ]
    for one, others in (
        ("limit", ("first", "last", "after", "before")),
        ("next_token", ("first", "last", "after", "before")),
        ("first", ("last", "before")),
        ("after", ("last", "before")),
    ):
        for other in others:
            if one in given and other in given:
                raise ConflictingArguments(
                    f"{word(one)} and {word(other)} exclude each other. Page forward with limit and "
                    f"{word('next_token')} or with first and after, backward with last and before.",
                    argument=word(one),
                )
    backward = "last" in given or "before" in given
    size_name = next((name for name in ("limit", "first", "last") if name in given), "limit")
    token_name = next((name for name in ("next_token", "after", "before") if name in given), "next_token")
    return Paging(
        limit=_checked_limit(size_name, getattr(request, size_name)),
        reverse=_checked_reverse(request.reverse),
        backward=backward,
        token=getattr(request, token_name),
        argument=word(token_name),
    )


def read_budget(request: SearchRequest) -> int:
    """How many records the page looks at before it ends early."""
    budget: Any = request.read_budget
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        argument = request.dialect.word("read_budget")
        raise InvalidLimit(f"{argument} must be a whole number of at least 1, not {shown(budget)}.", argument=argument)
    return budget


def _checked_limit(argument: str, limit: object) -> int:
    if limit is None:
        return DEFAULT_LIMIT
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise InvalidLimit(
            f"{argument} must be a whole number from 1 to {MAX_LIMIT}, not {shown(limit)}.", argument=argument
        )
    return limit


def _checked_reverse(reverse: object) -> bool:
    if reverse is None:
        return False
    if not isinstance(reverse, bool):
        raise InvalidValue(f"reverse must be True or False, not {shown(reverse)}.", argument="reverse")
    return reverse
