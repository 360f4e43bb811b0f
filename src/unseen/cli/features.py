"""`unseen features`: images in, a folder of features out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from unseen.cli.terminal import one_line_errors, open_console, say, show_progress

_MOST_LISTED = 20


def features(
    sources: Annotated[list[str], Argument(help="Image files, folders of them, .txt or .csv lists of paths.")],
    output: Annotated[Path, Option("--output", "-o", help="Folder for the features.")],
    backbone: Annotated[str, Option(help="Its name, or an .onnx file.")] = "efficientnet-lite0",
    batch: Annotated[int, Option(min=1, help="Images per call of the network.")] = 1,
    jobs: Annotated[int | None, Option(min=1, help="Threads; by default one per core.")] = None,
    strict: Annotated[bool, Option("--strict", help="Fail if a file cannot be read.")] = False,
    only: Annotated[bool, Option("--only", help="Drop images from the folder that are not given here.")] = False,
) -> None:
    """Compute the features of images; run it again to resume, or to add new images."""
    console = open_console()
    with one_line_errors("features", "what is finished was kept, run it again to resume"):
        from unseen.images.features import extract_features
        from unseen.validation import counted

        started = time.monotonic()
        with show_progress(console) as reporter:
            step = reporter.stage(f"describing images by {backbone}")
            made = extract_features(
                sources, output, backbone, batch=batch, jobs=jobs, strict=strict, only=only, progress=step
            )
        seconds = time.monotonic() - started
        say(
            console,
            f"{output}: {counted(made.X.shape[1], 'feature')} of {counted(len(made), 'image')}, {seconds:.1f} s.",
        )
        if made.problems:
            say(console, f"{counted(len(made.problems), 'file')} could not be read:")
        for path, reason in made.problems[:_MOST_LISTED]:
            say(console, f"  {path}: {reason}")
        if len(made.problems) > _MOST_LISTED:
            say(console, f"  and {len(made.problems) - _MOST_LISTED:,} more")
