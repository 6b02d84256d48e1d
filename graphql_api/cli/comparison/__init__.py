"""Comparing two pages of metrics: parsing, confidence intervals, and the changes between two periods."""
