"""Photos in, tags out."""
