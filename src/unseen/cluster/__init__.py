"""Training, scoring and feature extraction on a Dask cluster."""
