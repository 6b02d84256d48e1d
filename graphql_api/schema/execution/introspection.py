"""What introspection returns: the query that tools send, the sizes of its lists, and the SDL of a subgraph."""

from collections.abc import Mapping
from math import ceil
from typing import Any

import graphql


def complete_introspection_query() -> str:
    """Return the largest query that tools send to read a schema."""
    return graphql.get_introspection_query(
        specified_by_url=True,
        directive_is_repeatable=True,
        schema_description=True,
        input_value_deprecation=True,
    )


def introspection_list_sizes(schema: graphql.GraphQLSchema) -> Mapping[str, int]:
    """Return the mean number of entries of each list that introspection returns, by the name of its field."""
    types = [*schema.type_map.values()]
    composite = [kind for kind in types if graphql.is_object_type(kind) or graphql.is_interface_type(kind)]
    fields = [field for kind in composite for field in kind.fields.values()]
    totals = {
        "fields": len(fields),
        "inputFields": sum(len(kind.fields) for kind in types if graphql.is_input_object_type(kind)),
        "enumValues": sum(len(kind.values) for kind in types if graphql.is_enum_type(kind)),
        "interfaces": sum(len(kind.interfaces) for kind in composite),
        "possibleTypes": sum(len(schema.get_possible_types(kind)) for kind in types if graphql.is_abstract_type(kind)),
    }
    means = {name: max(1, ceil(total / len(types))) for name, total in totals.items()}
    arguments = max(1, ceil(sum(len(field.args) for field in fields) / max(1, len(fields))))
    return {**means, "args": arguments, "types": len(types), "directives": len(schema.directives)}


class NoSubgraphSdlRule(graphql.ValidationRule):
    """Refuses the field of Apollo Federation that returns the whole schema."""

    def enter_field(self, node: graphql.FieldNode, *_: Any) -> None:
        if node.name.value == "_service":
            self.report_error(
                graphql.GraphQLError(
                    "GraphQL introspection is not allowed, but the document contains _service: it returns the schema.",
                    node,
                )
            )
