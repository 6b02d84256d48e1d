"""Digests of sample data, which must be equal on every platform and Python version."""

from collections.abc import Iterable
from hashlib import blake2b

from graphql_api import Entity


def digest_of(records: Iterable[Entity]) -> str:
    """A short digest that changes if any of the records changes."""
    digest = blake2b(digest_size=8)
    for record in records:
        digest.update(record.model_dump_json().encode())
    return digest.hexdigest()
