"""The JWKS cache, with a fake clock and an issuer that fails on demand."""

import asyncio
from dataclasses import dataclass, field

import pytest

from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.jwks import JwksCache, JwksUnavailable, KeySet, VerifyingKey


@dataclass(slots=True)
class FakeIssuer:
    """An issuer whose keys are only ids, with a JWKS cache and its clock."""

    ids: tuple[str, ...] | None = ("one",)
    """None: the issuer is unavailable."""
    now: float = 1000.0
    fetches: int = 0
    response_gate: asyncio.Event | None = None
    keys: JwksCache = field(init=False)

    def __post_init__(self) -> None:
        self.keys = JwksCache(self.load, "the issuer", clock=lambda: self.now)

    async def load(self) -> KeySet:
        self.fetches += 1
        if self.response_gate is not None:
            await self.response_gate.wait()
        if self.ids is None:
            raise JwksUnavailable("It is silent.")
        return KeySet(tuple(VerifyingKey(kid, frozenset(["RS256"]), kid) for kid in self.ids))

    async def accepts(self, kid: str) -> bool:
        """Return whether a token with this key id would be verified."""
        try:
            return (await self.keys.key_for("RS256", kid)).kid == kid
        except Unauthenticated:
            return False

    async def is_retryable(self, kid: str) -> bool:
        """Return whether the refusal of a token is retryable."""
        with pytest.raises(Unauthenticated) as refused:
            await self.keys.key_for("RS256", kid)
        return "retryable" in refused.value.extensions

    async def run_pending_tasks(self) -> None:
        """Let background tasks finish."""
        for _ in range(5):
            await asyncio.sleep(0)


async def test_concurrent_fetches_share_one_call() -> None:
    """Nothing is fetched before the first token. Concurrent requests share one fetch."""
    issuer = FakeIssuer(response_gate=asyncio.Event())
    assert issuer.fetches == 0
    waiting = [asyncio.create_task(issuer.accepts("one")) for _ in range(10)]
    await issuer.run_pending_tasks()
    assert issuer.response_gate is not None
    issuer.response_gate.set()
    assert all(await asyncio.gather(*waiting))
    assert await issuer.accepts("one")
    assert issuer.fetches == 1


async def test_cancelled_request_does_not_cancel_the_fetch() -> None:
    """A request that is cancelled during a fetch leaves the fetch to the other waiting requests."""
    issuer = FakeIssuer(response_gate=asyncio.Event())
    leaving, staying = asyncio.create_task(issuer.accepts("one")), asyncio.create_task(issuer.accepts("one"))
    await issuer.run_pending_tasks()
    leaving.cancel()
    await issuer.run_pending_tasks()
    assert issuer.response_gate is not None
    issuer.response_gate.set()
    assert await staying
    assert issuer.fetches == 1


async def test_old_keys_are_renewed_in_the_background() -> None:
    """Old keys stay in use during a refresh. Afterwards added keys are accepted and removed keys refused."""
    issuer = FakeIssuer()
    assert await issuer.accepts("one")
    issuer.ids, issuer.now, issuer.response_gate = ("two",), issuer.now + 600, asyncio.Event()
    assert await issuer.accepts("one")
    issuer.response_gate.set()
    await issuer.run_pending_tasks()
    assert issuer.fetches == 2
    assert not await issuer.accepts("one")
    assert await issuer.accepts("two")
    assert issuer.fetches == 2


async def test_very_old_keys_are_not_trusted() -> None:
    """Keys older than the hard limit are fetched before use, because they may have been withdrawn."""
    issuer = FakeIssuer()
    assert await issuer.accepts("one")
    issuer.ids, issuer.now = ("two",), issuer.now + 1200
    assert not await issuer.accepts("one")


async def test_unknown_keys_cause_limited_fetches() -> None:
    """An unknown key causes a fetch at most every 30 seconds, however many such tokens arrive."""
    issuer = FakeIssuer()
    assert await issuer.accepts("one")
    issuer.ids = ("one", "two")
    assert [await issuer.accepts("two"), issuer.fetches] == [False, 1]
    issuer.now += 29
    assert [await issuer.accepts("two"), issuer.fetches] == [False, 1]
    issuer.now += 1
    assert [await issuer.accepts("two"), issuer.fetches] == [True, 2]
    for number in range(100):
        assert not await issuer.accepts(f"forged {number}")
    issuer.now += 30
    for number in range(100):
        assert not await issuer.accepts(f"forged {number}")
    assert issuer.fetches == 3
    assert not await issuer.is_retryable("forged")


async def test_known_keys_stay_while_the_issuer_is_unavailable(caplog: pytest.LogCaptureFixture) -> None:
    """Known keys stay in use while the issuer is unavailable. It is retried every 5 seconds, with a log entry."""
    issuer = FakeIssuer()
    assert await issuer.accepts("one")
    issuer.ids = None
    for _ in range(1000):
        issuer.now += 600
        assert await issuer.accepts("one")
        await issuer.run_pending_tasks()
    fetches = issuer.fetches
    issuer.now += 4
    assert await issuer.accepts("one")
    await issuer.run_pending_tasks()
    assert issuer.fetches == fetches
    issuer.now += 1
    assert await issuer.accepts("one")
    await issuer.run_pending_tasks()
    assert issuer.fetches == fetches + 1
    assert caplog.messages[-1] == "Keys of the issuer: It is silent. The previous keys stay in use."
    issuer.ids, issuer.now = ("two",), issuer.now + 5
    assert await issuer.accepts("one")
    await issuer.run_pending_tasks()
    assert not await issuer.accepts("one")
    assert await issuer.accepts("two")


async def test_keys_expire_while_the_issuer_is_unavailable(caplog: pytest.LogCaptureFixture) -> None:
    """Known keys are refused beyond their longest age, as a temporary failure, until the issuer answers again."""
    issuer = FakeIssuer()
    issuer.keys.expiry_age = 3_600
    assert await issuer.accepts("one")
    issuer.ids = None
    issuer.now += 3_599
    assert await issuer.accepts("one")
    await issuer.run_pending_tasks()
    issuer.now += 1
    assert await issuer.is_retryable("one")
    assert await issuer.is_retryable("unknown")
    issuer.now += 5
    assert await issuer.is_retryable("one")
    assert caplog.messages[-1] == "Keys of the issuer: It is silent. No token can be verified."
    fetches = issuer.fetches
    assert await issuer.is_retryable("one")
    assert issuer.fetches == fetches
    issuer.ids, issuer.now = ("two",), issuer.now + 5
    assert await issuer.accepts("two")
    assert not await issuer.accepts("one")


async def test_unknown_key_while_the_issuer_is_unavailable() -> None:
    """An unknown key cannot be verified while the issuer is unavailable, so the refusal is retryable."""
    issuer = FakeIssuer()
    assert await issuer.accepts("one")
    issuer.ids, issuer.now = None, issuer.now + 30
    assert await issuer.is_retryable("two")
    issuer.ids, issuer.now = ("one", "two"), issuer.now + 5
    assert await issuer.accepts("two")


async def test_issuer_unavailable_at_startup() -> None:
    """Without any keys no token can be verified. A token after 5 seconds causes another fetch."""
    issuer = FakeIssuer(ids=None)
    assert await issuer.is_retryable("one")
    assert await issuer.is_retryable("one")
    assert issuer.fetches == 1
    issuer.ids = ("one",)
    issuer.now += 4.9
    assert await issuer.is_retryable("one")
    issuer.now += 0.1
    assert await issuer.accepts("one")


async def test_unexpected_error_is_raised() -> None:
    """An unexpected error of the fetch is raised, and the next request tries again."""
    issuer = FakeIssuer()

    async def fail() -> KeySet:
        raise ZeroDivisionError

    issuer.keys.load = fail
    with pytest.raises(ZeroDivisionError):
        await issuer.accepts("one")
    issuer.keys.load, issuer.now = issuer.load, issuer.now + 5
    assert await issuer.accepts("one")


async def test_empty_key_set(caplog: pytest.LogCaptureFixture) -> None:
    """An issuer may withdraw all keys. The log says that no token is accepted."""
    issuer = FakeIssuer(ids=())
    assert not await issuer.is_retryable("one")
    assert "no token is accepted" in caplog.text


def test_another_event_loop() -> None:
    """In a new event loop the cache starts a new fetch instead of awaiting the old one."""
    issuer = FakeIssuer()

    async def cancel_a_fetch() -> None:
        issuer.response_gate = asyncio.Event()
        waiting = asyncio.create_task(issuer.accepts("one"))
        await issuer.run_pending_tasks()
        waiting.cancel()

    asyncio.run(cancel_a_fetch())
    issuer.response_gate = None
    assert asyncio.run(issuer.accepts("one"))


async def test_keys_count_from_their_request() -> None:
    """Keys that were requested before a freeze are as old as their request, however late the response is read."""
    issuer = FakeIssuer(response_gate=asyncio.Event())
    issuer.keys.max_age, issuer.keys.expiry_age = 50.0, 100.0
    first = asyncio.create_task(issuer.accepts("one"))
    await issuer.run_pending_tasks()
    issuer.now += 150
    assert issuer.response_gate is not None
    issuer.response_gate.set()
    await first
    issuer.ids = ("two",)
    issuer.now += 30
    assert not await issuer.accepts("one")
    assert await issuer.accepts("two")
