"""The store port: what a search and a write need of an engine, and nothing more."""
