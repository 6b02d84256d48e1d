"""Writes to DynamoDB: batches and what they leave over, lost replies, transactions."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from socket import socket
from typing import Any

import pytest

from graphql_api.errors import (
    ConditionFailed,
    Conflict,
    ItemTooLarge,
    StoreDenied,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    Throttled,
)
from graphql_api.storage.values import Check, Delete, Expect, Key, Put, Write
from tests.dynamodb_local import Server
from tests.unit.dynamo_script import DROPPED, QUICK, Reply, Script, error, playing

KEY = Key("h!", "r")
DONE = Reply({"ConsumedCapacity": {"TableName": "script", "CapacityUnits": 1.0}})
TOGETHER_DONE = Reply({"ConsumedCapacity": [{"TableName": "script", "CapacityUnits": 4.0}]})
ALL_DONE = Reply({"UnprocessedItems": {}})
FULL = error("ProvisionedThroughputExceededException")


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    """A server that answers as it is told."""
    async with playing() as played:
        yield played


def item(key: Key = KEY, **attributes: Any) -> dict[str, Any]:
    """A record."""
    return {"hashKey": key.hash, "rangeKey": key.range, **attributes}


def wire(**attributes: str) -> dict[str, Mapping[str, str]]:
    """A record of texts as the protocol writes it."""
    return {name: {"S": value} for name, value in (item() | attributes).items()}


async def written(script: Script, writes: Sequence[Write], **changes: Any) -> list[StoreError | None]:
    """What the store says of some writes."""
    store = await script.open(**changes)
    problems = list(await store.write(writes))
    await store.close()
    return problems


async def test_batches(script: Script) -> None:
    """Writes that expect nothing go in batches of 25, deletions among them."""
    script.tell("BatchWriteItem", ALL_DONE)
    writes: list[Write] = [Put(item(Key("h!", f"{number}"))) for number in range(59)]
    assert await written(script, [*writes, Delete(KEY)]) == [None] * 60
    sizes = [len(request["RequestItems"]["script"]) for request in script.requests("BatchWriteItem")]
    assert sorted(sizes) == [10, 25, 25]


@pytest.mark.parametrize(
    ("value", "most"),
    [("я" * 150_000, 17), (b"\0" * 300_000, 24), ("\x01" * 300_000, 8), (["я" * 10] * 12_000, 18), ("a" * 300_000, 24)],
    ids=["text beyond ASCII", "octets", "control characters", "many parts", "ASCII"],
)
async def test_batches_of_large_records(script: Script, value: Any, most: int) -> None:
    """No batch is longer on its way than the 16 MB that AWS takes, and none is shorter than it needs to be."""
    script.tell("BatchWriteItem", ALL_DONE)
    writes = [Put(item(Key("h!", f"{number}"), a=value)) for number in range(24)]
    assert await written(script, writes, read_seconds=20, deadline=60) == [None] * 24
    requests = script.requests("BatchWriteItem")
    sizes = [len(request["RequestItems"]["script"]) for request in requests]
    assert max(len(json.dumps(request)) for request in requests) < 16_000_000
    assert (max(sizes), sum(sizes)) == (most, 24)


async def test_rests_are_written_too(script: Script) -> None:
    """What a batch leaves over is sent again, and only that."""
    rest = [{"PutRequest": {"Item": wire()}}, {"DeleteRequest": {"Key": wire(rangeKey="s")}}]
    script.tell(
        "BatchWriteItem",
        Reply({"UnprocessedItems": {"script": rest}}),
        Reply({"UnprocessedItems": {"script": rest[1:]}}),
        ALL_DONE,
    )
    writes: list[Write] = [Put(item()), Delete(Key("h!", "s")), Put(item(Key("h!", "t")))]
    assert await written(script, writes) == [None] * 3
    sizes = [len(request["RequestItems"]["script"]) for request in script.requests("BatchWriteItem")]
    assert sizes == [3, 2, 1]


async def test_rests_that_stay(script: Script) -> None:
    """What a batch leaves over until the time is up has failed, and nothing else has."""
    script.tell("BatchWriteItem", Reply({"UnprocessedItems": {"script": [{"PutRequest": {"Item": wire()}}]}}))
    no_time_left = {"deadline": 5.0, "backoff_base": 1000.0, "backoff_cap": 1000.0}
    problems = await written(script, [Put(item()), Put(item(Key("h!", "s")))], **no_time_left)
    assert [type(problem) for problem in problems] == [Throttled, type(None)]


@pytest.mark.parametrize(
    "answer", [Reply({}), Reply({"UnprocessedItems": {"script": [{"PutRequest": {"Item": wire(rangeKey="other")}}]}})]
)
async def test_a_batch_without_an_answer(script: Script, answer: Reply) -> None:
    """A batch whose answer is cut, or speaks of other records, counts as not written."""
    script.tell("BatchWriteItem", answer)
    problems = await written(script, [Put(item()), Put(item(Key("h!", "s")))])
    assert [type(problem) for problem in problems] == [StoreUnavailable] * 2


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (error("ValidationException"), StoreRefused),
        (error("ValidationException", message="Item size has exceeded the maximum allowed size"), ItemTooLarge),
    ],
)
async def test_a_refused_batch(script: Script, refused: Reply, kind: type[StoreError]) -> None:
    """A batch that is refused as a whole is tried write by write, so that only the wrong one fails."""
    script.tell("BatchWriteItem", refused)
    script.tell("PutItem", lambda asked: refused if asked["Item"]["rangeKey"] == {"S": "s"} else DONE)
    problems = await written(script, [Put(item()), Put(item(Key("h!", "s"))), Put(item(Key("h!", "t")))])
    assert [type(problem) for problem in problems] == [type(None), kind, type(None)]


# --- expectations ----------------------------------------------------------------------------------------------


async def test_a_lost_reply_is_no_failure(script: Script) -> None:
    """A create whose reply was lost finds its own record on the second attempt, and has succeeded."""
    mine = wire(_w="mine", a="x")
    script.tell("PutItem", DROPPED, error("ConditionalCheckFailedException", Item=mine))
    assert await written(script, [Put(item(_w="mine", a="x"), Expect(absent=True))]) == [None]
    assert script.counts["PutItem"] == 2


async def test_the_record_of_another(script: Script) -> None:
    """After a lost reply the record of another write is still a failed condition."""
    script.tell("PutItem", DROPPED, error("ConditionalCheckFailedException", Item=wire(_w="other", a="x")))
    (problem,) = await written(script, [Put(item(_w="mine", a="x"), Expect(absent=True))])
    assert isinstance(problem, ConditionFailed)
    assert problem.old == item(_w="other", a="x")


async def test_a_record_without_a_write_id(script: Script) -> None:
    """A record that nothing tells from that of another caller is written under a token, and is not taken for ours."""
    script.tell("TransactWriteItems", DROPPED, canceled("ConditionalCheckFailed", Item=wire(a="x")))
    (problem,) = await written(script, [Put(item(a="x"), Expect(absent=True))])
    assert isinstance(problem, ConditionFailed)
    assert problem.old == item(a="x")
    assert script.counts["PutItem"] == 0


async def test_our_record_without_a_lost_reply(script: Script) -> None:
    """A create that finds what it has written itself was doubled on its way, and has succeeded."""
    script.tell("PutItem", error("ConditionalCheckFailedException", Item=wire(_w="mine")))
    assert await written(script, [Put(item(_w="mine"), Expect(absent=True))]) == [None]
    assert script.counts["PutItem"] == 1


async def test_our_write_id_on_another_record(script: Script) -> None:
    """A record that differs in anything from what was to be written is that of somebody else."""
    script.tell("PutItem", error("ConditionalCheckFailedException", Item=wire(_w="mine", a="y")))
    (problem,) = await written(script, [Put(item(_w="mine", a="x"), Expect(absent=True))])
    assert isinstance(problem, ConditionFailed)


async def test_a_lost_reply_to_a_deletion(script: Script) -> None:
    """A deletion that expects something goes under a token of its own, which its further attempts share."""
    script.tell("TransactWriteItems", DROPPED, TOGETHER_DONE)
    deletion = Delete(KEY, Expect(attributes={"a": 1}))
    assert await written(script, [deletion]) == [None]
    assert await written(script, [deletion]) == [None]
    first, again, other = (request["ClientRequestToken"] for request in script.requests("TransactWriteItems"))
    assert first == again != other
    script.tell("TransactWriteItems", DROPPED, canceled("ConditionalCheckFailed"))
    (problem,) = await written(script, [deletion])
    assert isinstance(problem, ConditionFailed)
    assert problem.old is None


async def test_an_empty_reply_is_no_success(script: Script) -> None:
    """A reply without the capacity that was asked for was cut: nobody is told that the write happened."""
    script.tell("PutItem", Reply({}))
    (problem,) = await written(script, [Put(item(_w="mine"), Expect(absent=True))])
    assert isinstance(problem, StoreUnavailable)


async def test_positions(script: Script) -> None:
    """A failed condition tells the position of its write in the call."""
    script.tell("BatchWriteItem", ALL_DONE)
    script.tell("PutItem", error("ConditionalCheckFailedException", Item=wire(a="x")))
    script.tell("TransactWriteItems", canceled("ConditionalCheckFailed", Item=wire(a="y")))
    deletion = Delete(Key("h!", "t"), Expect(absent=True))
    plain = [Put(item(Key("p!", f"{number}"))) for number in range(2)]
    problems = await written(script, [*plain, Put(item(Key("h!", "s"), _w="mine"), Expect()), deletion])
    assert problems[:2] == [None, None]
    for position, range_key, old in ((2, "s", "x"), (3, "t", "y")):
        problem = problems[position]
        assert isinstance(problem, ConditionFailed)
        assert (problem.position, problem.failures) == (position, {position: item(a=old)})
        assert f"('h!', '{range_key}')" in problem.message


# --- transactions ----------------------------------------------------------------------------------------------


def canceled(*codes: str, **more: Any) -> Reply:
    """A transaction that did not happen, with a reason for each write."""
    reasons = [{"Code": code, **(more if code != "None" else {})} for code in codes]
    return error("TransactionCanceledException", CancellationReasons=reasons)


async def together(script: Script, token: str = "token", **changes: Any) -> None:  # noqa: S107 - no secret
    """Two writes in one transaction."""
    store = await script.open(**changes)
    try:
        await store.write_together([Put(item()), Delete(Key("h!", "s"), Expect())], token)
    finally:
        await store.close()


@pytest.mark.parametrize(
    "passing",
    [
        canceled("TransactionConflict", "None"),
        canceled("None", "ThrottlingError"),
        error("TransactionInProgressException"),
        error("InternalServerError", 500),
        DROPPED,
        Reply({}),
    ],
)
async def test_transactions_are_tried_again(script: Script, passing: Reply) -> None:
    """A conflict with another transaction, or a lost reply, is tried again under the same token."""
    script.tell("TransactWriteItems", passing, TOGETHER_DONE)
    await together(script)
    tokens = [request["ClientRequestToken"] for request in script.requests("TransactWriteItems")]
    assert len(tokens) == 2
    assert tokens[0] == tokens[1]


async def test_tokens(script: Script) -> None:
    """Each token is another one to the engine, of the length that it takes."""
    script.tell("TransactWriteItems", TOGETHER_DONE)
    for token in ("a", "b", "t" * 36):
        await together(script, token)
    tokens = [request["ClientRequestToken"] for request in script.requests("TransactWriteItems")]
    assert len(set(tokens)) == 3
    assert all(1 <= len(token) <= 36 for token in tokens)


async def test_conflicts_have_a_patience_of_their_own(script: Script) -> None:
    """A write that meets others is sent up to eight times, and takes nothing from what retries of faults may take."""
    conflict = canceled("TransactionConflict", "None")
    script.tell("TransactWriteItems", *[conflict] * 7, TOGETHER_DONE)
    await together(script, retry_share=0.0, retry_floor=0.5)
    assert script.counts["TransactWriteItems"] == 8
    script.tell("PutItem", *[error("TransactionConflictException")] * 7, DONE)
    assert await written(script, [Put(item(_w="mine"), Expect())], retry_share=0.0, retry_floor=0.5) == [None]
    script.tell("TransactWriteItems", conflict)
    with pytest.raises(Conflict):
        await together(script)
    assert script.counts["TransactWriteItems"] == 16


@pytest.mark.parametrize("earlier", [DROPPED, Reply({}), error("TransactionInProgressException")])
@pytest.mark.parametrize(
    ("reason", "kind", "words"),
    [("TransactionConflict", Conflict, "conflicted with other writes"), ("ThrottlingError", Throttled, "were throttled")],
)
async def test_an_attempt_without_an_answer(
    script: Script, earlier: Reply, reason: str, kind: type[StoreError], words: str
) -> None:
    """Where an earlier attempt may have been carried out, nobody is told that nothing was written."""
    script.tell("TransactWriteItems", earlier, canceled(reason, "None"))
    with pytest.raises(StoreUnavailable, match=f"TransactWriteItems.*{words}") as caught:
        await together(script)
    assert isinstance(caught.value.__cause__, kind)
    assert not caught.value.certain


async def test_an_attempt_without_an_answer_before_a_denial(script: Script) -> None:
    """That credentials have run out meanwhile says nothing of a write that may have been carried out before."""
    script.tell("TransactWriteItems", DROPPED, error("ExpiredTokenException"))
    with pytest.raises(StoreUnavailable, match="were denied") as caught:
        await together(script)
    assert isinstance(caught.value.__cause__, StoreDenied)
    assert not caught.value.certain
    with pytest.raises(StoreDenied):
        await together(script)


@pytest.mark.parametrize("reason", ["TransactionConflict", "ThrottlingError"])
async def test_every_attempt_was_answered(script: Script, reason: str) -> None:
    """What the store has refused each time it calls by its name: nothing was written."""
    script.tell("TransactWriteItems", canceled(reason, "None"))
    with pytest.raises(Conflict if reason == "TransactionConflict" else Throttled):
        await together(script)


async def test_a_store_that_cannot_be_reached(script: Script) -> None:
    """Where no attempt has reached the store it is certain that nothing was written, and only there."""
    script.tell("TransactWriteItems", DROPPED)
    for breaker, certain in ((1, True), (100, False)):  # One that is left alone is not asked.
        store = await script.open(attempts=1, breaker_failures=breaker)
        for expected in (False, certain):
            with pytest.raises(StoreUnavailable) as caught:
                await store.write_together([Put(item())], "token")
            assert caught.value.certain is expected
        await store.close()


async def test_a_refused_connection(script: Script) -> None:
    """Where nobody listens it is certain that nothing was written, and that the write may be sent again."""
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))  # And nobody listens there.
        store = await Server(f"http://127.0.0.1:{taken.getsockname()[1]}").open("script", replace(QUICK, attempts=2))
        with pytest.raises(StoreUnavailable, match="no connection") as caught:
            await store.write_together([Put(item())], "token")
        await store.close()
    assert caught.value.certain


async def test_all_failed_expectations(script: Script) -> None:
    """Each expectation that failed is told with what stands there, beside a conflict only those that were tested."""
    reasons = [
        {"Code": "ConditionalCheckFailed"},
        {"Code": "TransactionConflict"},
        {"Code": "None"},
        {"Code": "ConditionalCheckFailed", "Item": wire(a="x")},
    ]
    script.tell("TransactWriteItems", error("TransactionCanceledException", CancellationReasons=reasons))
    store = await script.open()
    with pytest.raises(ConditionFailed) as caught:
        await store.write_together([Check(Key("h!", f"{place}"), Expect()) for place in range(4)], "token")
    await store.close()
    assert (caught.value.position, caught.value.old) == (0, None)
    assert caught.value.failures == {0: None, 3: item(a="x")}
    actions = script.requests("TransactWriteItems")[0]["TransactItems"]
    assert [list(action) for action in actions] == [["ConditionCheck"]] * 4


async def test_a_failed_expectation(script: Script) -> None:
    """A failed expectation tells its position and the old record, even beside a conflict, and is not tried again."""
    script.tell("TransactWriteItems", canceled("TransactionConflict", "ConditionalCheckFailed", Item=wire(a="x")))
    with pytest.raises(ConditionFailed) as caught:
        await together(script)
    assert (caught.value.position, caught.value.old) == (1, item(a="x"))
    assert script.counts["TransactWriteItems"] == 1


@pytest.mark.parametrize(
    ("lasting", "kind"),
    [
        (canceled("TransactionConflict", "None"), Conflict),
        (error("TransactionConflictException"), Conflict),
        (error("ReplicatedWriteConflictException"), Conflict),
        (canceled("TransactionConflict", "ThrottlingError"), Conflict),
        (canceled("TransactionConflict", "ValidationError", Message="wrong key"), StoreRefused),
        (error("TransactionInProgressException"), StoreUnavailable),
        (canceled("None", "ProvisionedThroughputExceeded"), Throttled),
        (canceled("None", "ValidationError", Message="wrong key"), StoreRefused),
        (error("IdempotentParameterMismatchException"), StoreRefused),
    ],
)
async def test_transactions_that_fail(script: Script, lasting: Reply, kind: type[StoreError]) -> None:
    """What stays wrong with a transaction becomes a typed error."""
    script.tell("TransactWriteItems", lasting)
    with pytest.raises(kind):
        await together(script)
