"""Stored features, one byte per number, and the questions asked of them: words, photos that look alike.

A row holds three float32 numbers (``step``, ``low`` and the length of the row) and one code per column:
``x = low + step * code``. Products with a few columns are computed on the codes as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from unseen.images.features import describe_each
from unseen.labels.names import label_key

if TYPE_CHECKING:
    from unseen.photos.tagger import PhotoTagger

HEAD = 12  # bytes before the codes of a row
MOST_COLUMNS = 16  # products with more columns are faster on decoded rows
BLOCK = 4096  # rows decoded at a time
GATHERED = 65536  # rows copied at a time where few are wanted
Rows = NDArray[np.uint8]  # (n, HEAD + n_columns)
Floats = NDArray[Any]  # float32 or float64


def encode_rows(values: NDArray[Any]) -> Rows:
    """Rows of numbers as they are stored: 255 equal steps from the smallest to the largest of each row."""
    values = np.asarray(values, dtype=np.float32)
    low = values.min(axis=1, keepdims=True)
    step = (values.max(axis=1, keepdims=True) - low) / np.float32(255.0)
    codes = np.rint((values - low) / np.where(step > 0.0, step, np.float32(1.0)))
    lengths = np.linalg.norm(low + step * codes, axis=1, keepdims=True)
    head = np.hstack([step, low, np.where(lengths > 0.0, lengths, 1.0)]).astype("<f4")
    return np.hstack([head.view(np.uint8), codes.astype(np.uint8)])


def decode_rows(rows: Rows) -> Floats:
    """Numbers of stored rows."""
    head = np.ascontiguousarray(rows[:, :HEAD]).view("<f4")
    values = rows[:, HEAD:].astype(np.float32)
    values *= head[:, :1]
    values += head[:, 1:2]
    return values


def map_rows(path: Path, n_rows: int, n_columns: int) -> Rows:
    """Map the rows of a file into memory; a file that is still growing may be longer."""
    if not n_rows:
        return np.empty((0, HEAD + n_columns), dtype=np.uint8)
    return np.asarray(np.memmap(path, dtype=np.uint8, mode="r", shape=(n_rows, HEAD + n_columns)))


def linear_scores(rows: Rows, weights: NDArray[Any], *, unit: bool) -> Floats:
    """Products of stored rows, with ``unit`` scaled to length 1, and columns of shape (n_columns, k)."""
    columns = np.ascontiguousarray(weights.T, dtype=np.float32)
    scores = np.empty((len(rows), len(columns)), dtype=np.float32)
    _multiply(rows, columns, columns.sum(axis=1, dtype=np.float64).astype(np.float32), unit, scores)
    return scores


@njit(cache=True, nogil=True, parallel=True, fastmath={"reassoc", "contract"})
def _multiply(rows: Any, columns: Any, sums: Any, unit: Any, scores: Any) -> None:
    for i in prange(rows.shape[0]):
        step, low, length = rows[i, :HEAD].view(np.float32)
        codes = rows[i, HEAD:]
        for k in range(columns.shape[0]):
            column = columns[k]
            total = np.float32(0.0)
            for j in range(columns.shape[1]):
                total += np.float32(codes[j]) * column[j]
            score = step * total + low * sums[k]
            scores[i, k] = score / length if unit else score


class Query(Protocol):
    """What is asked of every photo: one column of scores, and of probabilities, per word.

    A query that is ``linear`` in the features has a `Linear` form, which is used instead of ``columns``.
    """

    @property
    def needs_classes(self) -> bool:
        """Whether the scores of the backbone's classes are needed."""

    def columns(self, features: Floats, classes: Floats | None) -> tuple[Floats, Floats | None]:
        """Scores and probabilities of a block of photos."""


@dataclass(frozen=True)
class Linear:
    """A query with the scores ``x @ weights + offsets``, x being of length 1 with ``unit``."""

    weights: NDArray[Any]
    offsets: NDArray[Any]
    unit: bool
    probabilities: Callable[[Floats], Floats] | None = None
    needs_classes: bool = False

    def columns(self, features: Floats, classes: Floats | None = None) -> tuple[Floats, Floats | None]:
        """Scores and probabilities of a block of photos."""
        scores = features @ self.weights.astype(np.float32)
        if self.unit:
            scores /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return self.finish(scores)

    def finish(self, products: Floats) -> tuple[Floats, Floats | None]:
        """Scores and probabilities from the products with the weights."""
        scores = products + self.offsets.astype(np.float32)
        return scores, None if self.probabilities is None else self.probabilities(scores)


class TaggerQuery:
    """Words asked of a model: its own scores, block by block."""

    def __init__(self, model: PhotoTagger, words: Sequence[str]) -> None:
        self.tagger, self._columns = model.tagger, model.columns
        self.vectors = model.label_vectors(words)
        self.needs_classes = model.tagger.n_features_in_ != model.backbone.n_features

    def columns(self, features: Floats, classes: Floats | None) -> tuple[Floats, Floats | None]:
        """Scores and probabilities of a block of photos."""
        return self.tagger.decision_function(self._columns(features, classes), self.vectors), None


class Best(NamedTuple):
    """Rows in order, the best first, with their scores and probabilities."""

    rows: NDArray[np.intp]
    scores: Floats
    p: Floats | None


@dataclass(frozen=True)
class Expression:
    """One value per photo from the columns of a query: any of the first, all of the second, none of the third."""

    query: Query
    any_of: tuple[int, ...] = (0,)
    all_of: tuple[int, ...] = ()
    none_of: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, model: PhotoTagger, any_of: Sequence[str], all_of: Sequence[str] = (), none_of: Sequence[str] = ()
    ) -> Expression:
        """Expression of words; spellings of one word are one column."""
        place: dict[str, int] = {}
        names: list[str] = []
        for name in (*any_of, *all_of, *none_of):
            if label_key(name) not in place:
                place[label_key(name)] = len(names)
                names.append(name)
        parts = (
            tuple(dict.fromkeys(place[label_key(name)] for name in part)) for part in (any_of, all_of, none_of)
        )
        return cls(TaggerQuery(model, names), *parts)

    @classmethod
    def like(cls, photo: str | Path, model: PhotoTagger) -> Expression:
        """Cosine of the features with those of a photo."""
        ((path, outputs, problem),) = describe_each([str(photo)], model.backbone, jobs=1)
        if outputs is None:
            raise ValueError(f"like: {path!r} cannot be read: {problem}. Pass an image file.")
        features = outputs.features.T
        return cls(Linear(features / (np.linalg.norm(features) or 1.0), np.zeros(1), unit=True))

    def values(self, features: Rows, classes: Rows | None) -> tuple[Floats, Floats | None]:
        """Score and probability of each stored row."""
        scores, p = score_rows(self.query, features, classes)
        if len(self.any_of) == 1 and not self.all_of and not self.none_of:
            return scores[:, self.any_of[0]], None if p is None else p[:, self.any_of[0]]
        if p is None:
            raise ValueError(
                "all_of, any_of, none_of: this model gives scores only, no probabilities. Ask one word."
            )
        value = 1.0 - np.prod(1.0 - p[:, self.any_of], axis=1)
        value *= np.prod(p[:, self.all_of], axis=1) * np.prod(1.0 - p[:, self.none_of], axis=1)
        return value, value


def score_rows(query: Query, features: Rows, classes: Rows | None) -> tuple[Floats, Floats | None]:
    """Scores and probabilities of stored rows, one column per word."""
    if isinstance(query, Linear) and query.weights.shape[1] <= MOST_COLUMNS:
        return query.finish(linear_scores(features, query.weights, unit=query.unit))
    found = []
    for start in range(0, len(features), BLOCK):
        block = slice(start, start + BLOCK)
        logits = decode_rows(classes[block]) if query.needs_classes and classes is not None else None
        found.append(query.columns(decode_rows(features[block]), logits))
    scores, p = zip(*found, strict=True) if found else ((np.empty((0, 1), dtype=np.float32),), (None,))
    return np.concatenate(scores), None if p[0] is None else np.concatenate(p)


def best_rows(
    expression: Expression,
    features: Rows,
    classes: Rows | None,
    wanted: NDArray[np.bool_],
    top: int | None = None,
    min_p: float = 0.0,
) -> Best:
    """The rows with the largest values among those wanted; equal values in the order of the rows."""
    rows = np.flatnonzero(wanted)
    if 2 * len(rows) < len(features):  # few: these alone
        found = [
            expression.values(features[some], None if classes is None else classes[some])
            for some in np.array_split(rows, range(GATHERED, len(rows), GATHERED))
        ]
        scores = np.concatenate([score for score, _ in found])
        p = None if found[0][1] is None else np.concatenate([value for _, value in found])
    else:
        scores, p = expression.values(features, classes)
        if len(rows) < len(features):
            scores, p = scores[rows], None if p is None else p[rows]
    if min_p > 0.0:
        if p is None:
            raise ValueError("min_p: this model gives scores only, no probabilities. Leave it out.")
        likely = p >= min_p
        rows, scores, p = rows[likely], scores[likely], p[likely]
    if top is not None and top < len(rows):
        limit = np.partition(scores, len(scores) - top)[len(scores) - top]
        candidates = np.flatnonzero(scores >= limit)
    else:
        candidates = np.arange(len(rows))
    order = candidates[np.lexsort((candidates, -scores[candidates]))][:top]
    return Best(rows[order], scores[order], None if p is None else p[order])
