"""Errors of page tokens and record keys."""

from graphql_api.errors.base_error import ShardQLError


class InvalidToken(ShardQLError):
    """Raised with one text for all causes, so that it reveals nothing about other tenants and principals."""

    code = "INVALID_TOKEN"
    summary = "The token is malformed, forged, or made for another tenant or principal."


class ExpiredToken(ShardQLError):
    """Raised for valid tokens above the maximum age."""

    code = "EXPIRED_TOKEN"
    summary = "The token is older than the maximum age of tokens."


class TokenMismatch(ShardQLError):
    """Raised for valid tokens whose search has another fingerprint."""

    code = "TOKEN_MISMATCH"
    summary = "The token was made by another search."


class TokenAhead(ShardQLError):
    """Raised during the roll-out of a catalog with a new shard generation."""

    code = "TOKEN_AHEAD"
    status = 503
    retryable = True
    summary = "The token or record key comes from a server that knows more shard generations than this one."


class InvalidRecordKey(ShardQLError):
    """Raised when a sealed record key fails verification, or names no record of the expected entity."""

    code = "INVALID_RECORD_KEY"
    summary = "The record key is damaged, or was made for another entity or tenant."
