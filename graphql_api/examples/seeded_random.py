"""Reproducible random choices for sample data."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class SeededRandom:
    """Random choices that are the same for a seed on every platform and Python version.

    They use only `Random.random()`, the one method whose sequence for a seed Python guarantees.
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random  # noqa: S311 - samples, not secrets

    def integer_below(self, count: int) -> int:
        """Return an integer from 0 to below `count`, uniformly distributed."""
        return int(self._random() * count)

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return self._random() < share

    def small_integer_below(self, count: int) -> int:
        """Return an integer from 0 to below `count`; small ones are much more frequent."""
        fraction = self._random()
        return int(fraction * fraction * count)  # Unlike `**`, a product has the same bits on every platform.

    def large_integer(self, first: int, last: int) -> int:
        """Return an integer from `first` to below `last`; large ones are more frequent."""
        return first + max(self.integer_below(last - first), self.integer_below(last - first))

    def choose(self, choices: Sequence[T]) -> T:
        """Return one of the choices; the first ones are much more frequent."""
        return choices[self.small_integer_below(len(choices))]

    def text(self, letters: str, length: int) -> str:
        """Return a text of `length` random letters."""
        return "".join(letters[self.integer_below(len(letters))] for _ in range(length))
