"""What is to be the same on every platform and in every Python."""

from collections.abc import Iterable
from hashlib import blake2b

from graphql_api import Entity


def digest_of(records: Iterable[Entity]) -> str:
    """A few characters that change as soon as one of the records does."""
    digest = blake2b(digest_size=8)
    for record in records:
        digest.update(record.model_dump_json().encode())
    return digest.hexdigest()
