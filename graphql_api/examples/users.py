"""Example catalog: users of a donation service and their e-mail addresses, in one table with eleven indexes."""

from collections.abc import Iterator

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, Timestamp, Union, canonical, derived


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


def sample(count: int) -> Iterator[User | Email]:
    """Yield `count` users, each followed by their e-mail addresses. The records are always the same."""
    from graphql_api.examples.user_samples import generate_emails, generate_users  # noqa: PLC0415 - imports this module

    for user in generate_users(count):
        yield user
        yield from generate_emails(user)
