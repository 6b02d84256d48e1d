"""Looks after tables: what they record about themselves, and loading data in bulk."""
