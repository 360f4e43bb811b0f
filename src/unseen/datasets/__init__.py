"""Data sets: annotations in the formats of the field, downloads, simulated scenes."""
