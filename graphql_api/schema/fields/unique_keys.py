"""Arguments that name one record by a unique value, next to its id."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strawberry.types.arguments import StrawberryArgument

from graphql_api.errors import ConflictingArguments, MissingArgument, about
from graphql_api.model import Entity, EntitySpec, UniqueSpec, camel_case, capitalized
from graphql_api.query import NamingScheme, unique_values
from graphql_api.schema.fields.record_resolvers import read_by_unique
from graphql_api.schema.graphql_names import GraphQLNames
from graphql_api.schema.input_values import provided_fields
from graphql_api.schema.types.generated_fields import ArgumentValues, Info, argument, input_type, plain_field
from graphql_api.schema.types.object_types import RecordTypes


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A unique constraint, and the argument that holds its values: a scalar, or an object of several."""

    name: str
    unique: UniqueSpec
    argument: StrawberryArgument

    def _values(self, provided: Any) -> Mapping[str, Any]:
        """Return the values by the Python names of their properties."""
        if len(self.unique.parts) == 1:
            return {self.unique.parts[0].name: provided}
        return provided_fields(provided)

    async def read(
        self, info: Info, entity: EntitySpec, values: ArgumentValues, naming: NamingScheme, why: str
    ) -> Entity | None:
        """Read the record that has the provided value, or raise `Forbidden`."""
        with about(self.name):
            parsed = unique_values(entity, self.unique, self._values(values[self.name]), naming)
        return await read_by_unique(info, entity, self.unique, parsed, why)


def unique_key_argument(names: GraphQLNames, records: RecordTypes, entity: EntitySpec, unique: UniqueSpec) -> UniqueKey:
    """Return the key of a unique constraint: `email: String`, `projectIdNum: IssueProjectIdNumKey`."""
    if len(unique.parts) == 1:
        (part,) = unique.parts
        name = names.naming.key_argument(part.name)
        return UniqueKey(name, unique, argument(name, records.scalar_annotation(entity, part)))
    name = camel_case("_".join(part.name for part in unique.parts))
    type_name = names.type_name(f"{entity.type_name}{capitalized(name)}Key")
    owner = f"the key {unique.attribute} of {entity.type_name}"
    names.claim("type", type_name, owner, entity, unique.attribute)
    fields = [
        plain_field(part.name, records.scalar_annotation(entity, part), name=names.naming.key_argument(part.name))
        for part in unique.parts
    ]
    text = f"Values that are unique together, and name one {entity.type_name}."
    return UniqueKey(name, unique, argument(name, input_type(type_name, fields, text)))


def check_one_key(field: str, values: ArgumentValues, unique_keys: Iterable[str]) -> None:
    """Require exactly one of the keys of a record: its id, or the values of a unique constraint."""
    keys = ["id", *unique_keys]
    given = [name for name in keys if name in values]
    if not given:
        raise MissingArgument(f"{field} needs a key of the record: provide {' or '.join(keys)}.", argument="id")
    others = [name for name in values if name not in ("id", given[0])] if given[0] != "id" else given[1:]
    if others:
        raise ConflictingArguments(
            f"{given[0]} already names one record: omit {' and '.join(others)}.", argument=others[0]
        )
