"""Pages for browsers: GraphiQL with sample operations, the data page, and the start page that links to both."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.playground.catalog_description import CatalogDescription as CatalogDescription
    from graphql_api.playground.catalog_description import Viewer as Viewer
    from graphql_api.playground.graphiql import graphiql_page as graphiql_page
    from graphql_api.playground.graphiql import graphiql_routes as graphiql_routes
    from graphql_api.playground.page_routes import grid_page as grid_page
    from graphql_api.playground.page_routes import grid_routes as grid_routes
    from graphql_api.playground.page_routes import start_page as start_page
    from graphql_api.playground.page_routes import start_routes as start_routes
    from graphql_api.playground.query_tabs import catalog_title as catalog_title
    from graphql_api.playground.query_tabs import sample_tabs as sample_tabs
else:
    __getattr__ = lazy_exports(__name__, __file__)
