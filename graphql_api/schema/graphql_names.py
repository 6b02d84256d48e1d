"""GraphQL names of types and fields, and the check that no two elements share one."""

from collections.abc import Sequence
from typing import Literal

from graphql_api.errors import InvalidCatalog, Violation
from graphql_api.model import EntitySpec, IndexSpec, PropertySpec, UnionSpec, camel_case, capitalized, entity_name
from graphql_api.query import NamingScheme

RESERVED_TYPES = frozenset({"Query", "Mutation", "Subscription", "Int", "Float", "String", "Boolean", "ID", "Node"})
"""Type names that GraphQL or Relay reserves."""

RESERVED_FIELDS = frozenset({"node", "nodes"})
"""Fields of `Query` that Relay reserves."""

GENERATED_FIELDS = frozenset({"id"})
"""Fields of every record type; a property of this name gets another field name."""


NameKind = Literal["type", "field", "mutation"]
"""A type, a field of `Query`, or a field of `Mutation`."""


class GraphQLNames:
    """Names of types and fields, prefixed with the namespace of the catalog, and the elements that claim them."""

    def __init__(self, namespace: str | None) -> None:
        self._prefix = f"{namespace}_" if namespace else ""
        self.naming = NamingScheme(
            property_name=property_name,
            common_argument=lambda name: "from" if name == "from_" else camel_case(name),
            search_name=self.search_field,
            reserved=frozenset({"info"}),
        )
        self._violations: dict[Violation, None] = {}
        self._owners: dict[NameKind, dict[str, type | str]] = {
            "type": {name: f"{name} of GraphQL" for name in RESERVED_TYPES},
            "field": {name: f"Relay's {name}" for name in RESERVED_FIELDS},
            "mutation": {},
        }

    def type_name(self, name: str) -> str:
        """Return the name of a type: `User`, `Plugin_User`."""
        return f"{self._prefix}{name}"

    def record_field(self, entity: EntitySpec) -> str:
        """Return the field that reads one record: `user`, `Plugin_User`."""
        return self._field(entity.type_name)

    def search_field(self, entity: EntitySpec, index: IndexSpec | UnionSpec) -> str:
        """Return the field that searches an index: `userByFirstName`."""
        return f"{self.record_field(entity)}By{capitalized(index.name)}"

    def list_field(self, entity: EntitySpec, hash_properties: Sequence[PropertySpec], *, first: bool) -> str:
        """Return the field that lists records in any order of some indexes: `users`, `usersByTown`, `allUsers`."""
        every, by = _list_affixes(hash_properties, first=first)
        return self._field(f"{every}{plural(entity.type_name)}{by}")

    def order_enum(self, entity: EntitySpec, hash_properties: Sequence[PropertySpec], *, first: bool) -> str:
        """Return the enum of these orders: `UserOrder`, `UserByTownOrder`, `AllUsersOrder`."""
        every, by = _list_affixes(hash_properties, first=first)
        return self.type_name(f"{every}{plural(entity.type_name) if every else entity.type_name}{by}Order")

    def mutation_field(self, verb: str, entity: EntitySpec, *, several: bool = False) -> str:
        """Return the field of a mutation: `createUser`, `createUsers`, `Plugin_createUser`."""
        return f"{self._prefix}{self.unprefixed_mutation(verb, entity, several=several)}"

    def unprefixed_mutation(self, verb: str, entity: EntitySpec, *, several: bool = False) -> str:
        """Return the field of a mutation without the namespace: `createUser`, `createUsers`."""
        name = capitalized(entity.type_name)
        return f"{verb}{plural(name) if several else name}"

    def shared_mutation(self, name: str) -> str:
        """Return the field of a mutation that belongs to no entity: `write`, `Plugin_write`."""
        return f"{self._prefix}{name}"

    def _field(self, type_name: str) -> str:
        return f"{self._prefix}{type_name}" if self._prefix else entity_name(type_name)

    # --- claims ------------------------------------------------------------------------------------------------

    def claim(
        self, kind: NameKind, name: str, owner: type | str, entity: EntitySpec | None, attribute: str | None = None
    ) -> str:
        """Claim a name for its owner, and return it; a second claim by another owner is a violation.

        `owner`: the class that defines a type, or a text that describes the element. `entity`, `attribute`: what
        declares it.
        """
        first = self._owners[kind].setdefault(name, owner)
        if first is not owner and first != owner:
            taken_by = first if isinstance(first, str) else f"{first.__module__}.{first.__name__}"
            self.report(entity, attribute, f"becomes the {kind} {name!r}, which is taken by {taken_by}.")
        elif kind == "type" and name.startswith("__"):
            problem = f"becomes the type {name!r}, and GraphQL reserves names with two leading underscores."
            self.report(entity, attribute, problem)
        return name

    def report(
        self, entity: EntitySpec | None, attribute: str | None, problem: str, remedy: str = "Rename one of the two."
    ) -> None:
        """Add a violation, which `raise_violations` raises."""
        violation = Violation(entity.type_name if entity else "Catalog", attribute, problem, remedy)
        self._violations[violation] = None

    def raise_violations(self) -> None:
        """Raise `InvalidCatalog` with all violations."""
        if self._violations:
            raise InvalidCatalog([*self._violations])


def property_name(python_name: str) -> str:
    """Return the field of a property; the name of a generated field gets a prefix: `id` becomes `rowId`."""
    name = camel_case(python_name)
    return f"row{capitalized(name)}" if name in GENERATED_FIELDS else name


def plural(name: str) -> str:
    """Return the plural: `User` → `Users`, `Category` → `Categories`, `Address` → `Addresses`."""
    if name.endswith("y") and name[-2:-1] not in ("a", "e", "i", "o", "u", ""):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "x", "z", "ch", "sh")) else f"{name}s"


def with_article(name: str) -> str:
    """Return the name with its article: `a User`, `an Email`; a leading U is assumed to sound as in `user`."""
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def _list_affixes(hash_properties: Sequence[PropertySpec], *, first: bool) -> tuple[str, str]:
    """Return what precedes and follows the name of the entity in the names of a list and its orders."""
    if first:
        return "", ""
    names = "And".join(capitalized(camel_case(part.name)) for part in hash_properties)
    return ("", f"By{names}") if names else ("All", "")
