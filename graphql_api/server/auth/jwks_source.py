"""Keys that an issuer renews: asked for when they are needed, kept when it does not answer.

Old keys serve while new ones are fetched, and for as long as the issuer is silent. A token whose key nobody knows is
what a forger can send without end, so it makes the issuer be asked only now and then.
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

Load = Callable[[], Awaitable[KeySet]]


class KeysUnavailable(Exception):
    """The keys cannot be had now; the text says why."""


@dataclass(slots=True)
class KeySource:
    """The newest keys that could be had. Times are seconds."""

    load: Load
    where: str
    """for people who read logs"""
    fresh: float = 600.0
    """as old as keys may be before new ones are asked for; at twice that age they are waited for"""
    unknown: float = 30.0
    """between two attempts that are made because of an unknown key"""
    again: float = 5.0
    """between an attempt that failed and the next one"""
    clock: Clock = time.monotonic
    _keys: KeySet | None = None
    _came: float = 0.0
    _tried: float | None = None
    _failed: bool = False
    _attempt: asyncio.Task[None] | None = field(default=None, repr=False)

    async def key_for(self, algorithm: str, kid: str | None) -> VerifyingKey:
        """The key that a token must have been signed with."""
        keys = await self._current()
        if keys is not None and not keys.knows(kid) and self._since_attempt() >= self._patience(self.unknown):
            await self._renew()
            keys = self._keys
        if keys is None:
            raise Unauthenticated(
                "The keys that tokens are checked with cannot be had at the moment: try again.", passing=True
            )
        key = keys.key_for(algorithm, kid)
        if key is not None:
            return key
        if not keys.knows(kid):
            raise Unauthenticated(
                "The token was signed with a key that this server does not know.", passing=self._failed
            )
        raise Unauthenticated("No key of the issuer fits the algorithm of the token, or several of them do.")

    async def _current(self) -> KeySet | None:
        since, age = self._since_attempt(), self.clock() - self._came
        if self._keys is None:
            if since >= self._patience(0.0):
                await self._renew()
        elif age >= self.fresh and since >= self._patience(self.fresh):
            attempt = self._started()
            if age >= 2 * self.fresh and not self._failed:  # Nobody asked for long; keys may have been withdrawn.
                await asyncio.shield(attempt)
        return self._keys

    def _since_attempt(self) -> float:
        return float("inf") if self._tried is None else self.clock() - self._tried

    def _patience(self, otherwise: float) -> float:
        """How long to wait from one attempt to the next."""
        return self.again if self._failed else otherwise

    async def _renew(self) -> None:
        # Whoever waits may leave; the attempt is for all of them.
        await asyncio.shield(self._started())

    def _started(self) -> asyncio.Task[None]:
        """The attempt that is under way, else a new one."""
        running = self._attempt
        if running is None or running.done() or running.get_loop() is not asyncio.get_running_loop():
            running = self._attempt = asyncio.create_task(self._try())
        return running

    async def _try(self) -> None:
        try:
            keys = await self.load()
        except KeysUnavailable as problem:
            self._failed = True
            kept = "no token can be checked" if self._keys is None else "the keys known so far stay"
            log.warning("Keys of %s: %s %s.", self.where, problem, kept.capitalize())
        else:
            self._keys, self._came, self._failed = keys, self.clock(), False
            if not keys.keys:
                log.warning("Keys of %s: none of %s can be used, so no token is accepted.", self.where, keys.skipped)
        finally:
            self._tried = self.clock()
