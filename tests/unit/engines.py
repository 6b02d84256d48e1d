"""Which engines a test runs on."""

import pytest

from tests.dynamodb_local import ENGINE

on_both_engines = pytest.mark.parametrize("opened", ["sqlite", ENGINE], indirect=True)
"""a test of an empty table runs on SQLite, and on DynamoDB Local too"""
