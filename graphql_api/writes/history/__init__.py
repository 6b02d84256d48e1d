"""Histories: creation values, current records and batches of entries."""
