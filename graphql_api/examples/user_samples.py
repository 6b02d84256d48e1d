"""Generate sample users and e-mail addresses, the same on every platform and Python version.

Each user depends only on the seed and its number, so a longer sample begins with the shorter one.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from graphql_api import canonical
from graphql_api.examples.person_names import REGIONS
from graphql_api.examples.seeded_random import SeededRandom
from graphql_api.examples.users import Email, User

SEED = 1
FIRST_SIGN_UP = int(datetime(2021, 1, 1, tzinfo=UTC).timestamp())
LAST_SIGN_UP = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp())
BENEFICIARIES = 12
ID_LENGTH = 21
ID_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-"
MAILBOX_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
MAIL_DOMAINS = ("example.com", "example.org", "example.net", "mail.example", "post.example")
DAY = 86_400


def generate_users(count: int, seed: int = SEED) -> Iterator[User]:
    """Yield `count` users, with names from many countries, in order of their numbers."""
    beneficiaries = beneficiary_ids(seed)
    for number in range(count):
        yield generate_user(number, beneficiaries, seed)


def beneficiary_ids(seed: int = SEED) -> list[str]:
    """Return the ids of a sample's beneficiaries, the most frequent ones first."""
    random = SeededRandom(f"beneficiaries {seed}")
    return [random.text(ID_LETTERS, ID_LENGTH) for _ in range(BENEFICIARIES)]


def generate_user(number: int, beneficiaries: Sequence[str], seed: int = SEED) -> User:
    """Generate one user of the sample by number."""
    random = SeededRandom(f"person {seed} {number}")
    region = random.choose(REGIONS)
    phone = region.country_code + random.choose(region.area_codes) + random.text("0123456789", region.subscriber_digits)
    created = random.large_integer(FIRST_SIGN_UP, LAST_SIGN_UP)
    return User(
        user_id=random.text(ID_LETTERS, ID_LENGTH),
        beneficiary_id=random.choose(beneficiaries),
        created=created,
        updated=created + (random.small_integer_below(400 * DAY) if random.chance(0.6) else 0),
        first_name=random.choose(region.first_names),
        last_name=random.choose(region.last_names),
        phone=None if random.chance(0.12) else phone,
    )


def generate_emails(user: User, seed: int = SEED) -> Iterator[Email]:
    """Yield one to three addresses of a user. The first one is added seconds after the user signs up."""
    random = SeededRandom(f"e-mails {seed} {user.user_id}")
    names = f"{canonical(user.first_name)}.{canonical(user.last_name)}"
    created = user.created
    for _ in range(1 + random.small_integer_below(3)):
        created += 5 + random.integer_below(55)
        address = f"{names}.{random.text(MAILBOX_LETTERS, 8)}@{random.choose(MAIL_DOMAINS)}"
        yield Email(email=address, user_id=user.user_id, created=created)
        created += random.small_integer_below(300 * DAY)
