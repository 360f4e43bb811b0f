"""Optimisation: pure functions on arrays; nothing here knows of label names."""
