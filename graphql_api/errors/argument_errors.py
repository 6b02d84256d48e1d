"""Errors of arguments, values and keys that a caller provides."""

from graphql_api.errors.base_error import ShardQLError


class UnknownArgument(ShardQLError):
    """Raised for the name of an argument or property that does not exist here."""

    code = "UNKNOWN_ARGUMENT"
    summary = "The search takes no argument of this name."


class MissingArgument(ShardQLError):
    """Raised when a part of a hash key or primary key has no value."""

    code = "MISSING_ARGUMENT"
    summary = "A required argument is missing."


class ConflictingArguments(ShardQLError):
    """Raised when at most one of several arguments may be provided."""

    code = "CONFLICTING_ARGUMENTS"
    summary = "Two arguments exclude each other."


class InvalidRange(ShardQLError):
    """Raised when the lower bound of a range is greater than its upper bound."""

    code = "INVALID_RANGE"
    summary = "A range ends before it begins."


class InvalidLimit(ShardQLError):
    """Raised for a number that has a minimum and a maximum: page size, read budget, number of ids or rows."""

    code = "INVALID_LIMIT"
    summary = "A page size, or a number of ids, is outside the allowed range."


class InvalidValue(ShardQLError):
    """Raised by codecs, and by everything that checks values."""

    code = "INVALID_VALUE"
    summary = "A value has the wrong type, or cannot be stored or ordered."


class FilterTooLarge(ShardQLError):
    """Raised before planning, since each comparison costs time for each record that is read."""

    code = "FILTER_TOO_LARGE"
    summary = "A filter has more comparisons, values or levels than a search tests."


class TooManyToSort(ShardQLError):
    """Raised by searches of unions with `order_by`, which sort the whole result in memory."""

    code = "TOO_MANY_TO_SORT"
    summary = "More records match than can be sorted at once."


class EmptyKey(ShardQLError):
    """Raised for an empty text as part of a hash key, a primary key or a raw index."""

    code = "EMPTY_KEY"
    summary = "A key is an empty text."


class KeyTooLong(ShardQLError):
    """Raised for keys and bounds of key ranges above the limits that hold for every engine."""

    code = "KEY_TOO_LONG"
    summary = "A key or bound exceeds the length that an engine can store."
