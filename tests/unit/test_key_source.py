"""Keys that are renewed, at times that the test holds, from an issuer that fails to order."""

import asyncio
from dataclasses import dataclass, field

import pytest

from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.jwks import KeySet, VerifyingKey
from graphql_api.server.auth.jwks_source import JwksCache, JwksUnavailable


@dataclass(slots=True)
class Source:
    """An issuer whose keys are only ids, with a clock beside it."""

    ids: tuple[str, ...] | None = ("one",)
    """None: it does not answer"""
    now: float = 1000.0
    asked: int = 0
    holds: asyncio.Event | None = None
    keys: JwksCache = field(init=False)

    def __post_init__(self) -> None:
        self.keys = JwksCache(self.load, "the issuer", clock=lambda: self.now)

    async def load(self) -> KeySet:
        self.asked += 1
        if self.holds is not None:
            await self.holds.wait()
        if self.ids is None:
            raise JwksUnavailable("It is silent.")
        return KeySet(tuple(VerifyingKey(kid, frozenset(["RS256"]), kid) for kid in self.ids))

    async def has(self, kid: str) -> bool:
        """Whether a token with this id would be checked."""
        try:
            return (await self.keys.key_for("RS256", kid)).kid == kid
        except Unauthenticated:
            return False

    async def retryable(self, kid: str) -> bool:
        """Whether the refusal of a token says that it may be taken later."""
        with pytest.raises(Unauthenticated) as refused:
            await self.keys.key_for("RS256", kid)
        return "retryable" in refused.value.extensions

    async def settle(self) -> None:
        """Lets what was begun in the background end."""
        for _ in range(5):
            await asyncio.sleep(0)


async def test_keys_are_asked_for_once() -> None:
    """Nothing is asked for before the first token, and then once for all who come at the same time."""
    source = Source(holds=asyncio.Event())
    assert source.asked == 0
    waiting = [asyncio.create_task(source.has("one")) for _ in range(10)]
    await source.settle()
    assert source.holds is not None
    source.holds.set()
    assert all(await asyncio.gather(*waiting))
    assert await source.has("one")
    assert source.asked == 1


async def test_one_who_leaves_does_not_stop_the_others() -> None:
    """A request that ends while keys are fetched for it leaves the fetch to those who wait too."""
    source = Source(holds=asyncio.Event())
    leaving, staying = asyncio.create_task(source.has("one")), asyncio.create_task(source.has("one"))
    await source.settle()
    leaving.cancel()
    await source.settle()
    assert source.holds is not None
    source.holds.set()
    assert await staying
    assert source.asked == 1


async def test_old_keys_are_renewed_in_the_background() -> None:
    """Old keys serve while new ones are fetched; then added keys are taken and removed ones refused."""
    source = Source()
    assert await source.has("one")
    source.ids, source.now, source.holds = ("two",), source.now + 600, asyncio.Event()
    assert await source.has("one")
    source.holds.set()
    await source.settle()
    assert source.asked == 2
    assert not await source.has("one")
    assert await source.has("two")
    assert source.asked == 2


async def test_very_old_keys_are_not_trusted() -> None:
    """After a long silence new keys are waited for: the old ones may have been withdrawn meanwhile."""
    source = Source()
    assert await source.has("one")
    source.ids, source.now = ("two",), source.now + 1200
    assert not await source.has("one")


async def test_an_unknown_key_is_asked_for_now_and_then() -> None:
    """A key that nobody knows makes the issuer be asked, but at most every 30 seconds, whoever sends such tokens."""
    source = Source()
    assert await source.has("one")
    source.ids = ("one", "two")
    assert [await source.has("two"), source.asked] == [False, 1]
    source.now += 29
    assert [await source.has("two"), source.asked] == [False, 1]
    source.now += 1
    assert [await source.has("two"), source.asked] == [True, 2]
    for number in range(100):
        assert not await source.has(f"forged {number}")
    source.now += 30
    for number in range(100):
        assert not await source.has(f"forged {number}")
    assert source.asked == 3
    assert not await source.retryable("forged")


async def test_keys_stay_while_the_issuer_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    """Known keys serve for as long as the issuer does not answer; it is asked every 5 seconds, and that is logged."""
    source = Source()
    assert await source.has("one")
    source.ids = None
    for _ in range(1000):
        source.now += 600
        assert await source.has("one")
        await source.settle()
    asked = source.asked
    source.now += 4
    assert await source.has("one")
    await source.settle()
    assert source.asked == asked
    source.now += 1
    assert await source.has("one")
    await source.settle()
    assert source.asked == asked + 1
    assert caplog.messages[-1] == "Keys of the issuer: It is silent. The previous keys stay in use."
    source.ids, source.now = ("two",), source.now + 5
    assert await source.has("one")
    await source.settle()
    assert not await source.has("one")
    assert await source.has("two")


async def test_an_unknown_key_while_the_issuer_is_silent() -> None:
    """Whether an unknown key is right cannot be said while the issuer is silent, and so it may be tried again."""
    source = Source()
    assert await source.has("one")
    source.ids, source.now = None, source.now + 30
    assert await source.retryable("two")
    source.ids, source.now = ("one", "two"), source.now + 5
    assert await source.has("two")


async def test_a_silent_issuer_at_the_start() -> None:
    """Without any keys no token can be checked; the next one after 5 seconds asks again."""
    source = Source(ids=None)
    assert await source.retryable("one")
    assert await source.retryable("one")
    assert source.asked == 1
    source.ids = ("one",)
    source.now += 4.9
    assert await source.retryable("one")
    source.now += 0.1
    assert await source.has("one")


async def test_a_mistake_of_ours_is_not_hidden() -> None:
    """A failure that is not the issuer's comes out, and the next request tries again."""
    source = Source()

    async def fail() -> KeySet:
        raise ZeroDivisionError

    source.keys.load = fail
    with pytest.raises(ZeroDivisionError):
        await source.has("one")
    source.keys.load, source.now = source.load, source.now + 5
    assert await source.has("one")


async def test_an_issuer_without_keys(caplog: pytest.LogCaptureFixture) -> None:
    """An issuer that has withdrawn all keys is believed, and the log says that no token is accepted."""
    source = Source(ids=())
    assert not await source.retryable("one")
    assert "no token is accepted" in caplog.text


def test_another_event_loop() -> None:
    """An application that is run once more, in another event loop, asks anew for what it was waiting for."""
    source = Source()

    async def leave_behind() -> None:
        source.holds = asyncio.Event()
        waiting = asyncio.create_task(source.has("one"))
        await source.settle()
        waiting.cancel()

    asyncio.run(leave_behind())
    source.holds = None
    assert asyncio.run(source.has("one"))
