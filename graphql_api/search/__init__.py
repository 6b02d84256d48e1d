"""Decides what a search does: pure, without store, clock or settings."""
