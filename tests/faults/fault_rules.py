"""Rules for the fault proxy: which requests get a fault."""

from collections import Counter
from collections.abc import Callable
from random import Random

from tests.faults.dynamodb_requests import Request
from tests.faults.fault_proxy import Rule
from tests.faults.fault_types import Fault

RequestPredicate = Callable[[Request], bool]


def is_query(request: Request) -> bool:
    """Whether a request is a read of a search."""
    return request.operation == "Query"


def is_write(request: Request) -> bool:
    """Whether a request writes: alone, in a batch or in a transaction."""
    return "Write" in request.operation or request.operation in {"PutItem", "DeleteItem"}


def reads_shard(*shards: str) -> RequestPredicate:
    """Match reads of these shards."""
    return lambda request: is_query(request) and not request.shards.isdisjoint(shards)


def always(fault: Fault, matches: RequestPredicate = is_query) -> Rule:
    """Inject a fault into each matching request."""
    return lambda request: fault if matches(request) else None


def first_attempts(fault: Fault, matches: RequestPredicate = is_query, *, faulty_attempts: int = 1) -> Rule:
    """Inject a fault into the first attempts of each matching request. Later attempts pass."""
    attempts = Counter[str]()

    def rule(request: Request) -> Fault | None:
        if not matches(request):
            return None
        attempts[repr(request.body)] += 1
        return fault if attempts[repr(request.body)] <= faulty_attempts else None

    return rule


def first_request(fault: Fault, matches: RequestPredicate = is_query) -> Rule:
    """Inject a fault into the first matching request only."""
    faulted: list[Request] = []

    def rule(request: Request) -> Fault | None:
        if faulted or not matches(request):
            return None
        faulted.append(request)
        return fault

    return rule


def random_faults(share: float, random: Random, *faults: Fault, matches: RequestPredicate = is_query) -> Rule:
    """Inject a random fault into this share of all matching requests."""
    return lambda request: random.choice(faults) if matches(request) and random.random() < share else None
