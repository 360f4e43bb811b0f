"""Settings of all tests."""

import os
import tempfile
from pathlib import Path

from hypothesis import settings

KEPT = tempfile.TemporaryDirectory(prefix="unseen-tests-")  # removed at exit
os.environ.setdefault("UNSEEN_KEY", str(Path(KEPT.name) / "key"))  # tests do not mark models as the user's own

# No deadlines: how long an example takes says more of the machine than of the code. The same examples in every run
# of CI; anywhere else new ones, which is how rare failures are found.
settings.register_profile("any machine", deadline=None)
settings.register_profile("any machine, always the same", deadline=None, derandomize=True)
settings.load_profile("any machine, always the same" if os.environ.get("CI") else "any machine")
