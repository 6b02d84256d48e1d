"""Authentication: determines the principal of a request from its headers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers

from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.api_keys import ApiKeySet
from graphql_api.server.auth.bearer_tokens import TokenVerifier
from graphql_api.server.auth.identity import ANONYMOUS, Identity
from graphql_api.server.auth.jws import parse_signed_token

AUTHORIZATION, API_KEY = "authorization", "x-api-key"
_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Authenticates requests. Credentials that are sent must be valid, even if the operation needs none."""

    token_verifiers: Sequence[TokenVerifier] = ()
    """The first verifier that accepts the header of a token decides."""
    api_keys: ApiKeySet | None = None
    needs_tenant: bool = False

    async def authenticate(self, headers: Headers) -> Identity:
        """Return the principal. Raise Unauthenticated for invalid credentials, or if a required tenant is missing."""
        identity = await self._identity(headers.getlist(AUTHORIZATION), headers.getlist(API_KEY))
        if self.needs_tenant and identity.tenant is None:
            raise Unauthenticated("Every request to this server needs a tenant: send a credential that names one.")
        return identity

    async def _identity(self, authorization: list[str], api_key: list[str]) -> Identity:
        if authorization and api_key:
            raise Unauthenticated(f"Both {AUTHORIZATION} and {API_KEY} were sent: send one of them.")
        if len(authorization) > 1 or len(api_key) > 1:
            header = AUTHORIZATION if authorization else API_KEY
            raise Unauthenticated(f"The header {header} was sent twice: send it once.")
        if api_key:
            if self.api_keys is None:
                raise Unauthenticated(f"This server accepts no API keys: leave the header {API_KEY} out.")
            return self.api_keys.authenticate(api_key[0])
        return await self._verify_bearer(authorization[0]) if authorization else ANONYMOUS

    async def _verify_bearer(self, value: str) -> Identity:
        if not self.token_verifiers:
            raise Unauthenticated(f"This server accepts no bearer tokens: leave the header {AUTHORIZATION} out.")
        match = _BEARER.fullmatch(value.strip())
        if not match:
            raise Unauthenticated(f"The header {AUTHORIZATION} must be the word Bearer, a space, and one token.")
        token = parse_signed_token(match[1])
        verifier = next((verifier for verifier in self.token_verifiers if verifier.accepts(token)), None)
        if verifier is None:
            raise Unauthenticated("This server does not accept tokens of this kind: `shardql token` mints one for it.")
        return await verifier.verify(token)
