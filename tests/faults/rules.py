"""Rules for the fault proxy: which requests meet a fault."""

from collections import Counter
from collections.abc import Callable
from random import Random

from tests.faults.faults import Fault
from tests.faults.proxy import Rule
from tests.faults.requests import Request

Which = Callable[[Request], bool]


def is_query(request: Request) -> bool:
    """Reads of a search."""
    return request.operation == "Query"


def is_write(request: Request) -> bool:
    """Writes, alone, in batches and in transactions."""
    return "Write" in request.operation or request.operation in {"PutItem", "DeleteItem"}


def of_shard(*shards: str) -> Which:
    """Reads of these shards."""
    return lambda request: is_query(request) and not request.shards.isdisjoint(shards)


def always(fault: Fault, which: Which = is_query) -> Rule:
    """Spoils each of these requests."""
    return lambda request: fault if which(request) else None


def first_try(fault: Fault, which: Which = is_query, *, tries_spoiled: int = 1) -> Rule:
    """Spoils a request the first time that it comes, or the first few times; the same one again passes."""
    tries = Counter[str]()

    def rule(request: Request) -> Fault | None:
        if not which(request):
            return None
        tries[repr(request.body)] += 1
        return fault if tries[repr(request.body)] <= tries_spoiled else None

    return rule


def only_first(fault: Fault, which: Which = is_query) -> Rule:
    """Spoils the very first of these requests."""
    met: list[Request] = []

    def rule(request: Request) -> Fault | None:
        if met or not which(request):
            return None
        met.append(request)
        return fault

    return rule


def now_and_then(share: float, random: Random, *faults: Fault, which: Which = is_query) -> Rule:
    """Spoils this share of all of these requests, with one fault or another."""
    return lambda request: random.choice(faults) if which(request) and random.random() < share else None
