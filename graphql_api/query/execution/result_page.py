"""One page of an answer, with its tokens: what a search gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Any, Generic, TypeVar, cast

from graphql_api.errors import StoreUnavailable
from graphql_api.model import Entity, from_item, partial_record
from graphql_api.query import Place, Seal, SearchPlan, SearchRequest, Standing, pack
from graphql_api.query.execution.page_scan import Hit, PageFound, places_of

E = TypeVar("E", bound=Entity)


MAX_HINT = 13
"""a page that looks at 8,192 records for each of its own is near the end of any budget"""

MAX_OWING_CHARACTERS = 4096
"""of a token of a page on which shards failed; the pages behind it add one place at most to what it owes"""


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

    def __init__(self, plan: SearchPlan, found: PageFound, seal: Seal, request: SearchRequest) -> None:
        self.request = request
        """what this is a page of"""
        self._plan = plan
        self._found = found
        self._seal = seal
        self._hits = found.hits[::-1] if plan.backward else found.hits
        self.complete = not found.failures
        """whether every shard answered"""
        self.stopped_by = found.stopped_by
        """why the page is shorter than asked for, when it is not the last: BUDGET or SHARDS"""
        self._continuation = (
            self._sealed(found.standing, self._hint()) if found.standing != Standing(plan.walk.goal) else None
        )

    def _hint(self) -> int:
        """About how many records were looked at for each that the filter let through, as a power of two."""
        if self._plan.filter is None:
            return 0
        return min(MAX_HINT, round(log2(max(1, self._found.looked_at_for_each))))

    @property
    def shards(self) -> Shards:
        """Who answered."""
        index, failures = self._plan.members[0].index, self._found.failures
        failed = tuple(
            FailedShard(f"{index.head}!{index.space.text(ordinal)}", failure.code, failure.retryable)
            for ordinal, failure in failures.items()
        )
        expected = self._found.asked
        return Shards(expected, expected - len(failed), failed)

    @cached_property
    def items(self) -> Sequence[E]:
        """The records."""
        return cast(Sequence[E], [self._record(hit) for hit in self._hits])

    def _record(self, hit: Hit) -> Entity:
        """The whole record, or what its index tells of it where that was all that is needed."""
        member = hit.member
        if member.fetches or member.view.is_whole:
            return from_item(self._plan.entity, hit.row.item)
        return partial_record(self._plan.entity, member.view.values(hit.row))

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
        """For each record the token of its place: good as `after`, `before` and `next_token`.

        Where shards failed on this page, the debts of some place may be too many for a token (StoreUnavailable).
        """
        tokens, shown = [], dict[int, Place]()
        for hit in self._found.hits:
            place = shown[hit.row.ordinal] = hit.place
            tokens.append(self._token_at(place, shown))
        return tokens[::-1] if self._plan.backward else tokens

    @cached_property
    def start_cursor(self) -> str | None:
        """The place of the first record; walking backward, where the page before this one ends."""
        if self._plan.backward and self._continuation is not None:
            return self._continuation
        return self._cursor(0) if self._hits else None

    @cached_property
    def end_cursor(self) -> str | None:
        """The place of the last record; while more follows, where the next page begins."""
        return self.next_token or (self._cursor(len(self._hits) - 1) if self._hits else None)

    @property
    def explain(self) -> Mapping[str, Any]:
        """The plan, and what it really cost."""
        return {
            **self._plan.describe(),
            "read": {**self._found.work.describe(), "returned": len(self._hits)},
        }

    def _cursor(self, at: int) -> str:
        walked = len(self._hits) - at if self._plan.backward else at + 1
        hits = self._found.hits[:walked]
        return self._token_at(hits[-1].place, places_of(hits))

    def _token_at(self, last: Place, shown: Mapping[int, Place]) -> str:
        """The token of a record's place, with the shards that stood earlier when the walk came by."""
        return self._sealed(self._plan.walk.after(shown, last, self._plan.ordinals, self._found.failures))

    def _sealed(self, standing: Standing, hint: int = 0) -> str:
        plan = self._plan
        token = self._seal.seal(pack(plan.binding.token(standing, hint)), plan.tenant, plan.principal)
        if self._found.failures and standing.lagging and len(token) > MAX_OWING_CHARACTERS:
            raise StoreUnavailable(
                "Too many shards have failed at too many places of this walk: try again with the same token, which "
                "stays good."
            )
        return token
