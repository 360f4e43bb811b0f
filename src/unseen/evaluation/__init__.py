"""Metrics, protocols and experiments."""
