"""Choices for sample data: the same for a seed on every platform and in every Python."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Choices out of `Random.random()` alone, the one method whose sequence Python promises to keep for a seed."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random  # noqa: S311 - samples, not secrets

    def below(self, count: int) -> int:
        """Each number below `count` as often as any other."""
        return int(self._random() * count)

    def chance(self, share: float) -> bool:
        """True in this share of cases."""
        return self._random() < share

    def small(self, count: int) -> int:
        """A number below `count`, small ones much more often."""
        drawn = self._random()
        return int(drawn * drawn * count)  # a product is exact everywhere, `**` is left to the platform

    def late(self, first: int, last: int) -> int:
        """A number from `first` to before `last`, great ones more often."""
        return first + max(self.below(last - first), self.below(last - first))

    def one_of(self, choices: Sequence[T]) -> T:
        """One of the choices, the first ones much more often."""
        return choices[self.small(len(choices))]

    def text(self, letters: str, length: int) -> str:
        """A text out of these letters."""
        return "".join(letters[self.below(len(letters))] for _ in range(length))
