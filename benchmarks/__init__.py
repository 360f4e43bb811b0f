"""Benchmarks: one question a file; each prints a table with a ratio."""
