"""Runs `shardql` as `python -m graphql_api.cli`."""

from graphql_api.cli import app

app(prog_name="shardql")
