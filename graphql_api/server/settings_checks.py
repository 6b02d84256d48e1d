"""What keeps a server from starting with settings that are right one by one."""

from collections.abc import Iterator

from graphql_api.server.auth import credential_mistakes
from graphql_api.server.settings import MACHINE_PATHS, Settings, variable


def unfit(settings: Settings) -> Iterator[str]:
    """What keeps a server from starting with settings that are right one by one."""
    if settings.token_keys and settings.token_keys_file is not None:
        yield f"{variable('token_keys')} and {variable('token_keys_file')} are both given: keep one of them."
    if settings.production and not settings.token_keys and settings.token_keys_file is None:
        yield (
            f"Production needs a key that page tokens are sealed with, the same on every server: set "
            f"{variable('token_keys')} or {variable('token_keys_file')}. `openssl rand -base64 32` makes one."
        )
    if settings.record_key is not None and settings.record_key_file is not None:
        yield f"{variable('record_key')} and {variable('record_key_file')} are both given: keep one of them."
    if settings.production and settings.record_key is None and settings.record_key_file is None:
        yield (
            f"Production needs a key that record keys are signed with, the same on every server and for ever: set "
            f"{variable('record_key')} or {variable('record_key_file')}. `openssl rand -base64 32` makes one."
        )
    if settings.production and settings.explain and not settings.explain_groups:
        yield (
            f"Production does not explain to everybody who may ask what tables and keys there are: name groups by "
            f"{variable('explain_groups')}, or turn {variable('explain')} off. In the log, "
            f"{variable('log_level')}=debug tells the same."
        )
    if settings.explain_groups and not settings.explain:
        yield f"{variable('explain_groups')} names groups, and {variable('explain')} is off: take one of them away."
    yield from credential_mistakes(settings)
    if settings.production and settings.store is None:
        yield f"Production needs a store: give --store or set {variable('store')}."
    if settings.only_documents and settings.documents is None:
        yield f"{variable('only_documents')} leaves nothing to ask: name a file by {variable('documents')}."
    if settings.path in MACHINE_PATHS:
        yield f"{variable('path')} is {settings.path}, which answers machines: take another path for GraphQL."
    if settings.read_only and settings.create_table:
        yield "A server that only reads makes no table: leave out --create-table or the read-only mode."
