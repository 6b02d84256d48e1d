"""`python -m graphql_api.cli` is `shardql`."""

from graphql_api.cli import app

app(prog_name="shardql")
