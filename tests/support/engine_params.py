"""Marks that select the engines of a test."""

import pytest

from tests.support.dynamodb_servers import ENGINE

on_both_engines = pytest.mark.parametrize("open_table", ["sqlite", ENGINE], indirect=True)
"""runs a test that uses `open_table` on SQLite and on DynamoDB Local"""
