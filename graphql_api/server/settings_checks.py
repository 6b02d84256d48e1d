"""Checks across settings: each value may be valid by itself, while the combination prevents a start."""

from collections.abc import Iterator

from graphql_api.server.auth import credential_problems
from graphql_api.server.settings import RESERVED_PATHS, Settings, variable_name

_GENERATE_KEY = "`openssl rand -base64 32` generates one."


def settings_problems(settings: Settings) -> Iterator[str]:
    """Yield each reason why a server cannot start with this combination of settings."""
    yield from _key_problems(settings)
    yield from _explain_problems(settings)
    yield from credential_problems(settings)
    if settings.production and settings.store is None:
        yield f"Production needs a store: pass --store or set {variable_name('store')}."
    if settings.only_documents and settings.documents is None:
        yield (
            f"{variable_name('only_documents')} is on, but there are no trusted documents: "
            f"name a file in {variable_name('documents')}."
        )
    if settings.path in RESERVED_PATHS:
        yield (
            f"{variable_name('path')} is {settings.path}, which is reserved for operations: "
            "choose another path for GraphQL."
        )
    if settings.read_only and settings.create_table:
        yield "A read-only server creates no table: leave out --create-table or the read-only mode."


def _key_problems(settings: Settings) -> Iterator[str]:
    if settings.token_keys and settings.token_keys_file is not None:
        yield _both_set("token_keys", "token_keys_file")
    if settings.production and not settings.token_keys and settings.token_keys_file is None:
        yield (
            f"Production needs a key that seals page tokens, the same on every server: "
            f"set {variable_name('token_keys')} or {variable_name('token_keys_file')}. {_GENERATE_KEY}"
        )
    if settings.record_key is not None and settings.record_key_file is not None:
        yield _both_set("record_key", "record_key_file")
    if settings.production and settings.record_key is None and settings.record_key_file is None:
        yield (
            f"Production needs a key that signs record keys, the same on every server and never changed: "
            f"set {variable_name('record_key')} or {variable_name('record_key_file')}. {_GENERATE_KEY}"
        )


def _both_set(first: str, second: str) -> str:
    return f"{variable_name(first)} and {variable_name(second)} are both set: keep one of them."


def _explain_problems(settings: Settings) -> Iterator[str]:
    if settings.production and settings.explain and not settings.explain_groups:
        yield (
            f"Production limits explain output to named groups, since it shows tables and keys: "
            f"set {variable_name('explain_groups')}, or turn {variable_name('explain')} off. "
            f"With {variable_name('log_level')}=debug, the log has the same output."
        )
    if settings.explain_groups and not settings.explain:
        yield (
            f"{variable_name('explain_groups')} names groups, but {variable_name('explain')} is off: "
            "remove one of them."
        )
