"""The example catalog `users`: its layout, and the people of its sample."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import pytest

from graphql_api.codecs.key_ranges import decode_tuple
from graphql_api.examples.seeded_random import SeededRandom
from graphql_api.examples.user_samples import generate_emails, generate_users
from graphql_api.examples.users import Email, User, catalog, sample
from graphql_api.model.entity import Entity
from graphql_api.opening import open_catalog
from graphql_api.storage.values import AttributeValue
from graphql_api.writes.item_keys import to_item
from tests.unit.pinned import digest_of

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
    """A record as the table would hold it."""
    return to_item(catalog.entity(type(record)), record, None, "a write")


def test_eleven_indexes() -> None:
    """The table has the eleven indexes of the document, under its names, each with its hash key attribute."""
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


def test_both_entities_share_one_index() -> None:
    """Users and addresses lie in the same physical index `created`; each of the other ten serves one entity."""
    physical = Counter(
        index.physical for entity in catalog.entities.values() for index in entity.indexes.values() if index.physical
    )
    assert physical.pop("created") == 2
    assert set(physical.values()) == {1}
    assert len(physical) == 10


def test_a_user_has_the_properties_of_the_document() -> None:
    """The sample user is stored under the document's names with its values, plus encoded keys for plain attributes."""
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
    # `created`, `phone` and `updated` order indexes in encoded form, so that their ties have an order, too.
    encoded = {"createdRangeKey", "phoneRangeKey", "updatedRangeKey"}
    assert {name: item[name] for name in properties} == properties
    assert item.keys() == {*properties, *generated, *encoded, "_w"}


def test_a_user_has_the_keys_of_the_document() -> None:
    """Keys of the sample user look like the document's: entity, shard and values, properties in their order."""
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


def test_an_address_has_the_keys_of_the_document() -> None:
    """The sample address is stored unsharded under its own name, and beside its user under the user's."""
    item = stored(ADDRESS)
    assert item.keys() == {
        *("email", "userId", "created", "hashKey", "rangeKey", "userHashKey", "createdRangeKey", "_w")
    }
    assert item["hashKey"] == "email!"
    assert item["rangeKey"] == "email#me@karmanivero.us"
    assert item["userHashKey"] == "user!|userId#wf5yU_5f63gqauSOLpP5O"


def test_growth_gives_shards() -> None:
    """Users who signed up since 2026 lie in one of sixteen shards, all others in the one without a name."""
    hash_keys = {stored(user)["hashKey"] for user in generate_users(400) if user.created >= NEW_YEAR_2026}
    assert hash_keys == {f"user!0{digit}" for digit in "0123456789abcdef"}
    assert {stored(user)["hashKey"] for user in generate_users(400) if user.created < NEW_YEAR_2026} == {"user!"}


async def test_addresses_of_both_generations_are_found(tmp_path: Path) -> None:
    """A user finds addresses that were added before and after the growth, in order, by one search of two keys."""
    late = Email(email="new@karmanivero.us", user_id=JASON.user_id, created=NEW_YEAR_2026 + 5)
    async with open_catalog(catalog, f"sqlite:///{tmp_path}/users.db") as db:
        assert await db.put_many([late, ADDRESS]) == [None, None]
        page = await db.search(Email.by_user, user_id=JASON.user_id)
    assert page.items == [ADDRESS, late]
    assert page.explain["shards"] == 2


@pytest.mark.parametrize("name", ["User", "Email"])
def test_everything_is_described(name: str) -> None:
    """Each entity has a description, and so has each of its properties."""
    spec = catalog.entity(name)
    assert spec.description
    assert [part.name for part in spec.properties.values() if not part.description] == []


# --- the sample ------------------------------------------------------------------------------------------------


def test_draw_is_pinned() -> None:
    """A seed draws the same choices on every platform and in every Python."""
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
    """The sample is the same on every platform and in every Python."""
    assert digest_of(islice(sample(200), 400)) == PINNED_SAMPLE


def test_longer_sample_begins_with_the_shorter() -> None:
    """A longer sample has the people of the shorter one first, and another seed has other people."""
    assert [*generate_users(10)] == [*islice(generate_users(500), 10)]
    assert {user.user_id for user in generate_users(50)}.isdisjoint(user.user_id for user in generate_users(50, seed=2))


def test_sample_has_what_searches_find_difficult() -> None:
    """Names repeat, carry accents and come in many scripts; phones share prefixes or are missing; years differ."""
    users = [*generate_users(2000)]
    names = Counter((user.first_name_canonical, user.last_name_canonical) for user in users)
    assert names.most_common(1)[0][1] > 10
    assert all(first and last for first, last in names)
    canonical_twins = {user.first_name for user in users if user.first_name_canonical == "zoe"}
    assert canonical_twins == {"Zoé", "Zoë"}
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


def test_few_beneficiaries_have_many_users() -> None:
    """All users support one of twelve beneficiaries, and one of them a quarter of all users."""
    supported = Counter(user.beneficiary_id for user in generate_users(2000))
    assert len(supported) == 12
    assert supported.most_common(1)[0][1] > 500


def test_ids_are_unique() -> None:
    """Ids have the form of a nanoid, and neither they nor addresses occur twice."""
    users = [*generate_users(3000)]
    addresses = [email.email for user in users for email in generate_emails(user)]
    assert len({user.user_id for user in users}) == len(users)
    assert len(set(addresses)) == len(addresses)
    assert all(len(user.user_id) == 21 and set(user.user_id) <= NANOID for user in users)


def test_addresses_belong_to_their_user() -> None:
    """A user has one to three addresses, the first within a minute of signing up, each later than the one before."""
    counts = Counter[int]()
    for user in generate_users(500):
        emails = [*generate_emails(user)]
        counts[len(emails)] += 1
        moments = [email.created for email in emails]
        assert moments == sorted(set(moments))
        assert 0 < moments[0] - user.created < 60
        assert {email.user_id for email in emails} == {user.user_id}
    assert counts.keys() == {1, 2, 3}


def test_sample_goes_user_by_user() -> None:
    """The sample of the catalog gives each user followed by their addresses."""
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
