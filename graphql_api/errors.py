"""Everything that can go wrong for a caller: one class per code, each saying what, where and what to do.

The list is closed and documented in `docs/errors.md`. Codes are part of the interface and never change.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, NamedTuple, TypeVar


class ShardQLError(Exception):
    """Base of every error that ShardQL raises on purpose."""

    code: ClassVar[str]
    status: ClassVar[int] = 400
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, argument: str | None = None, shard: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.argument = argument
        self.shard = shard

    @property
    def extensions(self) -> dict[str, Any]:
        """The machine-readable part, as GraphQL shows it under `extensions`."""
        parts: dict[str, Any] = {"code": self.code}
        if self.argument is not None:
            parts["argument"] = self.argument
        if self.shard is not None:
            parts["shard"] = self.shard
        if self.retryable:
            parts["retryable"] = True
        return parts


E = TypeVar("E", bound=ShardQLError)


@contextmanager
def about(argument: str | None) -> Iterator[None]:
    """Adds to an error from within which argument it is about, unless it knows."""
    try:
        yield
    except ShardQLError as problem:
        if argument is not None and problem.argument is None:
            problem.argument = argument
            problem.message = f"{argument}: {problem.message}"
            problem.args = (problem.message,)
        raise


def for_one_of_several(problem: E) -> E:
    """The same error for one of those whom it concerns: each raises their own, as what handles it may add to it."""
    own = copy(problem)
    own.__cause__ = problem
    return own


def nearest(wrong: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the closest known name, or nothing."""
    close = get_close_matches(wrong, list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


# --- the catalog -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule of a catalog: where it is and what to do about it."""

    entity: str
    property: str | None
    problem: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.entity}.{self.property}" if self.property else self.entity
        return f"{where}: {self.problem} {self.remedy}"


class InvalidCatalog(ShardQLError):
    """The declared entities break one or more rules; all of them are listed."""

    code = "INVALID_CATALOG"
    status = 500

    def __init__(self, violations: Sequence[Violation]) -> None:
        self.violations = tuple(violations)
        lines = "\n".join(f"  - {violation}" for violation in self.violations)
        count = len(self.violations)
        super().__init__(f"The catalog has {count} problem{'s' if count != 1 else ''}:\n{lines}")


class UnknownEntity(ShardQLError):
    """The catalog declares no such entity."""

    code = "UNKNOWN_ENTITY"


class UnknownIndex(ShardQLError):
    """The entity declares no such index."""

    code = "UNKNOWN_INDEX"


# --- settings --------------------------------------------------------------------------------------------------


class InvalidSettings(ShardQLError):
    """A setting that the server cannot start with; all of them are listed."""

    code = "INVALID_SETTINGS"
    status = 500

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


# --- arguments -------------------------------------------------------------------------------------------------


class UnknownArgument(ShardQLError):
    """The search takes no argument of this name."""

    code = "UNKNOWN_ARGUMENT"


class MissingArgument(ShardQLError):
    """An argument that the index needs was not given."""

    code = "MISSING_ARGUMENT"


class ConflictingArguments(ShardQLError):
    """Arguments that exclude each other were given together."""

    code = "CONFLICTING_ARGUMENTS"


class InvalidRange(ShardQLError):
    """A range ends before it begins."""

    code = "INVALID_RANGE"


class InvalidLimit(ShardQLError):
    """A page size, or a number of ids, outside of what is allowed."""

    code = "INVALID_LIMIT"


class InvalidValue(ShardQLError):
    """A value of the wrong type, or one that cannot be stored or ordered."""

    code = "INVALID_VALUE"


class FilterTooLarge(ShardQLError):
    """A filter with more comparisons, values or levels than a search tests."""

    code = "FILTER_TOO_LARGE"


class TooManyToSort(ShardQLError):
    """More records match than are sorted at once."""

    code = "TOO_MANY_TO_SORT"


class EmptyKey(ShardQLError):
    """An empty text where a key is needed."""

    code = "EMPTY_KEY"


class KeyTooLong(ShardQLError):
    """A key or bound that would pass what an engine can hold."""

    code = "KEY_TOO_LONG"


class FieldProblem(NamedTuple):
    """What is wrong with one property of a record."""

    field: str
    """its name, and behind a dot where in it"""
    message: str


class InvalidRecord(ShardQLError):
    """A record that does not fit its entity."""

    code = "INVALID_RECORD"

    def __init__(
        self,
        message: str,
        *,
        argument: str | None = None,
        shard: str | None = None,
        fields: Sequence[FieldProblem] = (),
        left_out: int = 0,
    ) -> None:
        super().__init__(message, argument=argument, shard=shard)
        self.fields = tuple(fields)
        """everything that is wrong, property by property"""
        self.left_out = left_out
        """how much more is wrong"""

    @property
    def extensions(self) -> dict[str, Any]:
        """The machine-readable part, with all that is wrong where it is known."""
        fields = {"fields": [one._asdict() for one in self.fields]} if self.fields else {}
        return {**super().extensions, **fields}


class CreationChanged(ShardQLError):
    """A record's creation value decides where it lives and never changes."""

    code = "CREATION_CHANGED"
    status = 409


class RecordNotFound(ShardQLError):
    """There is no record with this id to change."""

    code = "RECORD_NOT_FOUND"
    status = 404


class AlreadyExists(ShardQLError):
    """There is a record with this id already."""

    code = "ALREADY_EXISTS"
    status = 409


class NotUnique(ShardQLError):
    """Another record has this value, of which there may be only one."""

    code = "NOT_UNIQUE"
    status = 409


class ForeignKeyBroken(ShardQLError):
    """A record names one that is not there, or is named by one that is."""

    code = "FOREIGN_KEY"
    status = 409


class ImmutableChanged(ShardQLError):
    """A property never changes once its record is there."""

    code = "IMMUTABLE"
    status = 409


class VersionConflict(ShardQLError):
    """The record has another version than was expected: somebody has changed it since."""

    code = "VERSION_CONFLICT"
    status = 409

    def __init__(self, message: str, *, version: int | None, argument: str = "expected_version") -> None:
        super().__init__(message, argument=argument)
        self.version = version
        """the version that the record has; None: there is no record"""

    @property
    def extensions(self) -> dict[str, Any]:
        """The machine-readable part, with the version that the record has."""
        return {**super().extensions, "version": self.version}


class IdempotencyMismatch(ShardQLError):
    """The idempotency key was used for another request within the last 24 hours."""

    code = "IDEMPOTENCY_MISMATCH"
    status = 409


# --- tokens and record keys ------------------------------------------------------------------------------------


class InvalidToken(ShardQLError):
    """Malformed, forged, or made for another tenant or principal: one text for all of them."""

    code = "INVALID_TOKEN"


class ExpiredToken(ShardQLError):
    """The token is older than tokens may grow."""

    code = "EXPIRED_TOKEN"


class TokenMismatch(ShardQLError):
    """An honest token, used with another search than it was made for."""

    code = "TOKEN_MISMATCH"


class TokenAhead(ShardQLError):
    """The token or record key comes from a server that knows more shard generations than this one."""

    code = "TOKEN_AHEAD"
    status = 503
    retryable = True


class Unauthenticated(ShardQLError):
    """The request's credentials are expired, forged, or not for this server; or it has none where some are needed."""

    code = "UNAUTHENTICATED"
    status = 401

    def __init__(
        self, message: str, *, argument: str | None = None, shard: str | None = None, passing: bool = False
    ) -> None:
        super().__init__(message, argument=argument, shard=shard)
        self.passing = passing
        """the credentials may be right: they could not be checked just now"""

    @property
    def extensions(self) -> dict[str, Any]:
        """The machine-readable part, which says so where it may go away by itself."""
        return {**super().extensions, **({"retryable": True} if self.passing else {})}


class Forbidden(ShardQLError):
    """The caller may not read or write this."""

    code = "FORBIDDEN"
    status = 403


class InvalidRecordKey(ShardQLError):
    """A record key that was changed, cut, or made for another entity or tenant."""

    code = "INVALID_RECORD_KEY"


# --- the store -------------------------------------------------------------------------------------------------


class StoreError(ShardQLError):
    """Base of what a store reports; adapters map every foreign error to one of these."""

    status = 500


class StoreUnavailable(StoreError):
    """The store did not answer, or not in time."""

    code = "STORE_UNAVAILABLE"
    status = 503
    retryable = True

    certain: bool = False
    """nothing of what was asked for was carried out: none of it has reached the store"""


class OutcomeUnknown(StoreUnavailable):
    """Nobody knows whether a write was carried out that must not be carried out twice."""

    code = "OUTCOME_UNKNOWN"
    status = 504
    retryable = False


class Throttled(StoreError):
    """The store asks for patience."""

    code = "THROTTLED"
    status = 503
    retryable = True


class StoreRefused(StoreError):
    """The store refuses a request as malformed: a mistake in the caller, never a passing fault."""

    code = "STORE_REFUSED"


class StoreDenied(StoreError):
    """The store does not let this process in: credentials are missing, expired, or lack a permission."""

    code = "STORE_DENIED"


class ItemTooLarge(StoreError):
    """A record above 400 KB."""

    code = "ITEM_TOO_LARGE"
    status = 400


class ConditionFailed(StoreError):
    """A write's expectation did not hold; `old` is the record that stands there instead."""

    code = "CONDITION_FAILED"
    status = 409

    def __init__(
        self,
        message: str,
        *,
        position: int,
        old: dict[str, Any] | None,
        failures: Mapping[int, dict[str, Any] | None] | None = None,
    ) -> None:
        super().__init__(message)
        self.position = position
        self.old = old
        self.failures: Mapping[int, dict[str, Any] | None] = {position: old} if failures is None else failures
        """of a transaction: what stands at each key that is not as expected, by the position of its write"""


class Conflict(StoreError):
    """Other writes of the same records came in between, more often than it was tried; nothing was written."""

    code = "CONFLICT"
    status = 409
    retryable = True


class WrongTable(StoreError):
    """There is no such table, or one of another format, or one with shard generations that this catalog lacks."""

    code = "WRONG_TABLE"


class GenerationTooEarly(StoreError):
    """A shard generation was added that would begin before now, or before a stored record."""

    code = "GENERATION_TOO_EARLY"


# --- the way to the server -------------------------------------------------------------------------------------


class InvalidJson(ShardQLError):
    """What should be JSON is not, or is JSON that could be read in two ways."""

    code = "INVALID_JSON"


class InvalidRequest(ShardQLError):
    """The parameters of an HTTP request are not those of GraphQL over HTTP: one is missing or of the wrong type."""

    code = "INVALID_REQUEST"


class CrossSiteRequest(ShardQLError):
    """The request could have been sent by any page of a browser, without having been asked for permission."""

    code = "CROSS_SITE_REQUEST"
    status = 403


class NotFound(ShardQLError):
    """The server has nothing at this path."""

    code = "NOT_FOUND"
    status = 404


class MethodNotAllowed(ShardQLError):
    """The path is right, the method is not: a GET only reads."""

    code = "METHOD_NOT_ALLOWED"
    status = 405


class NotAcceptable(ShardQLError):
    """The `Accept` header admits none of the forms in which the server answers."""

    code = "NOT_ACCEPTABLE"
    status = 406


class BodyTooSlow(ShardQLError):
    """The body of the request did not arrive in time."""

    code = "BODY_TOO_SLOW"
    status = 408
    retryable = True


class BodyTooLarge(ShardQLError):
    """The body of the request is larger than the server reads."""

    code = "BODY_TOO_LARGE"
    status = 413


class UrlTooLong(ShardQLError):
    """The address of the request is longer than the server reads."""

    code = "URL_TOO_LONG"
    status = 414


class UnsupportedMediaType(ShardQLError):
    """The body has another media type, charset or encoding than the server reads."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    status = 415


class ExpectationFailed(ShardQLError):
    """The `Expect` header asks for something other than `100-continue`."""

    code = "EXPECTATION_FAILED"
    status = 417


class InternalError(ShardQLError):
    """A mistake of the server: the reply says no more than where its log tells of it."""

    code = "INTERNAL_ERROR"
    status = 500

    def __init__(self, correlation_id: str) -> None:
        super().__init__(f"The server made a mistake. Its log tells of it under {correlation_id}.")
        self.correlation_id = correlation_id

    @property
    def extensions(self) -> dict[str, Any]:
        """The machine-readable part, with what to look for in the log."""
        return {**super().extensions, "correlationId": self.correlation_id}


# --- GraphQL ---------------------------------------------------------------------------------------------------


class ParseFailed(ShardQLError):
    """The text is no GraphQL document."""

    code = "GRAPHQL_PARSE_FAILED"


class ValidationFailed(ShardQLError):
    """The document asks for what the schema does not offer."""

    code = "GRAPHQL_VALIDATION_FAILED"


class BadUserInput(ShardQLError):
    """A variable or an argument has a value that its type does not admit."""

    code = "BAD_USER_INPUT"


class OperationNotFound(ShardQLError):
    """The document does not say which operation to run, or has none of that name."""

    code = "OPERATION_RESOLUTION_FAILURE"


class DocumentNotFound(ShardQLError):
    """No trusted document has this id."""

    code = "PERSISTED_QUERY_NOT_FOUND"


class DocumentRequired(ShardQLError):
    """The server runs trusted documents only."""

    code = "PERSISTED_QUERY_REQUIRED"
    status = 403


class LimitExceeded(ShardQLError):
    """Base of what is refused for its size, before any of it runs."""

    def __init__(self, message: str, *, limit: int, found: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.found = found

    @property
    def extensions(self) -> dict[str, Any]:
        """The machine-readable part, with the limit and, where it was counted to the end, what was found."""
        found = {} if self.found is None else {"found": self.found}
        return {**super().extensions, "limit": self.limit, **found}


class QueryTooLong(LimitExceeded):
    """The document has more tokens than the server parses."""

    code = "QUERY_TOO_LONG"


class QueryTooDeep(LimitExceeded):
    """Fields lie deeper inside one another than the server follows."""

    code = "QUERY_TOO_DEEP"


class TooManyAliases(LimitExceeded):
    """The document has more aliases than the server allows."""

    code = "TOO_MANY_ALIASES"


class TooManyDirectives(LimitExceeded):
    """The document has more directives than the server allows."""

    code = "TOO_MANY_DIRECTIVES"


class TooManyRootFields(LimitExceeded):
    """The operation has more fields at its root than the server allows."""

    code = "TOO_MANY_ROOT_FIELDS"


class QueryTooCostly(LimitExceeded):
    """The operation could give back more than the server allows in one answer."""

    code = "QUERY_TOO_COSTLY"


class DeadlineExceeded(ShardQLError):
    """The operation did not end in the time that it has."""

    code = "DEADLINE_EXCEEDED"
    status = 504
    retryable = True
