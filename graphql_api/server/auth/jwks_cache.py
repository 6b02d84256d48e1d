"""A cache of the keys of an issuer, which renews them and keeps old keys while the issuer is unavailable.

Old keys stay in use during a renewal, and for as long as the issuer does not answer. An attacker can send any number
of tokens with unknown key ids, so these trigger a renewal only at intervals.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from logging import getLogger

from graphql_api.clock import Clock
from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.jwks import KeySet, VerifyingKey

log = getLogger("shardql.keys")

LoadKeySet = Callable[[], Awaitable[KeySet]]


class JwksUnavailable(Exception):
    """The keys cannot be loaded now. The message says why."""


@dataclass(slots=True)
class JwksCache:
    """The newest keys that could be loaded. All durations are in seconds."""

    load: LoadKeySet
    location: str
    """The source of the keys, for log messages."""
    max_age: float = 600.0
    """Age at which keys are renewed in the background. At twice this age, requests wait for the renewal."""
    unknown_key_interval: float = 30.0
    """Minimum time between two renewals that are caused by an unknown key id."""
    retry_interval: float = 5.0
    """Minimum time between a failed renewal and the next one."""
    clock: Clock = time.monotonic
    _keys: KeySet | None = None
    _loaded_at: float = 0.0
    _attempted_at: float | None = None
    _last_attempt_failed: bool = False
    _renewal: asyncio.Task[None] | None = field(default=None, repr=False)

    async def key_for(self, algorithm: str, kid: str | None) -> VerifyingKey:
        """Return the key that must verify a token with this algorithm and key id."""
        keys = await self._current_keys()
        if keys is not None and not keys.has_key_id(kid) and self._may_renew(self.unknown_key_interval):
            await self._renew()
            keys = self._keys
        if keys is None:
            raise Unauthenticated("The keys that verify tokens are unavailable at the moment: try again.", passing=True)
        key = keys.key_for(algorithm, kid)
        if key is not None:
            return key
        if not keys.has_key_id(kid):
            raise Unauthenticated(
                "The token was signed with a key that this server does not know.", passing=self._last_attempt_failed
            )
        raise Unauthenticated("No key of the issuer matches the algorithm of the token, or several do.")

    async def _current_keys(self) -> KeySet | None:
        age = self.clock() - self._loaded_at
        if self._keys is None:
            if self._may_renew(0.0):
                await self._renew()
        elif age >= self.max_age and self._may_renew(self.max_age):
            renewal = self._start_renewal()
            # Long without requests: keys may have been revoked in the meantime.
            if age >= 2 * self.max_age and not self._last_attempt_failed:
                await asyncio.shield(renewal)
        return self._keys

    def _may_renew(self, interval: float) -> bool:
        """Return whether enough time has passed since the last attempt. A failed one has its own interval."""
        if self._attempted_at is None:
            return True
        return self.clock() - self._attempted_at >= (self.retry_interval if self._last_attempt_failed else interval)

    async def _renew(self) -> None:
        # All waiting requests share the renewal, so cancelling one of them must not cancel it.
        await asyncio.shield(self._start_renewal())

    def _start_renewal(self) -> asyncio.Task[None]:
        """Return the running renewal, or start a new one."""
        renewal = self._renewal
        if renewal is None or renewal.done() or renewal.get_loop() is not asyncio.get_running_loop():
            renewal = self._renewal = asyncio.create_task(self._load())
        return renewal

    async def _load(self) -> None:
        try:
            keys = await self.load()
        except JwksUnavailable as error:
            self._last_attempt_failed = True
            consequence = "No token can be verified" if self._keys is None else "The previous keys stay in use"
            log.warning("Keys of %s: %s %s.", self.location, error, consequence)
        else:
            self._keys, self._loaded_at, self._last_attempt_failed = keys, self.clock(), False
            if not keys.keys:
                log.warning("Keys of %s: none of %s is usable, so no token is accepted.", self.location, keys.skipped)
        finally:
            self._attempted_at = self.clock()
