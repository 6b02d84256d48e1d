"""One page of an answer, with its tokens: what a search gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from graphql_api.catalog.entity import Entity
from graphql_api.catalog.items import from_item
from graphql_api.fanout.run_search import Found
from graphql_api.search.page_token import pack
from graphql_api.search.plan import SearchPlan
from graphql_api.search.seal import Seal
from graphql_api.store.values import Position

E = TypeVar("E", bound=Entity)


@dataclass(frozen=True, slots=True)
class Shards:
    """How many shards a page asked, and how many of them answered."""

    expected: int
    answered: int


class Page(Generic[E]):
    """Some records of an answer, in its order, and how to get the ones around them."""

    def __init__(self, plan: SearchPlan, found: Found, seal: Seal) -> None:
        self._plan = plan
        self._found = found
        self._seal = seal
        self._rows = found.rows[::-1] if plan.backward else found.rows
        self.complete = True
        """whether every shard answered"""
        self.stopped_by: str | None = None
        """why the page is shorter than asked for, when it is not the last"""
        self.shards = Shards(len(plan.reads), len(plan.reads))

    @cached_property
    def items(self) -> Sequence[E]:
        """The records."""
        return cast(Sequence[E], [from_item(self._plan.entity, row.item) for row in self._rows])

    @property
    def has_next(self) -> bool:
        """Whether records follow this page in the answer."""
        return self._plan.resumed if self._plan.backward else self._found.more

    @property
    def has_previous(self) -> bool:
        """Whether records precede this page in the answer."""
        return self._found.more if self._plan.backward else self._plan.resumed

    @cached_property
    def next_token(self) -> str | None:
        """Asks for the next page; None when nothing is left, and on a page that was walked to backward."""
        behind = self._found.stands_at if self._found.more and not self._plan.backward else None
        return self._cursor(behind) if behind is not None else None

    @cached_property
    def cursors(self) -> Sequence[str]:
        """For each record the token of its place: good as `after`, `before` and `next_token`."""
        return [self._cursor(row.position) for row in self._rows]

    @cached_property
    def start_cursor(self) -> str | None:
        """The place of the first record; walking backward, where the page before this one ends."""
        if self._plan.backward and self._found.more and self._found.stands_at is not None:
            return self._cursor(self._found.stands_at)
        return self._cursor(self._rows[0].position) if self._rows else None

    @cached_property
    def end_cursor(self) -> str | None:
        """The place of the last record; while more follows, where the next page begins."""
        return self.next_token or (self._cursor(self._rows[-1].position) if self._rows else None)

    @property
    def explain(self) -> Mapping[str, Any]:
        """The plan, and what it really cost."""
        return {
            **self._plan.describe(),
            "read": {**self._found.work.describe(), "returned": len(self._rows)},
        }

    def _cursor(self, position: Position) -> str:
        plan = self._plan
        return self._seal.seal(pack(plan.binding.token(plan.place(position))), plan.tenant, plan.principal)
