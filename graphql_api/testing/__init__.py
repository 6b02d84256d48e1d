"""Helpers for the tests of applications: a database in memory, a GraphQL client, and pytest fixtures."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.projections import ProjectedEvents, project_events
    from graphql_api.testing.graphql_client import GraphQLClient, GraphQLFailed
    from graphql_api.testing.memory_database import in_memory, open_in_memory
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = ["GraphQLClient", "GraphQLFailed", "ProjectedEvents", "in_memory", "open_in_memory", "project_events"]
