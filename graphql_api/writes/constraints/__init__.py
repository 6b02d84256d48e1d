"""Constraints between records: unique items, reference items, delete intents and counters."""
