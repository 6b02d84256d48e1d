"""`shardql verify --watch`: verifies a store again and again, and serves metrics, until a stop signal."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from logging import getLogger

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from graphql_api.cli.process.stop_signals import stop_signal, until_stopped
from graphql_api.errors import InvalidSettings, StoreError

log = getLogger("shardql")


class WatchMetric(Enum):
    """The metrics of a watch, in the order of the documentation: name, unit, meaning and labels."""

    PASSES = (
        "shardql_verify_passes_total",
        "passes",
        "Passes by outcome: clean (nothing is wrong any longer), findings, failed (the store did not answer).",
        ("outcome",),
    )
    ITEMS = "shardql_verify_items_total", "items", "Items that were read."
    FINDINGS = (
        "shardql_verify_findings",
        "findings",
        "Findings of the last complete pass that were not repaired, by kind of damage or difference.",
        ("kind",),
    )
    REPAIRED = "shardql_verify_repaired_total", "findings", "Findings that were repaired, by kind of damage.", ("kind",)
    UNSETTLED = (
        "shardql_verify_unsettled",
        "items",
        "Items of the last complete pass that writers changed at every look.",
    )
    LAST_PASS = "shardql_verify_last_pass_timestamp_seconds", "seconds", "End of the last complete pass, since 1970."
    LAST_SECONDS = "shardql_verify_last_pass_seconds", "seconds", "Duration of the last complete pass."

    def __init__(self, full_name: str, unit: str, help: str, labels: tuple[str, ...] = ()) -> None:
        self.full_name, self.unit, self.help, self.labels = full_name, unit, help, labels
        self.kind = "counter" if full_name.endswith("_total") else "gauge"


@dataclass(frozen=True, slots=True)
class PassSummary:
    """What one pass has found."""

    remaining: Mapping[str, int]
    """number of findings that were not repaired, by kind"""
    repaired: Mapping[str, int]
    unsettled: int


class WatchMetrics:
    """The metrics of one watch."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self.registry = CollectorRegistry()
        self._counters = {
            one: Counter(one.full_name, one.help, one.labels, registry=self.registry)
            for one in WatchMetric
            if one.kind == "counter"
        }
        self._gauges = {
            one: Gauge(one.full_name, one.help, one.labels, registry=self.registry)
            for one in WatchMetric
            if one.kind == "gauge"
        }
        for outcome in ("clean", "findings", "failed"):
            self._counters[WatchMetric.PASSES].labels(outcome)
        for kind in kinds:
            self._gauges[WatchMetric.FINDINGS].labels(kind)
            self._counters[WatchMetric.REPAIRED].labels(kind)
        self._kinds = kinds

    def count_items(self, items: int) -> None:
        """Count items that were read."""
        self._counters[WatchMetric.ITEMS].inc(items)

    def fail(self) -> None:
        """Count a pass that the store did not let complete."""
        self._counters[WatchMetric.PASSES].labels("failed").inc()

    def complete(self, summary: PassSummary, seconds: float) -> None:
        """Count a complete pass."""
        outcome = "findings" if any(summary.remaining.values()) else "clean"
        self._counters[WatchMetric.PASSES].labels(outcome).inc()
        for kind in self._kinds:
            self._gauges[WatchMetric.FINDINGS].labels(kind).set(summary.remaining.get(kind, 0))
            self._counters[WatchMetric.REPAIRED].labels(kind).inc(summary.repaired.get(kind, 0))
        self._gauges[WatchMetric.UNSETTLED].set(summary.unsettled)
        self._gauges[WatchMetric.LAST_PASS].set(time.time())
        self._gauges[WatchMetric.LAST_SECONDS].set(seconds)


@contextmanager
def served_metrics(metrics: WatchMetrics, address: str) -> Iterator[str]:
    """Serve metrics over HTTP at `host:port` during the block. Provide the URL."""
    host, _, port = address.rpartition(":")
    try:
        server, thread = start_http_server(int(port), host.strip("[]") or "127.0.0.1", metrics.registry)
    except (OSError, ValueError, OverflowError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else "it is no address"
        raise InvalidSettings(
            [f"Cannot serve metrics at {address}: {reason}. Choose another --metrics HOST:PORT (0 for any free port)."]
        ) from error
    try:
        bound = f"{server.server_address[0]!s}"
        yield f"http://{f'[{bound}]' if ':' in bound else bound}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def watch(
    run_pass: Callable[[], Awaitable[PassSummary]],
    metrics: WatchMetrics,
    seconds: float,
) -> None:
    """Run a pass at an interval, until SIGTERM or Ctrl-C. They cancel a pass that is running."""
    async with stop_signal() as stop:
        while not stop.is_set():
            started = time.monotonic()
            await until_stopped(stop, _run_once(run_pass, metrics))
            rest = seconds - (time.monotonic() - started)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), max(rest, 0.0))


async def _run_once(run_pass: Callable[[], Awaitable[PassSummary]], metrics: WatchMetrics) -> None:
    started = time.monotonic()
    try:
        summary = await run_pass()
    except StoreError as problem:
        log.warning("The store cannot be verified now: %s", problem)
        metrics.fail()
        return
    metrics.complete(summary, time.monotonic() - started)
