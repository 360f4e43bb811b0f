"""What every reader yields, and how every reader complains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

ROWS = 4096  # words a block


class Block(NamedTuple):
    """Consecutive words of a table, as UTF-8, with a vector each as a row."""

    words: list[bytes]
    vectors: NDArray[Any]


def fail(file: str, what: str, advice: str, line: int | None = None) -> NoReturn:
    """Raise the one kind of error that a reader raises."""
    where = f"{file!r}, line {line}" if line is not None else f"{file!r}"
    raise ValueError(f"vectors: {where}: {what}. {advice}")


def check_finite(block: Block, file: str, places: Sequence[int], kind: str) -> Block:
    """Refuse NaN and infinity; ``places`` are the numbers of the block's lines or words."""
    broken = np.flatnonzero(~np.isfinite(block.vectors).all(axis=1))
    if len(broken):
        row = int(broken[0])
        fail(
            file,
            f"the vector of {show(block.words[row])} ({kind} {places[row]}) holds NaN or infinity",
            "Remove the word or give it finite numbers.",
        )
    return block


def show(word: bytes) -> str:
    """A word for a message, whatever its bytes."""
    return repr(word.decode("utf-8", errors="replace")[:40])
