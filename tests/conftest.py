"""Settings of all tests."""

import os

from hypothesis import settings

# The same examples in every run of CI; anywhere else new ones, which is how rare failures are found.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
