"""What a reproduction found, in records from which `unseen.experiment.reproduce_tables` makes tables."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from unseen import __version__
from unseen.datasets.voc import VOC_CLASSES
from unseen.evaluation.metrics import Summary
from unseen.evaluation.protocol import ClassSplit, alternating_split
from unseen.experiment.paper_tables import Protocol, printed
from unseen.experiment.reproduce_data import Loaded
from unseen.experiment.runner import Experiment, Interval, Outcome, interval
from unseen.experiment.studies import Point

PROTOCOLS: Final[tuple[Protocol, ...]] = ("zero-shot", "generalized")
RIVALS: Final = ("ConSE", "LatEm-M", "DMP", "Fast0Tag")


@dataclass(frozen=True, eq=False)
class Reproduction:
    """All that a reproduction found.

    Attributes
    ----------
    loaded : Loaded
        The data, their files and notes on them.
    experiment : Experiment
        Rows of all methods on all splits.
    strength, ranks, embeddings : tuple of Point
        The studies.
    blind : dict of str to bool
        For each split, whether shuffling the unseen annotations leaves what is learned on as it is.
    command : str
        What was typed.
    folder : Path
        Where everything was written.
    seconds : float
        How long it took.
    """

    loaded: Loaded
    experiment: Experiment
    strength: tuple[Point, ...]
    ranks: tuple[Point, ...]
    embeddings: tuple[Point, ...]
    blind: dict[str, bool]
    command: str
    folder: Path
    seconds: float = field(default=0.0)

    @property
    def name(self) -> str:
        """Name of the data set."""
        return self.loaded.data.name

    @property
    def split(self) -> ClassSplit:
        """The main split of the classes."""
        return self.experiment.of(self.experiment.methods[0].name)[0].cell.split

    def printed(self, protocol: Protocol, method: str) -> Summary | None:
        """The paper's figures, if this is its data set, divided as there; None if they do not compare."""
        data = self.loaded.data
        is_the_papers = set(data.labels) == set(VOC_CLASSES) and self.split == alternating_split(data.labels)
        return printed(protocol, self.name, method) if is_the_papers else None

    @property
    def over_repeats(self) -> str:
        """That figures of the main split are means, in words; nothing if they are not."""
        n = len({outcome.cell.seed for outcome in self.experiment.outcomes})
        return f"Means over {n} repeats. " if n > 1 else ""

    def methods(self, track: str) -> tuple[str, ...]:
        """Methods of a track that ran."""
        return tuple(method.name for method in self.experiment.methods if method.track == track)

    def on_main_split(self, method: str, protocol: Protocol) -> Summary:
        """Mean figures over the repeats on the main split."""
        rows = [figures(outcome, protocol) for outcome in self.experiment.of(method)]
        return Summary(*np.mean(rows, axis=0).tolist())

    def over_splits(self, method: str, protocol: Protocol) -> tuple[Interval, ...]:
        """Mean and interval of the four figures over the random splits; repeats of a split are averaged first."""
        return tuple(interval(column) for column in self.by_split(method, protocol).T)

    def by_split(self, method: str, protocol: Protocol) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """Figures of a method, a row a random split."""
        return mean_by_split(self.experiment.of(method, random=True), protocol)


def figures(outcome: Outcome, protocol: Protocol) -> Summary:
    """The four figures of one protocol."""
    return outcome.result.zero_shot if protocol == "zero-shot" else outcome.result.generalized


def mean_by_split(
    outcomes: Sequence[Outcome], protocol: Protocol
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Mean over the repeats of each split, a row a split, in the order in which they come."""
    splits: dict[str, list[Summary]] = {}
    for outcome in outcomes:
        splits.setdefault(outcome.cell.split_name, []).append(figures(outcome, protocol))
    return np.array([np.mean(rows, axis=0) for rows in splits.values()]).reshape(len(splits), 4)


def machine() -> str:
    """The machine and the software in a line."""
    return (
        f"{os.cpu_count()} cores {platform.machine()}, {platform.system()}, Python {platform.python_version()}, "
        f"numpy {np.__version__}, unseen {__version__}"
    )
