"""Own fields, types and hooks that do not fit are refused before anything is served."""

import pytest
import strawberry

from graphql_api.errors import InvalidCatalog, InvalidValue, UnknownEntity
from tests.schema.staff import Person, Stranger, people
from tests.schema.test_hooks import Whisper

# --- what is refused -------------------------------------------------------------------------------------------


@strawberry.type
class Colliding:
    """Has names that are taken."""

    @strawberry.field
    def person(self) -> int:
        """Is generated."""
        return 1

    @strawberry.field
    def person_by_town(self) -> int:
        """Is generated."""
        return 1

    @strawberry.field
    def node(self) -> int:
        """Is kept."""
        return 1

    @strawberry.field
    def name(self) -> int:
        """Is a property."""
        return 1

    @strawberry.field
    def id(self) -> int:
        """Is kept for records."""
        return 1


def _places(caught: pytest.ExceptionInfo[InvalidCatalog]) -> list[str | None]:
    return [violation.property for violation in caught.value.violations]


def test_own_fields_that_are_there_already() -> None:
    """An own field with the name of a generated one, or of one that is kept, is refused, all of them at once."""
    graph = people()
    with pytest.raises(InvalidCatalog) as caught:
        graph.query(Colliding)
    assert _places(caught) == ["person", "personByTown", "node"]
    with pytest.raises(InvalidCatalog) as caught:
        graph.extend(Person, Colliding)
    assert _places(caught) == ["name", "id"]
    graph.mutation(Colliding)
    with pytest.raises(InvalidCatalog) as caught:
        graph.mutation(Colliding)
    assert _places(caught) == ["person", "personByTown", "node", "name", "id"]


@pytest.mark.parametrize("name", ["Person", "PersonConnection", "PageInfo", "Level", "StringCondition"])
def test_own_types_that_are_there_already(name: str) -> None:
    """An own type with the name of a generated one is refused when the schema is made, by its name."""
    graph = people()

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


def test_hooks_on_nothing() -> None:
    """A hook on a type or field that does not exist is refused with the nearest name."""
    graph = people()
    for wrong, hint in (
        ("Person.nme", "Did you mean 'name'?"),
        ("Persn.name", "Did you mean 'Person'?"),
        ("personByTwn", "Did you mean 'personByTown'?"),
    ):
        with pytest.raises(InvalidValue, match=hint.replace("?", r"\?")):
            graph.hook(wrong, Whisper())


def test_too_late() -> None:
    """What is added after the schema was made is refused, since it would not be in it."""
    for made in ("schema", "read_only_schema"):
        graph = people()
        getattr(graph, made)
        with pytest.raises(InvalidValue, match="already been built"):
            graph.query(Colliding)
        with pytest.raises(InvalidValue, match="already been built"):
            graph.mutation(Colliding)
        with pytest.raises(InvalidValue, match="already been built"):
            graph.extend(Person, Colliding)
        with pytest.raises(InvalidValue, match="already been built"):
            graph.hook("person", Whisper())


def test_strangers() -> None:
    """Entities of other catalogs have no type here, and classes that are no Strawberry types have no fields."""
    graph = people()
    with pytest.raises(UnknownEntity, match="'Stranger'"):
        graph.record_type(Stranger)
    with pytest.raises(UnknownEntity, match="'Stranger'"):
        graph.page_type(Stranger)
    with pytest.raises(TypeError, match=r"decorate it with @strawberry\.type"):
        graph.query(Stranger)
