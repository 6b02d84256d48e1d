"""GraphiQL in the browser: the page, its assets, and the sample operations of its tabs."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.playground.graphiql import graphiql_page as graphiql_page
    from graphql_api.playground.graphiql import graphiql_routes as graphiql_routes
    from graphql_api.playground.query_tabs import catalog_title as catalog_title
    from graphql_api.playground.query_tabs import sample_tabs as sample_tabs
else:
    __getattr__ = lazy_exports(__name__, __file__)
