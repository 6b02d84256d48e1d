"""Example catalog: users of a donation service and their e-mail addresses, in one table with eleven indexes."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, Timestamp, Union, canonical, derived
from graphql_api.examples.person_names import REGIONS
from graphql_api.examples.seeded_random import SeededRandom


class User(Entity, shards=Shards(1).then(16, since="2026-01-01")):
    """A person whose card transactions are rounded up for a beneficiary."""

    user_id: Id[str]
    """Unique id of the user; it never changes."""
    beneficiary_id: str
    """Unique id of the beneficiary that the user currently supports."""
    created: Created[Timestamp]
    """Time of the sign-up, in seconds since 1970; it never changes."""
    updated: Timestamp
    """Time of the last change, in seconds since 1970."""
    first_name: str
    """First name, as entered by the user."""
    last_name: str
    """Last name, as entered by the user."""
    phone: str | None = None
    """Phone number in international form, digits only: `17739999999`."""
    first_name_canonical: str = derived(canonical, "first_name")
    """Canonical form of the first name for searches: without case, accents and punctuation."""
    last_name_canonical: str = derived(canonical, "last_name")
    """Canonical form of the last name for searches: without case, accents and punctuation."""

    by_created = Index(sort="created")
    by_updated = Index(sort="updated")
    by_phone = Index(sort="phone")
    by_first_name = Index(sort=["first_name_canonical", "last_name_canonical", "created"])
    by_last_name = Index(sort=["last_name_canonical", "first_name_canonical", "created"])

    by_name = Union("by_first_name", "by_last_name")

    # Indexes with the same sort order share a range key attribute, so a record stores it only once.
    by_beneficiary_created = Index(
        hash="beneficiary_id", sort="created", name="userBeneficiaryCreated", range_key="createdRangeKey"
    )
    by_beneficiary_updated = Index(
        hash="beneficiary_id", sort="updated", name="userBeneficiaryUpdated", range_key="updatedRangeKey"
    )
    by_beneficiary_phone = Index(
        hash="beneficiary_id", sort="phone", name="userBeneficiaryPhone", range_key="phoneRangeKey"
    )
    by_beneficiary_first_name = Index(
        hash="beneficiary_id",
        sort=["first_name_canonical", "last_name_canonical", "created"],
        name="userBeneficiaryFirstName",
        range_key="firstNameRangeKey",
    )
    by_beneficiary_last_name = Index(
        hash="beneficiary_id",
        sort=["last_name_canonical", "first_name_canonical", "created"],
        name="userBeneficiaryLastName",
        range_key="lastNameRangeKey",
    )


class Email(Entity):
    """An e-mail address of a user."""

    email: Id[str]
    """The e-mail address, which is unique and never changes."""
    user_id: str
    """Unique id of the user who owns the address."""
    created: Created[Timestamp]
    """Time at which the address was added, in seconds since 1970."""

    by_created = Index(sort="created")
    by_user = Index(hash="user_id", sort="created", sharded="User", name="userCreated", range_key="createdRangeKey")


catalog = Catalog(User, Email)


# --- sample ----------------------------------------------------------------------------------------------------
# The same on every platform and Python version. Each user depends only on the seed and its number, so a longer sample
# begins with the shorter one.

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
    phone = random.choose(region.prefixes) + random.text("0123456789", region.subscriber_digits)
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


def sample(count: int) -> Iterator[User | Email]:
    """Yield `count` users, each followed by their e-mail addresses. The records are always the same."""
    for user in generate_users(count):
        yield user
        yield from generate_emails(user)
