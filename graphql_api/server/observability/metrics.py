"""The metrics of a server, and their endpoint. A test compares docs/how-to/operations.md with the table.

Each server has its own registry, so that two servers in one process stay separate. With several worker processes, the
variable PROMETHEUS_MULTIPROC_DIR names a directory before this module is imported, and each process reports the sums.
"""

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from time import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.requests import Request
from starlette.responses import Response

from graphql_api.codecs import shard_name
from graphql_api.model import Catalog, entity_and_version
from graphql_api.runtime import RequestStatistics

MULTIPROCESS_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the directory where prometheus_client shares the counts of all worker processes."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
SHARD_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""fewer buckets, because there may be many shards"""
_KINDS: Mapping[str, Callable[..., Counter | Gauge | Histogram]] = {
    "counter": Counter,
    "gauge": Gauge,
    "histogram": Histogram,
}
MAX_CODES = 100
"""Maximum number of error codes used as labels. Custom resolvers may add codes; further ones count as OTHER."""
MAX_SHARDS = 1_000
"""Maximum number of shards used as labels; further ones count as OTHER."""
OTHER = "OTHER"


class Metric(Enum):
    """The metrics, in the order of the documentation: each with its name, unit, meaning and labels."""

    HTTP_REQUESTS = ("shardql_http_requests_total", "requests", "HTTP requests with a response.", ("route", "status"))
    IN_FLIGHT = "shardql_operations_in_flight", "operations", "Operations in progress."
    OPERATION_LIMIT = (
        "shardql_operations_limit",
        "operations",
        "Limit of operations in progress; it follows the measured delay.",
    )
    QUEUED = "shardql_operations_queued", "operations", "Operations that wait for a place."
    QUEUE_SECONDS = "shardql_operation_queue_seconds", "seconds", "Time that operations waited for a place."
    REPLY_BYTES = "shardql_reply_bytes", "bytes", "Size of the replies of the store that operations in progress hold."
    OPERATIONS = (
        "shardql_operations_total",
        "operations",
        (
            "GraphQL operations by outcome: ok, errors (part of the response is missing), refused (not executed), "
            "cancelled (the client disconnected), failed (internal error)."
        ),
        ("outcome",),
    )
    QUERY_PATHS = (
        "shardql_queries_total",
        "queries",
        "Executed queries by their path: fast (completed by compiled code), stock (at least partly by graphql-core).",
        ("path",),
    )
    OPERATION_SECONDS = ("shardql_operation_seconds", "seconds", "Duration of operations, including their store calls.")
    SUBSCRIPTIONS = "shardql_subscriptions", "subscriptions", "Open subscriptions."
    SUBSCRIPTION_EVENTS = (
        "shardql_subscription_events_total",
        "events",
        "Events of subscriptions by outcome: ok, errors (part of the response is missing), refused (not subscribed).",
        ("outcome",),
    )
    ERRORS = "shardql_errors_total", "errors", "Errors in responses, by code.", ("code",)
    TOKEN_ERRORS = "shardql_token_errors_total", "errors", "Rejected page tokens, by code.", ("code",)
    STORE_CALLS = (
        "shardql_store_calls_total",
        "calls",
        "Store calls, by method of the storage port. The outcome is ok, or the code of the first error.",
        ("call", "outcome"),
    )
    STORE_SECONDS = "shardql_store_call_seconds", "seconds", "Duration of store calls.", ("call",)
    STORE_RETRIES = (
        "shardql_store_retries_total",
        "requests",
        "Requests that the storage engine sent again after a failure. SQLite never retries.",
    )
    STORE_HEDGES = (
        "shardql_store_hedges_total",
        "requests",
        "Reads that the storage engine sent again because they were late. SQLite never hedges.",
    )
    SEARCHES = (
        "shardql_searches_total",
        "searches",
        "Searches that were answered, by kind: first_page, next_page (from a token), count.",
        ("entity", "index", "kind"),
    )
    KEY_READS = "shardql_key_reads_total", "records", "Records that were requested by key.", ("entity",)
    EMPTY_READS = (
        "shardql_empty_reads_total",
        "reads",
        "Complete reads that found nothing, by kind: first_page, count, key. Those by key have the index `id`.",
        ("entity", "index", "kind"),
    )
    SHARDS_ASKED = "shardql_shards_asked_total", "shards", "Shards that searches read.", ("entity", "index")
    RECORDS_READ = (
        "shardql_records_read_total",
        "records",
        "Records that the store examined. Reads by key have the index `id`, reads of writes have empty labels.",
        ("entity", "index"),
    )
    DANGLING_MAPPINGS = (
        "shardql_dangling_mappings_total",
        "items",
        "Mapping items that searches by lookups skipped, because their record does not exist or has another value.",
        ("entity", "index"),
    )
    LOOKUP_REPAIRS_FAILED = (
        "shardql_lookup_repairs_failed_total",
        "records",
        "Written records whose mapping items in a lookup store were not written: `shardql reconcile` repairs them.",
    )
    RECORDS_RETURNED = (
        "shardql_records_returned_total",
        "records",
        "Records that searches and reads by key returned.",
        ("entity", "index"),
    )
    INDEX_SECONDS = (
        "shardql_index_read_seconds",
        "seconds",
        "Duration of store calls that read an index. Reads by key have the index `id`.",
        ("entity", "index"),
    )
    SHARD_SECONDS = (
        "shardql_shard_read_seconds",
        "seconds",
        "Duration of requests of the storage engine that read one shard. SQLite reads all shards at once, without it.",
        ("shard",),
    )
    EVENTS = (
        "shardql_events_total",
        "events",
        (
            "Events that clients posted, by outcome: applied, repeated (applied before), dead (dead letters now), "
            "waiting (not applied, since one before them is missing or has stopped the stream)."
        ),
        ("projection", "outcome"),
    )
    ELEMENTS = (
        "shardql_elements",
        "elements",
        "Elements of the table, by state: ready, unchecked, announced, building, switching, closing, dropping.",
        ("state",),
    )
    MIGRATION = (
        "shardql_migration_progress",
        "ratio",
        "Share of the present migration that is done, from 0 to 1. NaN if there is none, or its progress is not known.",
    )

    START_TIME = "shardql_start_time_seconds", "timestamp", "Time at which the server began to count."
    SCRAPE_TIME = "shardql_scrape_time_seconds", "timestamp", "Time of this page, by the clock of the server."

    def __init__(self, full_name: str, unit: str, help: str, labels: tuple[str, ...] = ()) -> None:
        self.full_name, self.unit, self.help, self.labels = full_name, unit, help, labels
        self.kind = "counter" if full_name.endswith("_total") else "histogram" if unit == "seconds" else "gauge"


_OPTIONS: Mapping[Metric, Mapping[str, Any]] = {
    Metric.IN_FLIGHT: {"multiprocess_mode": "livesum"},
    Metric.SUBSCRIPTIONS: {"multiprocess_mode": "livesum"},
    Metric.STORE_SECONDS: {"buckets": SECONDS},
    Metric.OPERATION_SECONDS: {"buckets": SECONDS},
    Metric.INDEX_SECONDS: {"buckets": SECONDS},
    Metric.SHARD_SECONDS: {"buckets": SHARD_SECONDS},
    # All worker processes know the same table, so their values are not added.
    Metric.ELEMENTS: {"multiprocess_mode": "livemostrecent"},
    Metric.MIGRATION: {"multiprocess_mode": "livemostrecent"},
    Metric.START_TIME: {"multiprocess_mode": "min"},
    Metric.SCRAPE_TIME: {"multiprocess_mode": "mostrecent"},
}


def _direct_increment(child: Counter | Gauge) -> Callable[[float], None]:
    """Return what adds an amount to a counter or gauge, without the checks of prometheus_client for each call."""
    increment: Callable[[float], None] = child._value.inc  # noqa: SLF001 - `inc` does the same
    return increment


def _direct_observation(child: Histogram) -> Callable[[float], None]:
    """Return what adds a duration to a histogram: `observe` visits the buckets one by one."""
    bounds, add_to_sum = child._upper_bounds, child._sum.inc  # noqa: SLF001
    buckets = [bucket.inc for bucket in child._buckets]  # noqa: SLF001

    def observe(seconds: float) -> None:
        add_to_sum(seconds)
        buckets[bisect_left(bounds, seconds)](1)

    return observe


_INDEX_COUNTS = (Metric.SHARDS_ASKED, Metric.RECORDS_READ, Metric.RECORDS_RETURNED, Metric.DANGLING_MAPPINGS)


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._collectors = {
            metric: _KINDS[metric.kind](
                metric.full_name, metric.help, metric.labels, registry=self._registry, **_OPTIONS.get(metric, {})
            )
            for metric in Metric
        }
        self._children: dict[tuple[str, tuple[str, ...]], Callable[[float], None]] = {}
        """What adds an amount, by metric and labels: prometheus_client takes longer to find it."""
        self._labels: defaultdict[Metric, set[str]] = defaultdict(set)
        self._entities: frozenset[str] = frozenset()
        self._shard_label = lru_cache(MAX_SHARDS)(self._label_of_shard)
        if MULTIPROCESS_DIRECTORY not in os.environ:
            ProcessCollector(registry=self._registry)
        self.set(Metric.START_TIME, time())

    def declare_catalog(self, catalog: Catalog) -> None:
        """Start the counts of its reads at 0: a counter that begins with a higher value has no rate at first."""
        self._entities = frozenset(catalog.entities)
        self._shard_label.cache_clear()
        for entity in catalog.entities.values():
            by_key = entity.name, entity.indexes["by_id"].name
            self.record(Metric.KEY_READS, entity.name, amount=0)
            self.record(Metric.EMPTY_READS, *by_key, "key", amount=0)
            for search in entity.searches:
                for kind in ("first_page", "count"):
                    self.record(Metric.SEARCHES, entity.name, search.name, kind, amount=0)
                    self.record(Metric.EMPTY_READS, entity.name, search.name, kind, amount=0)
                self.record(Metric.SEARCHES, entity.name, search.name, "next_page", amount=0)

    def record(self, metric: Metric, *labels: str, amount: float = 1) -> None:
        """Add an amount to a counter or gauge, or a duration to a histogram. Labels are in the order of the metric."""
        key = metric.full_name, labels
        add = self._children.get(key)
        if add is None:
            collector = self._collectors[metric]
            child = collector.labels(*labels) if labels else collector
            add = _direct_observation(child) if isinstance(child, Histogram) else _direct_increment(child)
            self._children[key] = add
        add(amount)

    def counter(self, metric: Metric, *labels: str) -> Callable[[], None]:
        """Return what adds 1 to a counter. It costs less than `record`."""
        counter = self._collectors[metric].labels(*labels)
        assert isinstance(counter, Counter)
        return counter.inc

    def set(self, metric: Metric, value: float) -> None:
        """Set a gauge without labels."""
        gauge = self._collectors[metric]
        assert isinstance(gauge, Gauge)
        gauge.set(value)

    def set_counts(self, metric: Metric, counts: Mapping[str, float]) -> None:
        """Set a gauge to these counts, by label."""
        gauge = self._collectors[metric]
        assert isinstance(gauge, Gauge)
        for label, count in counts.items():
            gauge.labels(label).set(count)

    def record_reads(self, statistics: RequestStatistics) -> None:
        """Count the reads of one request, by entity and index."""
        attributed = 0
        for labels, index in statistics.indexes.items():
            attributed += index.records_read
            for kind, count in index.reads.items():
                if kind == "key":
                    self.record(Metric.KEY_READS, labels[0], amount=count)
                else:
                    self.record(Metric.SEARCHES, *labels, kind, amount=count)
            for kind, count in index.empty_reads.items():
                self.record(Metric.EMPTY_READS, *labels, kind, amount=count)
            counts = (index.shards_asked, index.records_read, index.records_returned, index.dangling)
            for metric, count in zip(_INDEX_COUNTS, counts, strict=True):
                if count:
                    self.record(metric, *labels, amount=count)
            for seconds in index.call_seconds:
                self.record(Metric.INDEX_SECONDS, *labels, amount=seconds)
        if statistics.records_read > attributed:
            self.record(Metric.RECORDS_READ, "", "", amount=statistics.records_read - attributed)
        for hash_key, seconds in statistics.shard_seconds:
            label = self._shard_label(hash_key)
            if label is not None:
                self.record(Metric.SHARD_SECONDS, label, amount=seconds)

    def _label_of_shard(self, hash_key: str) -> str | None:
        """Return the label of a shard; None for one of no entity of the catalog."""
        shard = shard_name(hash_key)
        if entity_and_version(shard.partition("!")[0])[0] not in self._entities:
            return None
        return self._limited(Metric.SHARD_SECONDS, shard, MAX_SHARDS)

    def code_label(self, code: str) -> str:
        """Return the label of an error code."""
        return self._limited(Metric.ERRORS, code, MAX_CODES)

    def _limited(self, metric: Metric, label: str, limit: int) -> str:
        """Return a label, or OTHER once the metric has as many labels as it may have."""
        known = self._labels[metric]
        if len(known) < limit:
            known.add(label)
        return label if label in known else OTHER

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that an Accept header requests, and its content type."""
        self.set(Metric.SCRAPE_TIME, time())
        registry = self._registry
        if MULTIPROCESS_DIRECTORY in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type

    def endpoint(self, request: Request) -> Response:
        text, content_type = self.render(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type, "cache-control": "no-store"})
