"""Authentication: bearer tokens, JWKS, API keys, development tokens."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.server.auth.auth_configuration import (
        algorithms_of,
        credential_mistakes,
        credentials_in_words,
        identify_of,
        issuer_of,
        read_api_keys_file,
        read_keys_at_start,
    )
    from graphql_api.server.auth.authenticator import Identify
    from graphql_api.server.auth.development_tokens import mint
    from graphql_api.server.auth.identity import Identity
    from graphql_api.server.auth.jwks import HMAC, KeySet
    from graphql_api.server.auth.jwks_loading import load_from
    from graphql_api.server.auth.jwks_source import KeysUnavailable
    from graphql_api.server.auth.token_claims import MAX_CHARACTERS, is_name
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "HMAC": "jwks",
            "Identify": "authenticator",
            "Identity": "identity",
            "KeySet": "jwks",
            "KeysUnavailable": "jwks_source",
            "MAX_CHARACTERS": "token_claims",
            "algorithms_of": "auth_configuration",
            "credential_mistakes": "auth_configuration",
            "credentials_in_words": "auth_configuration",
            "identify_of": "auth_configuration",
            "is_name": "token_claims",
            "issuer_of": "auth_configuration",
            "load_from": "jwks_loading",
            "mint": "development_tokens",
            "read_api_keys_file": "auth_configuration",
            "read_keys_at_start": "auth_configuration",
        },
    )

__all__ = [
    "HMAC",
    "MAX_CHARACTERS",
    "Identify",
    "Identity",
    "KeySet",
    "KeysUnavailable",
    "algorithms_of",
    "credential_mistakes",
    "credentials_in_words",
    "identify_of",
    "is_name",
    "issuer_of",
    "load_from",
    "mint",
    "read_api_keys_file",
    "read_keys_at_start",
]
