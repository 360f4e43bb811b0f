"""Benchmarks: one question per file; each prints a table with a ratio."""
