"""The rows that all contestants store, and windows of them. The same for a seed, without any package."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

SEED = 18
FIRST_CREATED = 1_600_000_000
STEP_SECONDS = 100
"""between two users, more than enough for bounds between them"""
NAMES = ("Ada", "Alan", "Barbara", "Edgar", "Grace", "Hedy", "Jean", "Joan", "Katherine", "Niklaus", "Radia", "Sophie")
CITIES = ("Bern", "Cork", "Graz", "Lyon", "Oslo", "Pisa", "Riga", "Turku")
FIELDS = ("userId", "created", "firstName", "lastName", "phone", "city", "visits", "height", "active", "note")


def user_rows(count: int, seed: int = SEED) -> Iterator[dict[str, Any]]:
    """Yield users with ten fields, in order of their creation."""
    random = Random(f"users {seed}")
    for number in range(count):
        yield {
            "userId": f"u{random.randrange(16**12):012x}",
            "created": FIRST_CREATED + number * STEP_SECONDS + random.randrange(STEP_SECONDS - 2),
            "firstName": random.choice(NAMES),
            "lastName": random.choice(NAMES) + random.choice(("son", "sen", "berg", "feld", "dóttir")),
            "phone": f"1773{random.randrange(10**7):07}",
            "city": random.choice(CITIES),
            "visits": random.randrange(10**6),
            "height": random.randrange(1500, 2000) / 1000,
            "active": random.random() < 0.7,
            "note": None if random.random() < 0.3 else f"Note {random.randrange(10**9)}",
        }


def property_name(field: str) -> str:
    """Return the name in Python of a GraphQL field."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in field)


@dataclass(frozen=True, slots=True)
class Window:
    """A range of creation times that no user has exactly."""

    low: int
    high: int


def windows(users: int, rows: int, count: int, seed: int = SEED) -> list[Window]:
    """Choose windows of this number of rows."""
    random = Random(f"windows {seed}")
    starts = [random.randrange(users - rows + 1) for _ in range(count)]
    return [
        Window(FIRST_CREATED + at * STEP_SECONDS - 1, FIRST_CREATED + (at + rows) * STEP_SECONDS - 1) for at in starts
    ]
