"""Authentication: bearer tokens, JWKS, API keys and development tokens."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.server.auth.authenticator import Authenticator as Authenticator
    from graphql_api.server.auth.authenticator import accepted_algorithms as accepted_algorithms
    from graphql_api.server.auth.authenticator import build_authenticator as build_authenticator
    from graphql_api.server.auth.authenticator import configured_issuer as configured_issuer
    from graphql_api.server.auth.authenticator import credential_problems as credential_problems
    from graphql_api.server.auth.authenticator import describe_credentials as describe_credentials
    from graphql_api.server.auth.authenticator import read_api_keys_file as read_api_keys_file
    from graphql_api.server.auth.authenticator import read_jwks_file as read_jwks_file
    from graphql_api.server.auth.bearer_tokens import mint_token as mint_token
    from graphql_api.server.auth.jwks import JwksUnavailable as JwksUnavailable
    from graphql_api.server.auth.jwks import load_key_set as load_key_set
    from graphql_api.server.auth.principals import MAX_CHARACTERS as MAX_CHARACTERS
    from graphql_api.server.auth.principals import Identity as Identity
    from graphql_api.server.auth.principals import is_valid_name as is_valid_name
else:
    __getattr__ = lazy_exports(__name__, __file__)
