"""`unseen cache`: files that were computed or downloaded once, and can be again."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal
from typer import Argument, Option, Typer

from unseen.cli.terminal import one_line_errors, print_table, printable, say
from unseen.files import cache_dir
from unseen.templates import Table

cache_app = Typer(no_args_is_help=True, help="Look at the cache, and clear it.")
_NONE: list[str] = []
# Folders of the cache: what they hold, and how the files are called. The cache may be any folder of the user's, so
# nothing else in it is counted or removed.
KINDS = {
    "downloads": ("archives of word vectors", "glove.*.zip"),
    "word-vectors": ("vectors of words from such tables", "*.npz"),
    "label-vectors": ("vectors of texts from encoders", "*.npz"),
    "flickr": ("hit counts that Flickr answered", "answers.json"),
    "hub": ("which revision of a model of the hub is used; the models are in the hub's own cache", "*--*.txt"),
}


def _files(kind: str) -> list[Path]:
    folder = cache_dir(kind)
    if folder.is_symlink():  # its files are elsewhere
        return []
    found = [path for pattern in (KINDS[kind][1], ".*.part") for path in folder.glob(pattern)]
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


@cache_app.command("show")
def show() -> None:
    """List what is in the cache, by kind, and where it is."""
    with one_line_errors("cache show"):
        found = {kind: _files(kind) for kind in KINDS}
        sizes = {kind: sum(path.stat().st_size for path in files) for kind, files in found.items()}
        rows = [(kind, KINDS[kind][0], f"{len(files):,}", decimal(sizes[kind])) for kind, files in found.items()]
        note = (
            f"{decimal(sum(sizes.values()))} in all. UNSEEN_CACHE names another folder. Next: unseen cache clear"
        )
        print_table(Table(str(cache_dir()), ("kind", "content", "files", "size"), rows, note))


@cache_app.command("clear")
def clear(
    kinds: Annotated[list[str], Argument(help="Kinds to clear, as in unseen cache show; all by default.")] = _NONE,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove files from the cache; what is needed is computed or downloaded again."""
    with one_line_errors("cache clear", "the rest is still there"):
        from unseen.validation import check_choice, counted

        chosen = [check_choice(kind, "kinds", tuple(KINDS)) for kind in kinds or KINDS]
        files = [path for kind in chosen for path in _files(kind)]
        what = f"{counted(len(files), 'file')} ({decimal(sum(path.stat().st_size for path in files))})"
        if files and not yes and not typer.confirm(printable(f"Remove {what} from {cache_dir()}?")):
            return say("Nothing was removed.")
        for path in files:
            path.unlink(missing_ok=True)
        for kind in chosen:
            with suppress(OSError):  # it holds other files, or is not there
                cache_dir(kind).rmdir()
        return say(f"Removed {what} from {cache_dir()}.")
