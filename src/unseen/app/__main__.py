"""``python -m unseen.app``: serve what the environment names; see `unseen.app.server.from_environment`."""

import os

from unseen.app.server import from_environment, serve

serve(from_environment(), os.environ.get("UNSEEN_HOST", "127.0.0.1"), int(os.environ.get("UNSEEN_PORT", "8420")))
