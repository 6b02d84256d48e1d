"""What everything of a catalog is called in GraphQL, and that no two things are called the same."""

from collections.abc import Iterable, Sequence

from graphql_api.errors import InvalidCatalog, Violation
from graphql_api.model import (
    EntitySpec,
    IndexSpec,
    JoinSpec,
    PropertySpec,
    UnionSpec,
    camel_case,
    capitalized,
    entity_name,
)
from graphql_api.query import Dialect

RESERVED_TYPES = frozenset({"Query", "Mutation", "Subscription", "Int", "Float", "String", "Boolean", "ID", "Node"})
"""names that GraphQL itself, or Relay, gives a meaning"""

RESERVED_FIELDS = frozenset({"node", "nodes"})
"""fields of the query that Relay gives a meaning"""

GENERATED_FIELDS = frozenset({"id"})
"""fields that every record's type has by itself: a property of such a name is shown under another one"""


class Names:
    """Names of types and fields, all behind the catalog's namespace."""

    def __init__(self, namespace: str | None) -> None:
        self._prefix = f"{namespace}_" if namespace else ""
        self.dialect = Dialect(property=property_name, word=_word, index=self.search, kept=frozenset({"info"}))

    def type(self, name: str) -> str:
        """A type of this catalog: `User`, `Plugin_User`."""
        return f"{self._prefix}{name}"

    def record(self, entity: EntitySpec) -> str:
        """The field that finds one record: `user`, `Plugin_User`."""
        return self._field(entity.type_name)

    def search(self, entity: EntitySpec, index: IndexSpec | UnionSpec) -> str:
        """The field that searches an index: `userByFirstName`."""
        return f"{self.record(entity)}By{capitalized(index.name)}"

    def listed(self, entity: EntitySpec, hash_properties: Sequence[PropertySpec], *, first: bool) -> str:
        """The field that lists an entity in any of the orders of some indexes: `users`, `usersByTown`, `allUsers`."""
        if not first and not hash_properties:
            return self._field(f"All{plural(entity.type_name)}")
        return f"{self._field(plural(entity.type_name))}{'' if first else f'By{_joined(hash_properties)}'}"

    def order(self, entity: EntitySpec, hash_properties: Sequence[PropertySpec], *, first: bool) -> str:
        """The enum of those orders: `UserOrder`, `UserByBeneficiaryIdOrder`."""
        if not first and not hash_properties:
            return self.type(f"All{plural(entity.type_name)}Order")
        return self.type(f"{entity.type_name}{'' if first else f'By{_joined(hash_properties)}'}Order")

    def edit(self, verb: str, entity: EntitySpec, *, several: bool = False) -> str:
        """The field that writes: `createUser`, `createUsers`, `Plugin_createUser`."""
        return f"{self._prefix}{self.edited(verb, entity, several=several)}"

    def edited(self, verb: str, entity: EntitySpec, *, several: bool = False) -> str:
        """What is done, without the namespace: `createUser`, `createUsers`."""
        name = capitalized(entity.type_name)
        return f"{verb}{plural(name) if several else name}"

    def _field(self, type_name: str) -> str:
        return f"{self._prefix}{type_name}" if self._prefix else entity_name(type_name)


def property_name(python_name: str) -> str:
    """The field of a property; one called as a generated field is stands behind `row`: `id` is `rowId`."""
    name = camel_case(python_name)
    return f"row{capitalized(name)}" if name in GENERATED_FIELDS else name


def plural(name: str) -> str:
    """`User` → `Users`, `Category` → `Categories`, `Address` → `Addresses`."""
    if name.endswith("y") and name[-2:-1] not in ("a", "e", "i", "o", "u", ""):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "x", "z", "ch", "sh")) else f"{name}s"


def with_article(name: str) -> str:
    """`a User`, `an Email`: one that begins with U is spoken as in `user` more often than as in `umbrella`."""
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def _joined(hash_properties: Sequence[PropertySpec]) -> str:
    return "And".join(capitalized(camel_case(part.name)) for part in hash_properties)


def _word(name: str) -> str:
    return "from" if name == "from_" else camel_case(name)


class Register:
    """Who took which name first; what comes second is a violation, and all of them are reported together."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self._types: dict[str, object] = {name: f"{name} of GraphQL" for name in RESERVED_TYPES}
        self._fields: dict[str, str] = {name: f"Relay's {name}" for name in RESERVED_FIELDS}
        self._mutations: dict[str, str] = {}

    def type(self, name: str, of: Violation, owner: object) -> None:
        """Takes the name of a type for its owner: what it is made from, or words that say what it is."""
        taken = self._types.setdefault(name, owner)
        if taken is not owner and taken != owner:
            self._refuse(of, f"becomes the type {name!r}, which is taken by {_called(taken)}.")
        elif name.startswith("__"):
            self._refuse(of, f"becomes the type {name!r}, and names with two underscores are GraphQL's own.")

    def field(self, name: str, of: Violation, owner: str) -> None:
        """Takes the name of a field of the query."""
        taken = self._fields.setdefault(name, owner)
        if taken != owner:
            self._refuse(of, f"becomes the field {name!r}, which is taken by {taken}.")

    def mutation(self, name: str, of: Violation, owner: str) -> None:
        """Takes the name of a field of the mutations."""
        taken = self._mutations.setdefault(name, owner)
        if taken != owner:
            self._refuse(of, f"becomes the mutation {name!r}, which is taken by {taken}.")

    def fields_of(self, entity: EntitySpec, named: Iterable[tuple[str, PropertySpec | JoinSpec]]) -> None:
        """Looks at the fields of one record's type."""
        taken: dict[str, PropertySpec | JoinSpec] = {}
        for name, part in named:
            other = taken.setdefault(name, part)
            if other is not part:
                place = Violation(entity.type_name, part.name, "", "")
                self._refuse(place, f"becomes the field {name!r}, which is taken by {other.name!r}.")

    def _refuse(self, of: Violation, problem: str) -> None:
        self.violations.append(Violation(of.entity, of.property, problem, of.remedy or "Rename one of the two."))

    def check(self) -> None:
        """Raises everything that was refused, once however often it came up."""
        if self.violations:
            raise InvalidCatalog([*dict.fromkeys(self.violations)])


def _called(owner: object) -> str:
    return (
        owner if isinstance(owner, str) else f"{getattr(owner, '__module__', '?')}.{getattr(owner, '__name__', owner)}"
    )


def at(entity: EntitySpec, place: str | None = None) -> Violation:
    """Where something is declared, for a name that is taken."""
    return Violation(entity.type_name, place, "", "")
