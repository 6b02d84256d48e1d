"""Writes: how records become items with keys, and how they reach the store."""
