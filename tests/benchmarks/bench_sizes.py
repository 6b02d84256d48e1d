"""How much is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of one run."""

    users: int
    """stored users on SQLite"""
    dynamodb_users: int
    """stored users on DynamoDB, which takes long to fill"""
    pages: int
    """pages of 20 rows in a walk"""
    windows: int
    """different walks"""
    rounds: int
    """measured turns of each contestant"""
    warm_up: int
    """turns before, in which compilers of contestants finish their work"""
    calls: int
    """repeated calls in a turn of short operations"""
    deep_page: int
    """greatest page number that is measured"""
    load_records: int
    """records in a turn of loading"""


QUICK = Sizes(
    users=3_000,
    dynamodb_users=1_500,
    pages=20,
    windows=4,
    rounds=10,
    warm_up=4,
    calls=40,
    deep_page=500,
    load_records=2_000,
)
FULL = Sizes(
    users=20_000,
    dynamodb_users=10_000,
    pages=40,
    windows=10,
    rounds=20,
    warm_up=10,
    calls=200,
    deep_page=5_000,
    load_records=10_000,
)
TINY = Sizes(
    users=60,
    dynamodb_users=60,
    pages=2,
    windows=1,
    rounds=2,
    warm_up=1,
    calls=2,
    deep_page=2,
    load_records=20,
)
