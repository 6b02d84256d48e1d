"""Invalid custom fields, types and hooks are refused when they are added or when the schema is built."""

import pytest
import strawberry

from graphql_api.errors import InvalidCatalog, InvalidValue, UnknownEntity
from tests.schema.staff_catalog import Person, Stranger, staff_graph
from tests.schema.test_hooks import LowerCaseForAnn

# --- refusals --------------------------------------------------------------------------------------------------


@strawberry.type
class Colliding:
    """Has names of existing fields."""

    @strawberry.field
    def person(self) -> int:
        """A generated field."""
        return 1

    @strawberry.field
    def person_by_town(self) -> int:
        """A generated field."""
        return 1

    @strawberry.field
    def node(self) -> int:
        """A reserved field."""
        return 1

    @strawberry.field
    def name(self) -> int:
        """A property."""
        return 1

    @strawberry.field
    def id(self) -> int:
        """A reserved field of records."""
        return 1


def _conflicting_fields(caught: pytest.ExceptionInfo[InvalidCatalog]) -> list[str | None]:
    return [violation.property for violation in caught.value.violations]


def test_custom_field_name_conflicts() -> None:
    """Custom fields with generated or reserved names are refused, and all conflicts are reported at once."""
    graph = staff_graph()
    with pytest.raises(InvalidCatalog) as caught:
        graph.query(Colliding)
    assert _conflicting_fields(caught) == ["person", "personByTown", "node"]
    with pytest.raises(InvalidCatalog) as caught:
        graph.extend(Person, Colliding)
    assert _conflicting_fields(caught) == ["name", "id"]
    graph.mutation(Colliding)
    with pytest.raises(InvalidCatalog) as caught:
        graph.mutation(Colliding)
    assert _conflicting_fields(caught) == ["person", "personByTown", "node", "name", "id"]


@pytest.mark.parametrize("name", ["Person", "PersonConnection", "PageInfo", "Level", "StringCondition"])
def test_custom_type_name_conflicts(name: str) -> None:
    """A custom type with the name of a generated type is refused when the schema is built."""
    graph = staff_graph()

    @strawberry.type(name=name)
    class Own:
        x: int

    @graph.query
    @strawberry.type
    class Queries:
        @strawberry.field
        def own(self) -> Own:
            return Own(x=1)

    with pytest.raises(InvalidCatalog, match=f"{name}.*Rename the type that was added"):
        _ = graph.schema


def test_hooks_on_unknown_fields() -> None:
    """A hook on an unknown type or field is refused, with the most similar name."""
    graph = staff_graph()
    for wrong, hint in (
        ("Person.nme", "Did you mean 'name'?"),
        ("Persn.name", "Did you mean 'Person'?"),
        ("personByTwn", "Did you mean 'personByTown'?"),
    ):
        with pytest.raises(InvalidValue, match=hint.replace("?", r"\?")):
            graph.hook(wrong, LowerCaseForAnn())


def test_additions_after_the_build() -> None:
    """Additions are refused after the schema has been built."""
    for made in ("schema", "read_only_schema"):
        graph = staff_graph()
        getattr(graph, made)
        with pytest.raises(InvalidValue, match="already been built"):
            graph.query(Colliding)
        with pytest.raises(InvalidValue, match="already been built"):
            graph.mutation(Colliding)
        with pytest.raises(InvalidValue, match="already been built"):
            graph.extend(Person, Colliding)
        with pytest.raises(InvalidValue, match="already been built"):
            graph.hook("person", LowerCaseForAnn())


def test_foreign_classes() -> None:
    """Entities of other catalogs have no generated type, and a class that is no Strawberry type is refused."""
    graph = staff_graph()
    with pytest.raises(UnknownEntity, match="'Stranger'"):
        graph.record_type(Stranger)
    with pytest.raises(UnknownEntity, match="'Stranger'"):
        graph.page_type(Stranger)
    with pytest.raises(TypeError, match=r"decorate it with @strawberry\.type"):
        graph.query(Stranger)
