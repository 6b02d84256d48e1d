"""The page that a search returns: records, paging tokens, failed shards and explain output."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Any, Generic, TypeVar, cast

from graphql_api.errors import StoreUnavailable
from graphql_api.model import Entity, EntitySpec, StoredColumns, decode_record, decode_records, partial_record
from graphql_api.query import Cursor, SearchPlan, SearchRequest, ShardProgress, TokenSeal, pack
from graphql_api.query.execution.page_reader import MatchedRow, PageResult, StoppedBy, last_cursors
from graphql_api.query.execution.search_estimate import explain_search
from graphql_api.storage import EncodedRecords, Row

E = TypeVar("E", bound=Entity)


MAX_SELECTIVITY_HINT = 13
"""8,192 records scanned for each match, close to the end of any read budget"""

MAX_PARTIAL_TOKEN_CHARACTERS = 4096
"""limit for tokens of pages with failed shards; each later page adds at most one cursor of lagging shards"""


@dataclass(frozen=True, slots=True)
class FailedShard:
    """A shard that could not be read, and the error code."""

    shard: str
    code: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Shards:
    """How many shards a page read, how many answered, and which failed."""

    expected: int
    answered: int
    failed: tuple[FailedShard, ...] = ()


class Page(Generic[E]):
    """One page of a search result, with tokens for the pages around it. Tokens are made on first use."""

    def __init__(self, plan: SearchPlan, result: PageResult, seal: TokenSeal) -> None:
        self._plan, self._result, self._seal = plan, result, seal
        if result.failures:
            _ = self._continuation  # Too many lagging shards refuse the page.

    @cached_property
    def _plan(self) -> SearchPlan:
        raise NotImplementedError

    @cached_property
    def _result(self) -> PageResult:
        raise NotImplementedError

    @property
    def request(self) -> SearchRequest:
        """Return the request that this page answers."""
        return self._plan.request

    @property
    def complete(self) -> bool:
        """Return whether every shard answered."""
        return not self._result.failures

    @property
    def stopped_by(self) -> StoppedBy:
        """Return the reason why the page is shorter than its limit, unless it is the last page: BUDGET or SHARDS."""
        return self._result.stopped_by

    @property
    def _backward(self) -> bool:
        return self._plan.traversal.backward

    @cached_property
    def _matches(self) -> Sequence[MatchedRow]:
        return self._result.matches[::-1] if self._backward else self._result.matches

    @cached_property
    def _continuation(self) -> str | None:
        """The token at which reading goes on, in the direction of the page."""
        plan, result = self._plan, self._result
        if result.progress == ShardProgress(plan.traversal.last_cursor):
            return None
        has_hint = plan.filter is not None and not plan.is_restricted
        hint = min(MAX_SELECTIVITY_HINT, round(log2(max(1, result.scanned_per_match)))) if has_hint else 0
        return self._sealed_token(result.progress, hint)

    @property
    def shards(self) -> Shards:
        """Return which shards answered and which failed."""
        index, expected = self._plan.scans[0].index, self._result.shards_read
        failed = tuple(
            FailedShard(
                f"{index.hash_entity}!{index.space.shard_text(ordinal % index.space.capacity)}",
                failure.code,
                failure.retryable,
            )
            for ordinal, failure in self._result.failures.items()
        )
        return Shards(expected, expected - len(failed), failed)

    @cached_property
    def record_count(self) -> int:
        """Return the number of records of the page."""
        return len(self._matches)

    @property
    def stored_records(self) -> StoredColumns | None:
        """Return the columns of the stored items; None if the rows of the page do not hold complete records."""
        bodies = self.stored_bodies
        return None if bodies is None else StoredColumns(self.entity, bodies)

    @property
    def stored_bodies(self) -> EncodedRecords | None:
        """Return the stored records of the page; None if its rows do not hold complete records."""
        if all(scan.fetches_records or scan.row_view.is_full_record for scan in self._plan.scans):
            return Row.bodies([match.row for match in self._matches])
        return None

    @property
    def entity(self) -> EntitySpec:
        """Return the entity of the records."""
        return self._plan.entity

    @cached_property
    def items(self) -> Sequence[E]:
        """Return the records of the page."""
        stored = self.stored_records
        if stored is not None:
            return cast(Sequence[E], decode_records(stored.entity, stored.items))
        return cast(Sequence[E], [self._record(match) for match in self._matches])

    def _record(self, match: MatchedRow) -> Entity:
        """Decode the complete record, or the properties that the index row provides if no others are needed."""
        scan = match.scan
        if scan.fetches_records or scan.row_view.is_full_record:
            return decode_record(self._plan.entity, match.row.item)
        return partial_record(self._plan.entity, scan.row_view.values(match.row))

    @cached_property
    def has_next(self) -> bool:
        """Return whether the result has records after this page."""
        return self._plan.resumed if self._backward else self._continuation is not None

    @property
    def has_previous(self) -> bool:
        """Return whether the result has records before this page."""
        return self._continuation is not None if self._backward else self._plan.resumed

    @property
    def next_token(self) -> str | None:
        """Return the token of the next page; None on the last page, and on a page that was read backward."""
        return None if self._backward else self._continuation

    @cached_property
    def cursors(self) -> Sequence[str]:
        """Return a token for each record, valid as `after`, `before` and `next_token`.

        Raise StoreUnavailable if shards failed on this page and a token would hold too many lagging shards.
        """
        tokens, returned = [], dict[int, Cursor]()
        for match in self._result.matches:
            cursor = returned[match.row.ordinal] = match.cursor
            tokens.append(self._token_at(cursor, returned))
        return tokens[::-1] if self._backward else tokens

    @cached_property
    def start_cursor(self) -> str | None:
        """Return the token of the first record; on a page that was read backward, of the end of the previous page."""
        if self._backward and self._continuation is not None:
            return self._continuation
        return self._cursor(0) if self._matches else None

    @cached_property
    def end_cursor(self) -> str | None:
        """Return the token of the last record; if a next page exists, the token of that page."""
        return self.next_token or (self._cursor(len(self._matches) - 1) if self._matches else None)

    @property
    def explain(self) -> Mapping[str, Any]:
        """Return the plan, its actual cost, and what each shard contributed."""
        explained = self._result.cost.explain(explain_search(self._plan), len(self._matches))
        keys = {ordinal: key for scan in self._plan.scans for ordinal, key in scan.hash_keys.items()}
        returned = Counter(match.scan.hash_keys[match.row.ordinal] for match in self._matches)
        explained["read"]["byHashKey"] = dict(sorted(returned.items()))
        if self._result.failures:
            failed = {keys[ordinal]: failure.code for ordinal, failure in self._result.failures.items()}
            explained["read"]["failedHashKeys"] = failed
        return explained

    def _cursor(self, at: int) -> str:
        count = len(self._matches) - at if self._backward else at + 1
        matches = self._result.matches[:count]
        return self._token_at(matches[-1].cursor, last_cursors(matches))

    def _token_at(self, last: Cursor, returned: Mapping[int, Cursor]) -> str:
        """Return the token of a record; `returned` holds the last cursor of each shard up to that record."""
        traversal, failures = self._plan.traversal, self._result.failures
        return self._sealed_token(traversal.progress_after(returned, last, self._plan.ordinals, failures))

    def _sealed_token(self, progress: ShardProgress, hint: int = 0) -> str:
        here = self._plan.token._replace(cursor=progress.cursor, lagging=progress.lagging, selectivity_hint=hint)
        token = self._seal.seal(pack(here), self.request.tenant, self.request.principal)
        if self._result.failures and progress.lagging and len(token) > MAX_PARTIAL_TOKEN_CHARACTERS:
            raise StoreUnavailable(
                "Too many shards failed at too many positions of this search: retry with the same token, which stays "
                "valid."
            )
        return token
