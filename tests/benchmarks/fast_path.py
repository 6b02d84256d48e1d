"""The share of operations that took the fast path, as the metrics of a server count them."""

from urllib.parse import urlsplit
from urllib.request import urlopen

OPERATIONS = 'shardql_operations_total{outcome="ok"}'
FAST_OPERATIONS = "shardql_fast_operations_total"
"""A server without a fast path does not have this metric: then the share is not available."""
LEAST_SHARE = 0.99


def fast_path_share(metrics: str) -> float | None:
    """Return the share of successful operations that took the fast path, or None if the server has none."""
    values = {}
    for line in metrics.splitlines():
        name, _, value = line.rpartition(" ")
        if name in {OPERATIONS, FAST_OPERATIONS}:
            values[name] = float(value)
    if FAST_OPERATIONS not in values or not values.get(OPERATIONS):
        return None
    return values[FAST_OPERATIONS] / values[OPERATIONS]


def fast_path_note(url: str) -> str:
    """Describe the share of a server."""
    address = urlsplit(url)
    with urlopen(f"http://{address.netloc}/metrics", timeout=30) as response:
        share = fast_path_share(response.read().decode())
    if share is None:
        return "operations on the fast path: n/a"
    verdict = "met" if share >= LEAST_SHARE else "short"
    return f"operations on the fast path: {share:.1%}, target {LEAST_SHARE:.0%}: {verdict}"
