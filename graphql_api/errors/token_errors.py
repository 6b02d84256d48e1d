"""Errors of page tokens and record keys."""

from graphql_api.errors.base_error import ShardQLError


class InvalidToken(ShardQLError, code="INVALID_TOKEN"):
    """Raised with one text for all causes, so that it reveals nothing about other tenants and principals."""

    summary = "The token is malformed, forged, or made for another tenant or principal."


class ExpiredToken(ShardQLError, code="EXPIRED_TOKEN"):
    """The token is older than the maximum age of tokens."""


class TokenMismatch(ShardQLError, code="TOKEN_MISMATCH"):
    """The token was made by another search."""


class TokenAhead(ShardQLError, code="TOKEN_AHEAD", status=503, retryable=True):
    """The token or record key comes from a server that knows more shard generations than this one."""


class InvalidRecordKey(ShardQLError, code="INVALID_RECORD_KEY"):
    """The record key is damaged, or was made for another entity or tenant."""
