"""A user service: people, and the e-mail addresses that they sign up and pay with, in one table with eleven indexes."""

from collections.abc import Iterator

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, Timestamp, Union, canonical, derived


class User(Entity, shards=Shards(1).then(16, since="2026-01-01")):
    """A person whose card transactions are rounded up for a beneficiary."""

    user_id: Id[str]
    """Unique id of the user; it never changes."""
    beneficiary_id: str
    """Unique id of the beneficiary whom the user supports at present."""
    created: Created[Timestamp]
    """When the user signed up, in seconds since 1970; it never changes."""
    updated: Timestamp
    """When the record was last changed, in seconds since 1970."""
    first_name: str
    """First name, as the user writes it."""
    last_name: str
    """Last name, as the user writes it."""
    phone: str | None = None
    """Phone number in international form, digits only: `17739999999`."""
    first_name_canonical: str = derived(canonical, "first_name")
    """First name as it is searched: without case, accents and punctuation."""
    last_name_canonical: str = derived(canonical, "last_name")
    """Last name as it is searched: without case, accents and punctuation."""

    by_created = Index(sort="created")
    by_updated = Index(sort="updated")
    by_phone = Index(sort="phone")
    by_first_name = Index(sort=["first_name_canonical", "last_name_canonical", "created"])
    by_last_name = Index(sort=["last_name_canonical", "first_name_canonical", "created"])

    by_name = Union("by_first_name", "by_last_name")

    # What has the same order has the same range key, so the record holds it once for both indexes.
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
    """An e-mail address, which belongs to one user for ever."""

    email: Id[str]
    """The address itself, which is unique and never changes."""
    user_id: str
    """Unique id of the user whose address it is."""
    created: Created[Timestamp]
    """When the address was added, in seconds since 1970."""

    by_created = Index(sort="created")
    by_user = Index(hash="user_id", sort="created", sharded="User", name="userCreated", range_key="createdRangeKey")


catalog = Catalog(User, Email)


def sample(count: int) -> Iterator[User | Email]:
    """So many users, each followed by their e-mail addresses: the same ones every time."""
    from graphql_api.examples.user_samples import emails_of, people  # noqa: PLC0415 - people are made of the classes above

    for user in people(count):
        yield user
        yield from emails_of(user)
