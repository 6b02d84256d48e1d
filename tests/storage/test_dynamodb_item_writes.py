"""Writes to DynamoDB: batches and their unprocessed items, lost replies, transactions."""

import json
from collections.abc import Mapping, Sequence
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
from tests.storage.scripted_dynamodb import (
    DROPPED,
    QUICK,
    Reply,
    ScriptedDynamoDB,
    error_reply,
)
from tests.support.dynamodb_servers import Server

KEY = Key("h!", "r")
DONE = Reply({"ConsumedCapacity": {"TableName": "script", "CapacityUnits": 1.0}})
TRANSACTION_DONE = Reply({"ConsumedCapacity": [{"TableName": "script", "CapacityUnits": 4.0}]})
BATCH_DONE = Reply({"UnprocessedItems": {}})
THROTTLED = error_reply("ProvisionedThroughputExceededException")


def item(key: Key = KEY, **attributes: Any) -> dict[str, Any]:
    """A record."""
    return {"hashKey": key.hash, "rangeKey": key.range, **attributes}


def wire_item(**attributes: str) -> dict[str, Mapping[str, str]]:
    """A record of texts in the wire format."""
    return {name: {"S": value} for name, value in (item() | attributes).items()}


async def write_all(server: ScriptedDynamoDB, writes: Sequence[Write], **changes: Any) -> list[StoreError | None]:
    """Execute some writes and return their results."""
    store = await server.open(**changes)
    errors = list(await store.write(writes))
    await store.close()
    return errors


async def test_batches(server: ScriptedDynamoDB) -> None:
    """Writes without conditions are sent in batches of 25, including deletes."""
    server.set_replies("BatchWriteItem", BATCH_DONE)
    writes: list[Write] = [Put(item(Key("h!", f"{number}"))) for number in range(59)]
    assert await write_all(server, [*writes, Delete(KEY)]) == [None] * 60
    sizes = [len(request["RequestItems"]["script"]) for request in server.requests("BatchWriteItem")]
    assert sorted(sizes) == [10, 25, 25]


@pytest.mark.parametrize(
    ("value", "largest_batch"),
    [("я" * 150_000, 17), (b"\0" * 300_000, 24), ("\x01" * 300_000, 8), (["я" * 10] * 12_000, 18), ("a" * 300_000, 24)],
    ids=["text beyond ASCII", "octets", "control characters", "many parts", "ASCII"],
)
async def test_batches_of_large_records(server: ScriptedDynamoDB, value: Any, largest_batch: int) -> None:
    """A batch has less than 16 MB in the wire format, and as many records as fit."""
    server.set_replies("BatchWriteItem", BATCH_DONE)
    writes = [Put(item(Key("h!", f"{number}"), a=value)) for number in range(24)]
    assert await write_all(server, writes, read_seconds=20, deadline=60) == [None] * 24
    requests = server.requests("BatchWriteItem")
    sizes = [len(request["RequestItems"]["script"]) for request in requests]
    assert max(len(json.dumps(request)) for request in requests) < 16_000_000
    assert (max(sizes), sum(sizes)) == (largest_batch, 24)


async def test_unprocessed_items_are_sent_again(server: ScriptedDynamoDB) -> None:
    """Unprocessed items of a batch are sent again, and no others."""
    unprocessed = [{"PutRequest": {"Item": wire_item()}}, {"DeleteRequest": {"Key": wire_item(rangeKey="s")}}]
    server.set_replies(
        "BatchWriteItem",
        Reply({"UnprocessedItems": {"script": unprocessed}}),
        Reply({"UnprocessedItems": {"script": unprocessed[1:]}}),
        BATCH_DONE,
    )
    writes: list[Write] = [Put(item()), Delete(Key("h!", "s")), Put(item(Key("h!", "t")))]
    assert await write_all(server, writes) == [None] * 3
    sizes = [len(request["RequestItems"]["script"]) for request in server.requests("BatchWriteItem")]
    assert sizes == [3, 2, 1]


async def test_unprocessed_items_fail_at_the_deadline(server: ScriptedDynamoDB) -> None:
    """Items that are unprocessed until the deadline fail, and no others."""
    server.set_replies(
        "BatchWriteItem", Reply({"UnprocessedItems": {"script": [{"PutRequest": {"Item": wire_item()}}]}})
    )
    no_time_left = {"deadline": 5.0, "backoff_base": 1000.0, "backoff_cap": 1000.0}
    errors = await write_all(server, [Put(item()), Put(item(Key("h!", "s")))], **no_time_left)
    assert [type(error) for error in errors] == [Throttled, type(None)]


@pytest.mark.parametrize(
    "reply",
    [Reply({}), Reply({"UnprocessedItems": {"script": [{"PutRequest": {"Item": wire_item(rangeKey="other")}}]}})],
)
async def test_invalid_batch_replies(server: ScriptedDynamoDB, reply: Reply) -> None:
    """The writes of a batch fail if the reply is incomplete or lists other records."""
    server.set_replies("BatchWriteItem", reply)
    errors = await write_all(server, [Put(item()), Put(item(Key("h!", "s")))])
    assert [type(error) for error in errors] == [StoreUnavailable] * 2


@pytest.mark.parametrize(
    ("rejected", "error_type"),
    [
        (error_reply("ValidationException"), StoreRefused),
        (error_reply("ValidationException", message="Item size has exceeded the maximum allowed size"), ItemTooLarge),
    ],
)
async def test_a_rejected_batch_is_split(
    server: ScriptedDynamoDB, rejected: Reply, error_type: type[StoreError]
) -> None:
    """The writes of a rejected batch are sent one by one, so that only the invalid one fails."""
    server.set_replies("BatchWriteItem", rejected)
    server.set_replies("PutItem", lambda body: rejected if body["Item"]["rangeKey"] == {"S": "s"} else DONE)
    errors = await write_all(server, [Put(item()), Put(item(Key("h!", "s"))), Put(item(Key("h!", "t")))])
    assert [type(error) for error in errors] == [type(None), error_type, type(None)]


# --- conditions ------------------------------------------------------------------------------------------------


async def test_a_create_with_a_lost_reply_succeeds(server: ScriptedDynamoDB) -> None:
    """A create with a lost reply finds its own record on the second attempt, and succeeds."""
    own_item = wire_item(_w="mine", a="x")
    server.set_replies("PutItem", DROPPED, error_reply("ConditionalCheckFailedException", Item=own_item))
    assert await write_all(server, [Put(item(_w="mine", a="x"), Expect(absent=True))]) == [None]
    assert server.counts["PutItem"] == 2


async def test_a_create_finds_the_record_of_another_write(server: ScriptedDynamoDB) -> None:
    """After a lost reply, a stored record of another write is a failed condition."""
    server.set_replies(
        "PutItem", DROPPED, error_reply("ConditionalCheckFailedException", Item=wire_item(_w="other", a="x"))
    )
    (error,) = await write_all(server, [Put(item(_w="mine", a="x"), Expect(absent=True))])
    assert isinstance(error, ConditionFailed)
    assert error.old == item(_w="other", a="x")


async def test_a_create_without_a_write_id(server: ScriptedDynamoDB) -> None:
    """A record without a write id is written with a token, and a stored record never counts as its own."""
    server.set_replies("TransactWriteItems", DROPPED, canceled_reply("ConditionalCheckFailed", Item=wire_item(a="x")))
    (error,) = await write_all(server, [Put(item(a="x"), Expect(absent=True))])
    assert isinstance(error, ConditionFailed)
    assert error.old == item(a="x")
    assert server.counts["PutItem"] == 0


async def test_a_duplicated_create_succeeds(server: ScriptedDynamoDB) -> None:
    """A create that finds its own record on the first attempt was duplicated on its way, and succeeds."""
    server.set_replies("PutItem", error_reply("ConditionalCheckFailedException", Item=wire_item(_w="mine")))
    assert await write_all(server, [Put(item(_w="mine"), Expect(absent=True))]) == [None]
    assert server.counts["PutItem"] == 1


async def test_a_known_write_id_on_another_record(server: ScriptedDynamoDB) -> None:
    """A stored record with the same write id but other values belongs to another write."""
    server.set_replies("PutItem", error_reply("ConditionalCheckFailedException", Item=wire_item(_w="mine", a="y")))
    (error,) = await write_all(server, [Put(item(_w="mine", a="x"), Expect(absent=True))])
    assert isinstance(error, ConditionFailed)


async def test_a_delete_with_a_lost_reply(server: ScriptedDynamoDB) -> None:
    """A delete with a condition is sent with its own token, which its further attempts reuse."""
    server.set_replies("TransactWriteItems", DROPPED, TRANSACTION_DONE)
    delete = Delete(KEY, Expect(attributes={"a": 1}))
    assert await write_all(server, [delete]) == [None]
    assert await write_all(server, [delete]) == [None]
    first, second, other = (request["ClientRequestToken"] for request in server.requests("TransactWriteItems"))
    assert first == second != other
    server.set_replies("TransactWriteItems", DROPPED, canceled_reply("ConditionalCheckFailed"))
    (error,) = await write_all(server, [delete])
    assert isinstance(error, ConditionFailed)
    assert error.old is None


async def test_an_empty_reply_is_incomplete(server: ScriptedDynamoDB) -> None:
    """A reply without the requested capacity is incomplete, and the write does not count as done."""
    server.set_replies("PutItem", Reply({}))
    (error,) = await write_all(server, [Put(item(_w="mine"), Expect(absent=True))])
    assert isinstance(error, StoreUnavailable)


async def test_positions_of_failed_conditions(server: ScriptedDynamoDB) -> None:
    """A failed condition has the position of its write in the call."""
    server.set_replies("BatchWriteItem", BATCH_DONE)
    server.set_replies("PutItem", error_reply("ConditionalCheckFailedException", Item=wire_item(a="x")))
    server.set_replies("TransactWriteItems", canceled_reply("ConditionalCheckFailed", Item=wire_item(a="y")))
    delete = Delete(Key("h!", "t"), Expect(absent=True))
    puts = [Put(item(Key("p!", f"{number}"))) for number in range(2)]
    errors = await write_all(server, [*puts, Put(item(Key("h!", "s"), _w="mine"), Expect()), delete])
    assert errors[:2] == [None, None]
    for position, range_key, old in ((2, "s", "x"), (3, "t", "y")):
        error = errors[position]
        assert isinstance(error, ConditionFailed)
        assert (error.position, error.failures) == (position, {position: item(a=old)})
        assert f"('h!', '{range_key}')" in error.message


# --- transactions ----------------------------------------------------------------------------------------------


def canceled_reply(*codes: str, **more: Any) -> Reply:
    """The reply to a canceled transaction, with a reason for each write."""
    reasons = [{"Code": code, **(more if code != "None" else {})} for code in codes]
    return error_reply("TransactionCanceledException", CancellationReasons=reasons)


async def write_transaction(server: ScriptedDynamoDB, token: str = "token", **changes: Any) -> None:  # noqa: S107 - no secret
    """Execute two writes in one transaction."""
    store = await server.open(**changes)
    try:
        await store.write_together([Put(item()), Delete(Key("h!", "s"), Expect())], token)
    finally:
        await store.close()


@pytest.mark.parametrize(
    "transient",
    [
        canceled_reply("TransactionConflict", "None"),
        canceled_reply("None", "ThrottlingError"),
        error_reply("TransactionInProgressException"),
        error_reply("InternalServerError", 500),
        DROPPED,
        Reply({}),
    ],
)
async def test_transactions_are_retried(server: ScriptedDynamoDB, transient: Reply) -> None:
    """A transaction with a conflict or a lost reply is retried with the same token."""
    server.set_replies("TransactWriteItems", transient, TRANSACTION_DONE)
    await write_transaction(server)
    tokens = [request["ClientRequestToken"] for request in server.requests("TransactWriteItems")]
    assert len(tokens) == 2
    assert tokens[0] == tokens[1]


async def test_tokens(server: ScriptedDynamoDB) -> None:
    """Different tokens are sent as different request tokens of valid length."""
    server.set_replies("TransactWriteItems", TRANSACTION_DONE)
    for token in ("a", "b", "t" * 36):
        await write_transaction(server, token)
    tokens = [request["ClientRequestToken"] for request in server.requests("TransactWriteItems")]
    assert len(set(tokens)) == 3
    assert all(1 <= len(token) <= 36 for token in tokens)


async def test_conflicts_have_their_own_retry_limit(server: ScriptedDynamoDB) -> None:
    """A write with conflicts is sent up to eight times, independent of the retry budget."""
    conflict = canceled_reply("TransactionConflict", "None")
    server.set_replies("TransactWriteItems", *[conflict] * 7, TRANSACTION_DONE)
    await write_transaction(server, retry_share=0.0, retry_floor=0.5)
    assert server.counts["TransactWriteItems"] == 8
    server.set_replies("PutItem", *[error_reply("TransactionConflictException")] * 7, DONE)
    assert await write_all(server, [Put(item(_w="mine"), Expect())], retry_share=0.0, retry_floor=0.5) == [None]
    server.set_replies("TransactWriteItems", conflict)
    with pytest.raises(Conflict):
        await write_transaction(server)
    assert server.counts["TransactWriteItems"] == 16


@pytest.mark.parametrize("earlier", [DROPPED, Reply({}), error_reply("TransactionInProgressException")])
@pytest.mark.parametrize(
    ("reason", "error_type", "text"),
    [
        ("TransactionConflict", Conflict, "conflicted with other writes"),
        ("ThrottlingError", Throttled, "were throttled"),
    ],
)
async def test_rejection_after_a_lost_reply(
    server: ScriptedDynamoDB, earlier: Reply, reason: str, error_type: type[StoreError], text: str
) -> None:
    """If the outcome of an earlier attempt is unknown, a later rejection does not mean that nothing was written."""
    server.set_replies("TransactWriteItems", earlier, canceled_reply(reason, "None"))
    with pytest.raises(StoreUnavailable, match=f"TransactWriteItems.*{text}") as caught:
        await write_transaction(server)
    assert isinstance(caught.value.__cause__, error_type)
    assert not caught.value.certain


async def test_denial_after_a_lost_reply(server: ScriptedDynamoDB) -> None:
    """If the outcome of an earlier attempt is unknown, expired credentials do not mean that nothing was written."""
    server.set_replies("TransactWriteItems", DROPPED, error_reply("ExpiredTokenException"))
    with pytest.raises(StoreUnavailable, match="were denied") as caught:
        await write_transaction(server)
    assert isinstance(caught.value.__cause__, StoreDenied)
    assert not caught.value.certain
    with pytest.raises(StoreDenied):
        await write_transaction(server)


@pytest.mark.parametrize("reason", ["TransactionConflict", "ThrottlingError"])
async def test_rejection_of_every_attempt(server: ScriptedDynamoDB, reason: str) -> None:
    """If every attempt was rejected, the error is that of the rejection: nothing was written."""
    server.set_replies("TransactWriteItems", canceled_reply(reason, "None"))
    with pytest.raises(Conflict if reason == "TransactionConflict" else Throttled):
        await write_transaction(server)


async def test_an_open_circuit_breaker_is_a_certain_failure(server: ScriptedDynamoDB) -> None:
    """It is certain that nothing was written exactly if no attempt has reached the store."""
    server.set_replies("TransactWriteItems", DROPPED)
    for breaker, certain in ((2, True), (100, False)):  # An open circuit breaker sends no request.
        store = await server.open(attempts=1, breaker_failures=breaker, read_seconds=1e-9)
        for expected in (False, False, certain):
            with pytest.raises(StoreUnavailable) as caught:
                await store.write_together([Put(item())], "token")
            assert caught.value.certain is expected
        await store.close()


async def test_a_refused_connection(server: ScriptedDynamoDB) -> None:
    """A refused connection is a certain failure: nothing was written, and the write is safe to retry."""
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))  # No server listens on this port.
        store = await Server(f"http://127.0.0.1:{taken.getsockname()[1]}").open("script", replace(QUICK, attempts=2))
        with pytest.raises(StoreUnavailable, match="no connection") as caught:
            await store.write_together([Put(item())], "token")
        await store.close()
    assert caught.value.certain


async def test_all_failed_conditions_are_reported(server: ScriptedDynamoDB) -> None:
    """The error lists every failed condition with its stored record, and ignores conflicts of other writes."""
    reasons = [
        {"Code": "ConditionalCheckFailed"},
        {"Code": "TransactionConflict"},
        {"Code": "None"},
        {"Code": "ConditionalCheckFailed", "Item": wire_item(a="x")},
    ]
    server.set_replies("TransactWriteItems", error_reply("TransactionCanceledException", CancellationReasons=reasons))
    store = await server.open()
    with pytest.raises(ConditionFailed) as caught:
        await store.write_together([Check(Key("h!", f"{number}"), Expect()) for number in range(4)], "token")
    await store.close()
    assert (caught.value.position, caught.value.old) == (0, None)
    assert caught.value.failures == {0: None, 3: item(a="x")}
    actions = server.requests("TransactWriteItems")[0]["TransactItems"]
    assert [list(action) for action in actions] == [["ConditionCheck"]] * 4


async def test_a_failed_condition_is_not_retried(server: ScriptedDynamoDB) -> None:
    """A failed condition has its position and the stored record. It is not retried, even with a conflict."""
    server.set_replies(
        "TransactWriteItems", canceled_reply("TransactionConflict", "ConditionalCheckFailed", Item=wire_item(a="x"))
    )
    with pytest.raises(ConditionFailed) as caught:
        await write_transaction(server)
    assert (caught.value.position, caught.value.old) == (1, item(a="x"))
    assert server.counts["TransactWriteItems"] == 1


@pytest.mark.parametrize(
    ("reply", "error_type"),
    [
        (canceled_reply("TransactionConflict", "None"), Conflict),
        (error_reply("TransactionConflictException"), Conflict),
        (error_reply("ReplicatedWriteConflictException"), Conflict),
        (canceled_reply("TransactionConflict", "ThrottlingError"), Conflict),
        (canceled_reply("TransactionConflict", "ValidationError", Message="wrong key"), StoreRefused),
        (error_reply("TransactionInProgressException"), StoreUnavailable),
        (canceled_reply("None", "ProvisionedThroughputExceeded"), Throttled),
        (canceled_reply("None", "ValidationError", Message="wrong key"), StoreRefused),
        (error_reply("IdempotentParameterMismatchException"), StoreRefused),
    ],
)
async def test_persistent_transaction_errors(
    server: ScriptedDynamoDB, reply: Reply, error_type: type[StoreError]
) -> None:
    """A persistent error of a transaction becomes a typed error."""
    server.set_replies("TransactWriteItems", reply)
    with pytest.raises(error_type):
        await write_transaction(server)
