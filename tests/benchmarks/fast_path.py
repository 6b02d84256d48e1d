"""The share of queries that took the fast path, as the metrics of a server count them."""

from urllib.parse import urlsplit
from urllib.request import urlopen

FAST, STOCK = (f'shardql_queries_total{{path="{path}"}}' for path in ("fast", "stock"))
"""A server without a fast path does not have these metrics: then the share is not available."""
LEAST_SHARE = 0.99


def fast_path_share(metrics: str) -> float | None:
    """Return the share of executed queries that took the fast path, or None if the server does not count them."""
    counts = {FAST: 0.0, STOCK: 0.0}
    for line in metrics.splitlines():
        name, _, value = line.rpartition(" ")
        if name in counts:
            counts[name] = float(value)
    total = sum(counts.values())
    return counts[FAST] / total if total else None


def fast_path_note(url: str) -> str:
    """Describe the share of a server."""
    address = urlsplit(url)
    with urlopen(f"http://{address.netloc}/metrics", timeout=30) as response:
        share = fast_path_share(response.read().decode())
    if share is None:
        return "queries on the fast path: n/a"
    verdict = "met" if share >= LEAST_SHARE else "short"
    return f"queries on the fast path: {share:.1%}, target {LEAST_SHARE:.0%}: {verdict}"
