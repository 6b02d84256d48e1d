"""From a catalog to a GraphQL schema, and from a client's operation to its answer."""
