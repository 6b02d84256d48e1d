"""Rows of the table: 50 orders, with one reference each, and with a has-many list each, on SQLite."""

from tests.benchmarks.bench_sizes import Sizes
from tests.benchmarks.contestant_process import WorkerContestant
from tests.benchmarks.contestants import Contestants
from tests.benchmarks.measurement import (
    RELEASE,
    Row,
    Sample,
    Target,
    Turn,
    difference,
    measured_row,
    take_turns,
)

_ORDERS, _LINES = 50, 3
_QUERIES = {
    name: f"{{ orderByPlaced(limit: {_ORDERS}) {{ items {{ orderId placed status {joined} }} }} }}"
    for name, joined in (
        ("orders", ""),
        ("references", "customer { customerId name }"),
        ("lines", "lines { items { line product quantity } }"),
    )
}
_REFERENCE, _PARENT, _ROUNDS = 126 / 10, 660 / 60, 2
_NAMED_ROUNDS = f"target: {_ROUNDS} calls"


def joins(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Measure what a reference and a has-many list add to each order of a page, and count the calls of the store."""
    workers = {}
    for code in contestants.codes:
        worker = workers[code] = contestants.product_worker(code)
        worker.call("open", catalog="orders", url=f"sqlite:///{contestants.folder}/orders-{code.replace(' ', '-')}.db")
        worker.call("put_orders", count=_ORDERS, lines=_LINES)
    costs = {
        name: take_turns(sizes.rounds, {code: _turn(worker, name, sizes) for code, worker in workers.items()})
        for name in _QUERIES
    }
    rows = [measured_row("page of 50 orders, GraphQL, SQLite", "µs a page", costs["orders"])]
    for name, title, target in (("references", "a reference", _REFERENCE), ("lines", "a has-many list", _PARENT)):
        added = {}
        for code in workers:
            added[code] = difference(costs[name][code], costs["orders"][code])
            added[code].operations *= _ORDERS
            added[code].rounds = [seconds / _ORDERS for seconds in added[code].rounds]
        rows.append(measured_row(f"added by {title} of each order", "µs an order", added, [Target(RELEASE, target)]))
    for name in ("references", "lines"):
        calls = {code: worker.call("count_calls", query=_QUERIES[name]) for code, worker in workers.items()}
        calls[_NAMED_ROUNDS] = _ROUNDS
        rows.append(Row(f"calls of the store, 50 orders with {name}", "calls", calls, [Target(_NAMED_ROUNDS, 1.0)], 1))
    return rows


def _turn(worker: WorkerContestant, name: str, sizes: Sizes) -> Turn:
    times = max(sizes.calls // 8, 1)

    def perform(_: int) -> Sample:
        return Sample(times, worker.call("execute", query=_QUERIES[name], times=times)["orderByPlaced"]["items"])

    return Turn(worker.cpu_seconds, perform)
