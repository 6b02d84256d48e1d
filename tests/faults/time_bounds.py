"""Time measurements on machines that run other work."""

from collections.abc import Awaitable, Callable


async def best_of(attempts: int, measure: Callable[[], Awaitable[float]], *, enough: float) -> float:
    """Return the least of several measurements. Stops early if a measurement is small enough."""
    best = await measure()
    for _ in range(attempts - 1):
        if best <= enough:
            break
        best = min(best, await measure())
    return best
