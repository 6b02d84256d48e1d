"""The example catalog `users`: its declaration and its sample data."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import pytest

from graphql_api.codecs.key_ranges import decode_tuple
from graphql_api.connection import open_catalog
from graphql_api.examples.seeded_random import SeededRandom
from graphql_api.examples.users import Email, User, catalog, generate_emails, generate_users, sample
from graphql_api.model.entity import Entity
from graphql_api.storage.values import AttributeValue
from graphql_api.writes.item_keys import to_item
from tests.support.sample_digest import digest_of

JASON = User(
    user_id="wf5yU_5f63gqauSOLpP5O",
    beneficiary_id="JCcwi4vyqwMJdaBwbjLG3",
    created=1726880933,
    updated=1726880933,
    first_name="Jason",
    last_name="Williscroft",
    phone="17739999999",
)
ADDRESS = Email(email="me@karmanivero.us", user_id=JASON.user_id, created=1726880947)
NEW_YEAR_2026 = 1767225600


def stored(record: Entity) -> Mapping[str, AttributeValue]:
    """The stored item of a record."""
    return to_item(catalog.entity(type(record)), record, None, "a write")


def test_eleven_indexes() -> None:
    """The table has the eleven indexes of the reference document, with their names and hash key attributes."""
    table = catalog.table_definition()
    assert {index.name: index.hash_attribute for index in table.indexes} == {
        "created": "hashKey",
        "firstName": "hashKey",
        "lastName": "hashKey",
        "phone": "hashKey",
        "updated": "hashKey",
        "userBeneficiaryCreated": "userBeneficiaryHashKey",
        "userBeneficiaryFirstName": "userBeneficiaryHashKey",
        "userBeneficiaryLastName": "userBeneficiaryHashKey",
        "userBeneficiaryPhone": "userBeneficiaryHashKey",
        "userBeneficiaryUpdated": "userBeneficiaryHashKey",
        "userCreated": "userHashKey",
    }


def test_entities_share_one_index() -> None:
    """Users and emails share the physical index `created`; each of the other ten has one entity."""
    physical = Counter(
        index.physical for entity in catalog.entities.values() for index in entity.indexes.values() if index.physical
    )
    assert physical.pop("created") == 2
    assert set(physical.values()) == {1}
    assert len(physical) == 10


def test_user_item_matches_the_reference_document() -> None:
    """The reference user is stored with the property names and values of the document, and with encoded keys."""
    item = stored(JASON)
    properties = {
        "beneficiaryId": "JCcwi4vyqwMJdaBwbjLG3",
        "created": 1726880933,
        "firstName": "Jason",
        "firstNameCanonical": "jason",
        "lastName": "Williscroft",
        "lastNameCanonical": "williscroft",
        "phone": "17739999999",
        "updated": 1726880933,
        "userId": "wf5yU_5f63gqauSOLpP5O",
    }
    generated = {"hashKey", "rangeKey", "firstNameRangeKey", "lastNameRangeKey", "userBeneficiaryHashKey"}
    # `created`, `phone` and `updated` sort indexes in encoded form, so that ties have an order.
    encoded = {"createdRangeKey", "phoneRangeKey", "updatedRangeKey"}
    assert {name: item[name] for name in properties} == properties
    assert item.keys() == {*properties, *generated, *encoded, "_w"}


def test_user_keys_match_the_reference_document() -> None:
    """Keys of the reference user match the document: entity, shard and values, properties in declared order."""
    item = stored(JASON)
    assert item["hashKey"] == "user!"
    assert item["rangeKey"] == "userId#wf5yU_5f63gqauSOLpP5O"
    assert item["userBeneficiaryHashKey"] == "user!|beneficiaryId#JCcwi4vyqwMJdaBwbjLG3"
    by_first_name = catalog.index(User.by_first_name).columns
    assert decode_tuple(by_first_name, item["firstNameRangeKey"]) == (
        "jason",
        "williscroft",
        1726880933,
        "wf5yU_5f63gqauSOLpP5O",
    )
    assert (
        item["firstNameRangeKey"]
        .replace("\x01", "")
        .startswith("firstNameCanonical#jason|lastNameCanonical#williscroft|created#")
    )
    assert (
        item["lastNameRangeKey"]
        .replace("\x01", "")
        .startswith("lastNameCanonical#williscroft|firstNameCanonical#jason|created#")
    )


def test_email_keys_match_the_reference_document() -> None:
    """The reference email is stored under its own hash key, and indexed under the hash key of its user."""
    item = stored(ADDRESS)
    assert item.keys() == {
        *("email", "userId", "created", "hashKey", "rangeKey", "userHashKey", "createdRangeKey", "_w")
    }
    assert item["hashKey"] == "email!"
    assert item["rangeKey"] == "email#me@karmanivero.us"
    assert item["userHashKey"] == "user!|userId#wf5yU_5f63gqauSOLpP5O"


def test_new_users_are_in_sixteen_shards() -> None:
    """Users created since 2026 are in one of 16 shards, all others in the single shard of the first generation."""
    hash_keys = {stored(user)["hashKey"] for user in generate_users(400) if user.created >= NEW_YEAR_2026}
    assert hash_keys == {f"user!0{digit}" for digit in "0123456789abcdef"}
    assert {stored(user)["hashKey"] for user in generate_users(400) if user.created < NEW_YEAR_2026} == {"user!"}


async def test_emails_of_both_generations_are_found(tmp_path: Path) -> None:
    """One search finds the emails of a user from two shard generations, in order."""
    late = Email(email="new@karmanivero.us", user_id=JASON.user_id, created=NEW_YEAR_2026 + 5)
    async with open_catalog(catalog, f"sqlite:///{tmp_path}/users.db") as db:
        assert await db.put_many([late, ADDRESS]) == [None, None]
        page = await db.search(Email.by_user, user_id=JASON.user_id)
    assert page.items == [ADDRESS, late]
    assert page.explain["shards"] == 2


@pytest.mark.parametrize("name", ["User", "Email"])
def test_everything_is_described(name: str) -> None:
    """Each entity and property has a description."""
    spec = catalog.entity(name)
    assert spec.description
    assert [part.name for part in spec.properties.values() if not part.description] == []


# --- sample ------------------------------------------------------------------------------------------------------


def test_random_choices_are_pinned() -> None:
    """A seed gives the same random choices on every platform and Python version."""
    draw = SeededRandom("pinned")
    drawn = [
        draw.integer_below(1000),
        draw.small_integer_below(1000),
        draw.large_integer(0, 1000),
        draw.choose("abc"),
        draw.text("01", 12),
    ]
    assert drawn == PINNED_DRAWS


def test_sample_is_pinned() -> None:
    """The sample is the same on every platform and Python version."""
    assert digest_of(islice(sample(200), 400)) == PINNED_SAMPLE


def test_shorter_sample_is_a_prefix() -> None:
    """A shorter sample is a prefix of a longer one. Another seed generates other users."""
    assert [*generate_users(10)] == [*islice(generate_users(500), 10)]
    assert {user.user_id for user in generate_users(50)}.isdisjoint(user.user_id for user in generate_users(50, seed=2))


def test_sample_contains_difficult_names() -> None:
    """Names tie, have accents and come in many scripts; phones share prefixes or are missing; years differ."""
    users = [*generate_users(2000)]
    names = Counter((user.first_name_canonical, user.last_name_canonical) for user in users)
    assert names.most_common(1)[0][1] > 10
    assert all(first and last for first, last in names)
    equal_canonical_names = {user.first_name for user in users if user.first_name_canonical == "zoe"}
    assert equal_canonical_names == {"Zoé", "Zoë"}
    letters = "".join(user.first_name + user.last_name for user in users)
    assert [name for name, (first, last) in SCRIPTS.items() if not any(first <= mark <= last for mark in letters)] == []
    assert max(letters) > "\uffff"
    phones = [user.phone for user in users if user.phone is not None]
    assert 100 < len(users) - len(phones) < 500
    assert sum(phone.startswith("1773") for phone in phones) > 30
    assert all(phone.isascii() and phone.isdecimal() for phone in phones)
    since = sum(user.created >= NEW_YEAR_2026 for user in users)
    assert 400 < since < 1000
    assert all(user.updated >= user.created for user in users)


def test_users_are_skewed_over_beneficiaries() -> None:
    """Users support one of twelve beneficiaries; one beneficiary has more than a quarter of all users."""
    supported = Counter(user.beneficiary_id for user in generate_users(2000))
    assert len(supported) == 12
    assert supported.most_common(1)[0][1] > 500


def test_ids_are_unique() -> None:
    """Ids have the format of a nanoid. Ids and email addresses are unique."""
    users = [*generate_users(3000)]
    addresses = [email.email for user in users for email in generate_emails(user)]
    assert len({user.user_id for user in users}) == len(users)
    assert len(set(addresses)) == len(addresses)
    assert all(len(user.user_id) == 21 and set(user.user_id) <= NANOID for user in users)


def test_emails_of_a_user() -> None:
    """A user has one to three emails in ascending order, the first within a minute after sign-up."""
    counts = Counter[int]()
    for user in generate_users(500):
        emails = [*generate_emails(user)]
        counts[len(emails)] += 1
        times = [email.created for email in emails]
        assert times == sorted(set(times))
        assert 0 < times[0] - user.created < 60
        assert {email.user_id for email in emails} == {user.user_id}
    assert counts.keys() == {1, 2, 3}


def test_sample_order() -> None:
    """The sample contains each user, followed by the user's emails."""
    expected = [record for user in generate_users(20) for record in (user, *generate_emails(user))]
    assert [*sample(20)] == expected


SCRIPTS = {
    "Greek": ("\u0370", "\u03ff"),
    "Cyrillic": ("\u0400", "\u04ff"),
    "Arabic": ("\u0600", "\u06ff"),
    "Devanagari": ("\u0900", "\u097f"),
    "Tamil": ("\u0b80", "\u0bff"),
    "Kana": ("\u3040", "\u30ff"),
    "Han": ("\u4e00", "\u9fff"),
    "Hangul": ("\uac00", "\ud7a3"),
}
NANOID = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-")
PINNED_DRAWS = [362, 814, 699, "a", "001010000001"]
PINNED_SAMPLE = "07fb5e686588d1b8"
