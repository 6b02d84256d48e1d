"""The data page over other catalogs: unions, histories, singletons, every scalar, a namespace, Relay-style pages."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from graphql_api import Catalog, Entity
from graphql_api.examples import orders, users
from graphql_api.schema import property_name
from tests.browser.grid.grid_page import open_grid
from tests.browser.grid.task_server import start_task_server
from tests.support.all_types_catalog import Digits, Line, Settings, Thing
from tests.support.run_depth import depth

pytestmark = pytest.mark.asyncio(loop_scope="session")

THINGS: Sequence[Entity] = [
    *(Thing(thing_id=f"t{at}", created=at, owner="ann", first_name=f"Name {at}", note=f"Note {at}") for at in range(3)),
    Digits(digits_id="d", text="7"),
    *(Line(order="o", year=2026, category=f"c{at}", num=at) for at in range(3)),
    Settings(theme="light"),
]
CATALOGS: Mapping[str, tuple[Catalog, Sequence[Entity]]] = {
    "users": (users.catalog, [*users.sample(40)]),
    "orders": (orders.catalog, [*orders.sample(10)]),
    "every type": (Catalog(Thing, Digits, Line, Settings, namespace="Shop", pages="relay"), THINGS),
}


def sample_value(entity: dict[str, Any], argument: str, records: Sequence[Entity]) -> str:
    """Return a value of a required argument that finds a record."""
    record = next(one for one in records if type(one).__name__ == entity["name"])
    values = {property_name(name): value for name, value in record.model_dump(mode="json").items()}
    return str(values[argument]) if argument != "id" else "/".join(str(values[name]) for name in entity["ids"])


@pytest.mark.parametrize("name", CATALOGS)
async def test_every_search_and_record(shared_browser: Browser, tmp_path: Path, name: str) -> None:
    """Each search of each entity shows records, and the panel of the first one opens without a problem."""
    catalog, records = CATALOGS[name]
    opened = 0
    async with (
        start_task_server(catalog, tmp_path, records) as server,
        open_grid(shared_browser, server.grid) as grid,
    ):
        await grid.page.goto(server.grid)
        described = await (await grid.page.request.get(f"{server.grid}/catalog.json")).json()
        for entity in described["entities"]:
            if entity["read"]["may"] == "none":
                continue
            for number, search in enumerate(entity["searches"][: depth(quick=4, deep=50)]):
                if search["read"]["may"] == "none":
                    continue
                where = {
                    f"where.{one['argument']}": sample_value(entity, one["argument"], records)
                    for one in search["required"]
                }
                await grid.open(entity=entity["name"], search=search["field"], **where)
                rows = await grid.rows()
                await expect(grid.alert).to_have_count(0)
                assert rows, search["field"]
                opened += 1
                if number:
                    continue
                await grid.grid.focus()
                await grid.press("Enter")
                await grid.page.locator(".properties").wait_for()
                await expect(grid.alert).to_have_count(0)
        if name == "every type":
            await grid.open(entity="Line", search="Shop_LineById", **{"where.id": "o/2026"})
            await grid.rows()
            await grid.grid.focus()
            await grid.press("Enter")
            await grid.button("Show History").press("Enter")
            await expect(grid.page.get_by_role("complementary").get_by_role("listitem")).to_have_count(3)
            await grid.open(entity="Settings")
            await grid.button("Open the record").press("Enter")
            await expect(grid.page.locator(".properties")).to_contain_text("light")
    assert opened >= 6
