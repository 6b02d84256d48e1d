"""GraphiQL in the browser: the page, its assets, and the sample operations of its tabs."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.playground.graphiql import graphiql_page, graphiql_routes
    from graphql_api.playground.query_tabs import catalog_title, sample_tabs
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "graphiql_page": "graphiql",
            "graphiql_routes": "graphiql",
            "sample_tabs": "query_tabs",
            "catalog_title": "query_tabs",
        },
    )

__all__ = [
    "catalog_title",
    "graphiql_page",
    "graphiql_routes",
    "sample_tabs",
]
