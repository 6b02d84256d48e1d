"""Authentication: bearer tokens, JWKS, API keys and development tokens."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.server.auth.auth_configuration import (
        accepted_algorithms,
        build_authenticator,
        configured_issuer,
        credential_problems,
        describe_credentials,
        read_api_keys_file,
        read_jwks_file,
    )
    from graphql_api.server.auth.authenticator import Authenticator
    from graphql_api.server.auth.development_tokens import mint_token
    from graphql_api.server.auth.identity import Identity
    from graphql_api.server.auth.jwks import HMAC, KeySet
    from graphql_api.server.auth.jwks_cache import JwksUnavailable
    from graphql_api.server.auth.jwks_loading import jwks_loader
    from graphql_api.server.auth.token_claims import MAX_CHARACTERS, is_valid_name
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "Authenticator": "authenticator",
            "HMAC": "jwks",
            "Identity": "identity",
            "JwksUnavailable": "jwks_cache",
            "KeySet": "jwks",
            "MAX_CHARACTERS": "token_claims",
            "accepted_algorithms": "auth_configuration",
            "build_authenticator": "auth_configuration",
            "configured_issuer": "auth_configuration",
            "credential_problems": "auth_configuration",
            "describe_credentials": "auth_configuration",
            "is_valid_name": "token_claims",
            "jwks_loader": "jwks_loading",
            "mint_token": "development_tokens",
            "read_api_keys_file": "auth_configuration",
            "read_jwks_file": "auth_configuration",
        },
    )

__all__ = [
    "HMAC",
    "MAX_CHARACTERS",
    "Authenticator",
    "Identity",
    "JwksUnavailable",
    "KeySet",
    "accepted_algorithms",
    "build_authenticator",
    "configured_issuer",
    "credential_problems",
    "describe_credentials",
    "is_valid_name",
    "jwks_loader",
    "mint_token",
    "read_api_keys_file",
    "read_jwks_file",
]
