"""GraphQL names of types and fields, and the check that no two elements share one."""

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
from graphql_api.query import NamingScheme

RESERVED_TYPES = frozenset({"Query", "Mutation", "Subscription", "Int", "Float", "String", "Boolean", "ID", "Node"})
"""Type names that GraphQL or Relay reserves."""

RESERVED_FIELDS = frozenset({"node", "nodes"})
"""Fields of `Query` that Relay reserves."""

GENERATED_FIELDS = frozenset({"id"})
"""Fields of every record type; a property of this name gets another field name."""


class GraphQLNames:
    """Names of types and fields, prefixed with the namespace of the catalog."""

    def __init__(self, namespace: str | None) -> None:
        self._prefix = f"{namespace}_" if namespace else ""
        self.naming = NamingScheme(
            property_name=property_name,
            common_argument=_common_argument,
            search_name=self.search_field,
            reserved=frozenset({"info"}),
        )

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
        if not first and not hash_properties:
            return self._field(f"All{plural(entity.type_name)}")
        return f"{self._field(plural(entity.type_name))}{'' if first else f'By{_joined_names(hash_properties)}'}"

    def order_enum(self, entity: EntitySpec, hash_properties: Sequence[PropertySpec], *, first: bool) -> str:
        """Return the enum of these orders: `UserOrder`, `UserByBeneficiaryIdOrder`."""
        if not first and not hash_properties:
            return self.type_name(f"All{plural(entity.type_name)}Order")
        return self.type_name(f"{entity.type_name}{'' if first else f'By{_joined_names(hash_properties)}'}Order")

    def mutation_field(self, verb: str, entity: EntitySpec, *, several: bool = False) -> str:
        """Return the field of a mutation: `createUser`, `createUsers`, `Plugin_createUser`."""
        return f"{self._prefix}{self.unprefixed_mutation(verb, entity, several=several)}"

    def unprefixed_mutation(self, verb: str, entity: EntitySpec, *, several: bool = False) -> str:
        """Return the field of a mutation without the namespace: `createUser`, `createUsers`."""
        name = capitalized(entity.type_name)
        return f"{verb}{plural(name) if several else name}"

    def _field(self, type_name: str) -> str:
        return f"{self._prefix}{type_name}" if self._prefix else entity_name(type_name)


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


def _joined_names(hash_properties: Sequence[PropertySpec]) -> str:
    return "And".join(capitalized(camel_case(part.name)) for part in hash_properties)


def _common_argument(name: str) -> str:
    return "from" if name == "from_" else camel_case(name)


class NameRegistry:
    """Owners of GraphQL names; a second claim to a name is a violation, and all violations are raised together."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self._types: dict[str, object] = {name: f"{name} of GraphQL" for name in RESERVED_TYPES}
        self._fields: dict[str, str] = {name: f"Relay's {name}" for name in RESERVED_FIELDS}
        self._mutations: dict[str, str] = {}

    def claim_type(self, name: str, declaration: Violation, owner: object) -> None:
        """Claim a type name for its owner: the class that defines the type, or a text that describes it."""
        first_owner = self._types.setdefault(name, owner)
        if first_owner is not owner and first_owner != owner:
            self._add_violation(
                declaration, f"becomes the type {name!r}, which is taken by {_describe_owner(first_owner)}."
            )
        elif name.startswith("__"):
            self._add_violation(
                declaration, f"becomes the type {name!r}, and GraphQL reserves names with two leading underscores."
            )

    def claim_field(self, name: str, declaration: Violation, owner: str) -> None:
        """Claim the name of a field of `Query`."""
        first_owner = self._fields.setdefault(name, owner)
        if first_owner != owner:
            self._add_violation(declaration, f"becomes the field {name!r}, which is taken by {first_owner}.")

    def claim_mutation(self, name: str, declaration: Violation, owner: str) -> None:
        """Claim the name of a field of `Mutation`."""
        first_owner = self._mutations.setdefault(name, owner)
        if first_owner != owner:
            self._add_violation(declaration, f"becomes the mutation {name!r}, which is taken by {first_owner}.")

    def claim_record_fields(self, entity: EntitySpec, fields: Iterable[tuple[str, PropertySpec | JoinSpec]]) -> None:
        """Claim the field names of a record type, each with its property or join."""
        owners: dict[str, PropertySpec | JoinSpec] = {}
        for name, part in fields:
            first_owner = owners.setdefault(name, part)
            if first_owner is not part:
                self._add_violation(
                    declared_at(entity, part.name),
                    f"becomes the field {name!r}, which is taken by {first_owner.name!r}.",
                )

    def _add_violation(self, declaration: Violation, problem: str) -> None:
        remedy = declaration.remedy or "Rename one of the two."
        self.violations.append(Violation(declaration.entity, declaration.property, problem, remedy))

    def raise_violations(self) -> None:
        """Raise `InvalidCatalog` with all violations, each once."""
        if self.violations:
            raise InvalidCatalog([*dict.fromkeys(self.violations)])


def _describe_owner(owner: object) -> str:
    return (
        owner if isinstance(owner, str) else f"{getattr(owner, '__module__', '?')}.{getattr(owner, '__name__', owner)}"
    )


def declared_at(entity: EntitySpec, attribute: str | None = None) -> Violation:
    """Return a violation without a problem, which locates the declaration of a name."""
    return Violation(entity.type_name, attribute, "", "")
