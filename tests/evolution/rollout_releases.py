"""Two releases that are rolled out one after the other, as servers load them."""

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, Timestamp, Unique, derived

BEFORE, SINCE = 1_700_000_000, "2100-01-01"
AFTER = 4_102_444_800 + 86_400
"""creation times before and after the begin of the new shard generation"""


def first_letter(label: str) -> str:
    """The function of the older release."""
    return label[:1]


def last_letter(label: str) -> str:
    """The function of the newer release."""
    return label[-1:]


def older() -> Catalog:
    """The catalog of the older release."""

    class User(Entity):
        user_id: Id[str]
        created: Created[Timestamp]
        name: str
        town: str
        email: str

        by_name = Index(sort="name")

    class Tag(Entity):
        tag_id: Id[str]
        label: str
        initial: str = derived(first_letter, "label")

        by_initial = Index(hash="initial", sort="label")

    return Catalog(User, Tag)


def newer() -> Catalog:
    """The catalog of the newer release: a property, an index, a constraint, shards, and a version of a function."""

    class User(Entity, shards=Shards(1).then(4, since=SINCE)):
        user_id: Id[str]
        created: Created[Timestamp]
        name: str
        town: str
        email: Unique[str]
        note: str | None = None

        by_name = Index(sort="name")
        by_town = Index(hash="town", sort="name")

    class Tag(Entity):
        tag_id: Id[str]
        label: str
        initial: str = derived(last_letter, "label", version=2, previous=first_letter)

        by_initial = Index(hash="initial", sort="label")

    return Catalog(User, Tag)


OLDER, NEWER = older(), newer()
