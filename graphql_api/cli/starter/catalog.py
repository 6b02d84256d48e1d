"""A bookshop: authors, and the books that they wrote. Make it yours: every class is served, every index is a search."""

from collections.abc import Iterator
from datetime import date

from graphql_api import Catalog, Created, Entity, Id, Index, Int32, Shards, Timestamp, canonical, derived


class Author(Entity):
    """Somebody who writes books."""

    author_id: Id[str]
    """Unique id of the author."""
    name: str
    """Name, as it stands on the cover."""
    born: date | None = None
    """Day of birth, where it is known."""
    name_canonical: str = derived(canonical, "name")
    """Name as it is searched: without case, accents and punctuation."""

    by_name = Index(sort="name_canonical")
    by_born = Index(sort="born")


class Book(Entity, shards=Shards(4)):
    """A book, in stock or not."""

    isbn: Id[str]
    """International number of the book."""
    author_id: str
    """Unique id of its author."""
    title: str
    """Title, as it stands on the cover."""
    pages: Int32
    """How many pages it has."""
    added: Created[Timestamp]
    """When it came into the shop, in seconds since 1970; it never changes."""
    title_canonical: str = derived(canonical, "title")
    """Title as it is searched: without case, accents and punctuation."""

    by_title = Index(sort="title_canonical")
    by_added = Index(sort="added")
    by_author = Index(hash="author_id", sort=["title_canonical", "added"])


catalog = Catalog(Author, Book)


# --- sample data: `shardql serve … --sample 100` writes it once, `shardql load … --sample 100` whenever you ask --

WRITERS = ("Jane Austen", "Émile Zola", "Selma Lagerlöf", "Natsume Sōseki", "Chinua Achebe", "Jorge Luis Borges")
THINGS = ("Garden", "River", "Winter", "Letter", "Train", "Island", "Mirror", "Harbour", "Orchard", "Lantern")
QUALITIES = ("Silent", "Last", "Hidden", "Golden", "Distant", "Broken", "Second")


def sample(count: int) -> Iterator[Author | Book]:
    """So many books, and the authors of all of them: the same ones every time."""
    for number, name in enumerate(WRITERS[:count]):
        yield Author(author_id=f"author-{number}", name=name, born=date(1800 + 19 * number, 1 + number, 7 + number))
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
