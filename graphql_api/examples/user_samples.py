"""Sample users and e-mail addresses: any number of them, the same on every platform and in every Python.

Each person is drawn by itself, from the seed and its number, so a longer sample begins with the shorter one.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from graphql_api import canonical
from graphql_api.examples.person_names import REGIONS
from graphql_api.examples.seeded_random import Draw
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


def people(count: int, seed: int = SEED) -> Iterator[User]:
    """So many users, with names from many countries, in the order in which they are drawn."""
    beneficiaries = beneficiary_ids(seed)
    for number in range(count):
        yield person(number, beneficiaries, seed)


def beneficiary_ids(seed: int = SEED) -> list[str]:
    """The beneficiaries of a sample, popular ones first."""
    draw = Draw(f"beneficiaries {seed}")
    return [draw.text(ID_LETTERS, ID_LENGTH) for _ in range(BENEFICIARIES)]


def person(number: int, beneficiaries: Sequence[str], seed: int = SEED) -> User:
    """The user with this number of the sample."""
    draw = Draw(f"person {seed} {number}")
    region = draw.one_of(REGIONS)
    phone = region.country_code + draw.one_of(region.area_codes) + draw.text("0123456789", region.subscriber_digits)
    created = draw.late(FIRST_SIGN_UP, LAST_SIGN_UP)
    return User(
        user_id=draw.text(ID_LETTERS, ID_LENGTH),
        beneficiary_id=draw.one_of(beneficiaries),
        created=created,
        updated=created + (draw.small(400 * DAY) if draw.chance(0.6) else 0),
        first_name=draw.one_of(region.first_names),
        last_name=draw.one_of(region.last_names),
        phone=None if draw.chance(0.12) else phone,
    )


def emails_of(user: User, seed: int = SEED) -> Iterator[Email]:
    """One to three addresses of a user; the first one is there seconds after the user is."""
    draw = Draw(f"e-mails {seed} {user.user_id}")
    names = f"{canonical(user.first_name)}.{canonical(user.last_name)}"
    created = user.created
    for _ in range(1 + draw.small(3)):
        created += 5 + draw.below(55)
        address = f"{names}.{draw.text(MAILBOX_LETTERS, 8)}@{draw.one_of(MAIL_DOMAINS)}"
        yield Email(email=address, user_id=user.user_id, created=created)
        created += draw.small(300 * DAY)
