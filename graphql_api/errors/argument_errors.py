"""Errors of arguments, values and keys that a caller provides."""

from graphql_api.errors.base_error import ShardQLError


class UnknownArgument(ShardQLError, code="UNKNOWN_ARGUMENT"):
    """The search takes no argument of this name."""


class MissingArgument(ShardQLError, code="MISSING_ARGUMENT"):
    """A required argument is missing."""


class ConflictingArguments(ShardQLError, code="CONFLICTING_ARGUMENTS"):
    """Two arguments exclude each other."""


class InvalidRange(ShardQLError, code="INVALID_RANGE"):
    """A range ends before it begins."""


class InvalidLimit(ShardQLError, code="INVALID_LIMIT"):
    """A page size, or a number of ids, is outside the allowed range."""


class InvalidValue(ShardQLError, code="INVALID_VALUE"):
    """A value has the wrong type, or cannot be stored or ordered."""


class FilterTooLarge(ShardQLError, code="FILTER_TOO_LARGE"):
    """Raised before planning, since each comparison costs time for each record that is read."""

    summary = "A filter has more comparisons, values or levels than a search tests."


class TooManyToSort(ShardQLError, code="TOO_MANY_TO_SORT"):
    """Raised by searches of unions with `order_by`, which sort the whole result in memory."""

    summary = "More records match than can be sorted at once."


class EmptyKey(ShardQLError, code="EMPTY_KEY"):
    """A key is an empty text."""


class KeyTooLong(ShardQLError, code="KEY_TOO_LONG"):
    """A key or bound exceeds the length that an engine can store."""
