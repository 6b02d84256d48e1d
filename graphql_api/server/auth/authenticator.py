"""From the headers of a request to who asks: nobody, or somebody whose credentials are right."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers

from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.api_keys import ApiKeys
from graphql_api.server.auth.bearer_tokens import Bearer
from graphql_api.server.auth.identity import NOBODY, Identity
from graphql_api.server.auth.jws import read_signed

AUTHORIZATION, API_KEY = "authorization", "x-api-key"
_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Identify:
    """What a server takes for credentials. What is sent must be right, even where nobody asks for it."""

    bearers: Sequence[Bearer] = ()
    """the first kind that a token is of decides"""
    api_keys: ApiKeys | None = None
    needs_tenant: bool = False

    async def __call__(self, headers: Headers) -> Identity:
        identity = await self._identity(headers.getlist(AUTHORIZATION), headers.getlist(API_KEY))
        if self.needs_tenant and identity.tenant is None:
            raise Unauthenticated("Whoever asks here belongs to a tenant: send a credential that names it.")
        return identity

    async def _identity(self, authorization: list[str], api_key: list[str]) -> Identity:
        if authorization and api_key:
            raise Unauthenticated(f"Both {AUTHORIZATION} and {API_KEY} were sent: send one of them.")
        if len(authorization) > 1 or len(api_key) > 1:
            raise Unauthenticated(f"The header {AUTHORIZATION if authorization else API_KEY} came twice: send it once.")
        if api_key:
            if self.api_keys is None:
                raise Unauthenticated(f"This server takes no API keys: leave the header {API_KEY} out.")
            return self.api_keys.identity(api_key[0])
        return await self._bearer(authorization[0]) if authorization else NOBODY

    async def _bearer(self, value: str) -> Identity:
        if not self.bearers:
            raise Unauthenticated(f"This server takes no bearer tokens: leave the header {AUTHORIZATION} out.")
        found = _BEARER.fullmatch(value.strip())
        if not found:
            raise Unauthenticated(f"The header {AUTHORIZATION} must be the word Bearer, a space, and one token.")
        signed = read_signed(found[1])
        bearer = next((bearer for bearer in self.bearers if bearer.is_for(signed)), None)
        if bearer is None:
            raise Unauthenticated("The token is of no kind that this server takes: `shardql token` mints one for it.")
        return await bearer.identity(signed)
