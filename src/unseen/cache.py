"""The cache directory: where downloads and converted word vectors are kept between runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["VARIABLE", "cache_dir"]

VARIABLE = "UNSEEN_CACHE"


def cache_dir(*parts: str, create: bool = True) -> Path:
    """Directory for files that can be made again.

    The environment variable ``UNSEEN_CACHE`` names it; without it, it is ``$XDG_CACHE_HOME/unseen``, and
    without that ``~/.cache/unseen``. It may be deleted at any time.

    Parameters
    ----------
    *parts : str
        Sub-directory, if any.
    create : bool, default=True
        Make the directory and check that files can be written to it. False: only name it.

    Returns
    -------
    pathlib.Path
        An absolute path.

    Raises
    ------
    OSError
        If the directory cannot be made or written to.
    """
    path = _root().joinpath(*parts)
    if create:
        _make_writable(path)
    return path


def _root() -> Path:
    named = os.environ.get(VARIABLE, "")
    if named:
        return Path(named).expanduser().absolute()
    # The XDG specification tells programs to ignore a relative path.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path("~/.cache").expanduser().absolute()) / "unseen"


def _make_writable(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        # Asking the file system is the only sure test: permission bits do not tell of read-only mounts.
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OSError(
            f"cache: the directory {str(path)!r} cannot be written ({error}). "
            f"Set {VARIABLE} to a directory you may write to."
        ) from error
