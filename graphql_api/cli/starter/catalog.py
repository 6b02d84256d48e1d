"""The catalog of a bookshop: authors and their books. Each class becomes a GraphQL type, each index a search field.

Everyone may read. Only members of the group Staff may write.
"""

from collections.abc import Iterator
from datetime import date

from graphql_api import (
    Catalog,
    Created,
    Entity,
    HasMany,
    Id,
    Index,
    Int32,
    Ref,
    Shards,
    Timestamp,
    Unique,
    canonical,
    derived,
    group,
    server_set,
)


class Author(Entity, write=group("Staff")):
    """An author of books."""

    author_id: Id[str]
    """Unique id of the author."""
    name: str
    """Name, as printed on the cover."""
    website: Unique[str | None] = None
    """Address of the website, if there is one. No two authors have the same."""
    born: date | None = None
    """Date of birth, if known."""
    name_canonical: str = derived(canonical, "name")
    """Canonical form of the name for searches: without case, accents and punctuation."""

    by_name = Index(sort="name_canonical")
    by_born = Index(sort="born")

    books = HasMany("Book", via="by_author", description="The author's books, by title.")


class Book(Entity, shards=Shards(4), write=group("Staff")):
    """A book of the shop."""

    isbn: Id[str]
    """International Standard Book Number."""
    author_id: str
    """Unique id of the author."""
    title: str
    """Title, as printed on the cover."""
    pages: Int32
    """Number of pages."""
    added: Created[Timestamp] = server_set()
    """Time at which the book was added, in seconds since 1970; it never changes."""
    title_canonical: str = derived(canonical, "title")
    """Canonical form of the title for searches: without case, accents and punctuation."""

    by_title = Index(sort="title_canonical")
    by_added = Index(sort="added")
    by_author = Index(hash="author_id", sort=["title_canonical", "added"])

    author = Ref("Author", by="author_id", description="The author of the book.")


catalog = Catalog(Author, Book)


# --- sample data: written by `shardql serve … --sample 100` into a new store, or by `shardql load … --sample 100` ---

WRITERS = ("Jane Austen", "Émile Zola", "Selma Lagerlöf", "Natsume Sōseki", "Chinua Achebe", "Jorge Luis Borges")
THINGS = ("Garden", "River", "Winter", "Letter", "Train", "Island", "Mirror", "Harbour", "Orchard", "Lantern")
QUALITIES = ("Silent", "Last", "Hidden", "Golden", "Distant", "Broken", "Second")


def sample(count: int) -> Iterator[Author | Book]:
    """Yield `count` books and their authors. The records are always the same."""
    for number, name in enumerate(WRITERS[:count]):
        website = f"https://{canonical(name)}.example"
        born = date(1800 + 19 * number, 1 + number, 7 + number)
        yield Author(author_id=f"author-{number}", name=name, website=website, born=born)
    for number in range(count):
        thing, quality = THINGS[number % len(THINGS)], QUALITIES[number % len(QUALITIES)]
        volume = number // (len(THINGS) * len(QUALITIES))
        yield Book(
            isbn=f"978-{number:09}",
            author_id=f"author-{number % min(count, len(WRITERS))}",
            title=f"The {quality} {thing}{f', volume {volume + 1}' if volume else ''}",
            pages=90 + number * 37 % 600,
            added=1_767_225_600 + number * 3_600,
        )
