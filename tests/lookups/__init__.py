"""Tests of lookups: their mapping items, searches by them, and mappings in a second store."""
