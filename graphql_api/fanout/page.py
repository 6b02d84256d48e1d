"""One page of an answer, with its tokens: what a search gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from graphql_api.catalog.entity import Entity
from graphql_api.catalog.items import from_item
from graphql_api.errors import StoreUnavailable
from graphql_api.fanout.run_search import Found
from graphql_api.search.page_token import pack
from graphql_api.search.plan import SearchPlan
from graphql_api.search.seal import Seal
from graphql_api.search.standing import Standing

E = TypeVar("E", bound=Entity)


MAX_TOKEN_CHARACTERS = 4096
"""of a token with shards that lag"""


@dataclass(frozen=True, slots=True)
class FailedShard:
    """A shard that did not answer, and why."""

    shard: str
    code: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Shards:
    """How many shards a page asked, how many of them answered, and which did not."""

    expected: int
    answered: int
    failed: tuple[FailedShard, ...] = ()


class Page(Generic[E]):
    """Some records of an answer, in its order, and how to get the ones around them."""

    def __init__(self, plan: SearchPlan, found: Found, seal: Seal) -> None:
        self._plan = plan
        self._found = found
        self._seal = seal
        self._rows = found.rows[::-1] if plan.backward else found.rows
        self.complete = not found.failures
        """whether every shard answered"""
        self.stopped_by = "SHARDS" if found.failures and len(found.rows) < plan.limit else None
        """why the page is shorter than asked for, when it is not the last"""
        self._continuation = self._sealed(found.standing) if found.standing != Standing(plan.walk.goal) else None

    @property
    def shards(self) -> Shards:
        """Who answered."""
        index, failures = self._plan.index, self._found.failures
        failed = tuple(
            FailedShard(f"{index.head}!{index.space.text(ordinal)}", failure.code, failure.retryable)
            for ordinal, failure in failures.items()
        )
        expected = len(self._plan.reads)
        return Shards(expected, expected - len(failed), failed)

    @cached_property
    def items(self) -> Sequence[E]:
        """The records."""
        return cast(Sequence[E], [from_item(self._plan.entity, row.item) for row in self._rows])

    @property
    def has_next(self) -> bool:
        """Whether records follow this page in the answer."""
        return self._plan.resumed if self._plan.backward else self._continuation is not None

    @property
    def has_previous(self) -> bool:
        """Whether records precede this page in the answer."""
        return self._continuation is not None if self._plan.backward else self._plan.resumed

    @property
    def next_token(self) -> str | None:
        """Asks for the next page; None when nothing is left, and on a page that was walked to backward."""
        return None if self._plan.backward else self._continuation

    @cached_property
    def cursors(self) -> Sequence[str]:
        """For each record the token of its place: good as `after`, `before` and `next_token`."""
        return [self._cursor(at) for at in range(len(self._rows))]

    @cached_property
    def start_cursor(self) -> str | None:
        """The place of the first record; walking backward, where the page before this one ends."""
        if self._plan.backward and self._continuation is not None:
            return self._continuation
        return self._cursor(0) if self._rows else None

    @cached_property
    def end_cursor(self) -> str | None:
        """The place of the last record; while more follows, where the next page begins."""
        return self.next_token or (self._cursor(len(self._rows) - 1) if self._rows else None)

    @property
    def explain(self) -> Mapping[str, Any]:
        """The plan, and what it really cost."""
        return {
            **self._plan.describe(),
            "read": {**self._found.work.describe(), "returned": len(self._rows)},
        }

    def _cursor(self, at: int) -> str:
        """The token of a record's place, with the shards that stood earlier when the walk came by."""
        walk, found = self._plan.walk, self._found
        walked = len(self._rows) - at if self._plan.backward else at + 1
        rows = found.rows[:walked]
        last = walk.place_of(rows[-1].position)
        return self._sealed(walk.after(rows, last, self._plan.ordinals, found.failures))

    def _sealed(self, standing: Standing) -> str:
        plan = self._plan
        token = self._seal.seal(pack(plan.binding.token(standing)), plan.tenant, plan.principal)
        if standing.lagging and len(token) > MAX_TOKEN_CHARACTERS:
            raise StoreUnavailable(
                "Too many shards have failed at too many places of this walk: try again with the same token, which "
                "stays good."
            )
        return token
