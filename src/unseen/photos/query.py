"""Questions asked of stored photos: words, combinations of words, photos that look alike."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from unseen.images.features import describe_each
from unseen.labels.names import label_key
from unseen.photos.storage import Rows, Snapshot, decode_rows
from unseen.photos.stored_scores import Floats, StoredScores, find_form
from unseen.solvers import one_thread

if TYPE_CHECKING:
    from unseen.photos.tagger import PhotoTagger

BLOCK = 2048  # rows decoded at a time
MOST_COPIED = 2**17  # rows copied at a time where only some are wanted
CANDIDATES = 500  # photos, at least, that get a probability where the scores have a form
LEAST_COSINE, COSINE_WEIGHT, AGREEMENT = 0.6, 0.4, 1.22  # of near-identical photos: see docs/library.md


class Asked(Protocol):
    """Words asked of photos: one column of scores and, if the model has them, of probabilities per word.

    With a ``form``, the scores of all photos are computed as they are stored, and ``columns`` is called for the
    best ones only.
    """

    @property
    def needs_classes(self) -> bool:
        """Whether ``columns`` needs the scores of the backbone's classes."""

    @property
    def form(self) -> StoredScores | None:
        """The scores as a function of stored rows."""

    def columns(self, features: Floats, classes: Floats | None) -> tuple[Floats, Floats | None]:
        """Scores and probabilities of a block of photos."""


class Words:
    """Words asked of a model, as its `Query` scores them; without the backbone, so that workers can receive it."""

    def __init__(self, model: PhotoTagger, words: Sequence[str]) -> None:
        query = model.query(words)
        missing = [doubt.sentence for word, doubt in query.doubts.items() if word not in query.names]
        if missing:
            raise ValueError(f"words: {missing[0]} Search with none_of (--not) instead.")
        for doubt in query.doubts.values():
            warnings.warn(doubt.sentence, stacklevel=5)
        self.needs_classes = query.needs_classes
        self._check, self._score = model.tagger._check_images, query._scorer
        self.form = find_form(model.tagger, query.raw_vectors, model.backbone.n_features)

    def columns(self, features: Floats, classes: Floats | None) -> tuple[Floats, Floats | None]:
        """Scores and probabilities of a block of photos."""
        X = features if classes is None or not self.needs_classes else np.hstack([features, classes])
        return self._score(self._check(X))


class Likeness:
    """A photo asked of others, by its features: their cosine."""

    needs_classes = False

    def __init__(self, features: Floats) -> None:
        direction = features.reshape(-1, 1) / (np.linalg.norm(features) or 1.0)
        self.form = StoredScores(direction, np.zeros(1, dtype=np.float32), unit=True)

    @classmethod
    def of_file(cls, photo: str | Path, model: PhotoTagger) -> Likeness:
        """Read a photo."""
        ((path, outputs, problem),) = describe_each([str(photo)], model.backbone, jobs=1)
        if outputs is None:
            raise ValueError(f"like: {path!r} cannot be read: {problem}. Pass an image file.")
        return cls(outputs.features)

    def columns(self, features: Floats, classes: Floats | None) -> tuple[Floats, Floats | None]:
        """Cosines of a block of photos."""
        return self.form.of_values(features), None


Answers = Sequence[tuple[int, int, bool]]  # row, column, and whether the photo shows the word


class Best(NamedTuple):
    """Rows in order, the best first, with their scores and probabilities."""

    rows: NDArray[np.intp]
    scores: Floats
    p: Floats | None

    def first(self, top: int | None) -> Best:
        """The best ones, by probability, then by score, then in the order of the rows."""
        keys = (self.rows, -self.scores) if self.p is None else (self.rows, -self.scores, -self.p)
        return self.select(np.lexsort(keys)[:top])

    def select(self, places: Any) -> Best:
        """Some of the rows."""
        return Best(self.rows[places], self.scores[places], None if self.p is None else self.p[places])


@dataclass(frozen=True)
class Expression:
    """One value per photo from the columns of a query: any of the first, all of the second, none of the third."""

    query: Asked
    any_of: tuple[int, ...] = (0,)
    all_of: tuple[int, ...] = ()
    none_of: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()  # of the words, one per column: see `label_key`

    @classmethod
    def of_words(
        cls, model: PhotoTagger, any_of: Sequence[str], all_of: Sequence[str] = (), none_of: Sequence[str] = ()
    ) -> Expression:
        """Expression of words; spellings of one word are one column."""
        names: dict[str, str] = {}
        for name in (*any_of, *all_of, *none_of):
            names.setdefault(label_key(name), name)
        place = {key: i for i, key in enumerate(names)}
        groups = ([place[label_key(name)] for name in group] for group in (any_of, all_of, none_of))
        with one_thread():  # small products
            words = Words(model, list(names.values()))
        any_columns, all_columns, none_columns = (tuple(dict.fromkeys(group)) for group in groups)
        return cls(words, any_columns, all_columns, none_columns, tuple(names))

    @property
    def is_single(self) -> bool:
        """Whether it is a single word."""
        return len(self.any_of) == 1 and not self.all_of and not self.none_of

    def combine(self, scores: Floats, p: Floats | None) -> tuple[Floats, Floats | None]:
        """Value and probability of each photo; several words have their probability as value."""
        if self.is_single:
            return scores[:, self.any_of[0]], None if p is None else p[:, self.any_of[0]]
        if p is None:
            raise ValueError(
                "any_of, all_of, none_of: this model gives scores, not probabilities. Ask for one word at a time."
            )
        value = 1.0 - np.prod(1.0 - p[:, self.any_of], axis=1)
        value = value * np.prod(p[:, self.all_of], axis=1) * np.prod(1.0 - p[:, self.none_of], axis=1)
        return value, value


def best_rows(
    expression: Expression,
    features: Rows,
    classes: Rows | None,
    wanted: NDArray[np.bool_],
    top: int | None = None,
    min_p: float = 0.0,
) -> Best:
    """The rows with the largest values among those wanted, by probability and then by score.

    Where the scores have a form, only the rows with the best scores (500, or ten times ``top``) get a probability.
    """
    rows, most = np.flatnonzero(wanted), n_candidates(expression, top)
    if most is not None:
        rows, _ = rough_best(expression, features, classes, rows, most)
    return exact_best(expression, features, classes, rows, top, min_p)


def all_rows(
    expression: Expression, features: Rows, classes: Rows | None, wanted: NDArray[np.bool_], n_exact: int
) -> Best:
    """All rows wanted: the ``n_exact`` best as from `best_rows`, then the others by their scores, with p = NaN."""
    rows = np.flatnonzero(wanted)
    if expression.query.form is None or len(rows) <= n_exact:
        return exact_best(expression, features, classes, rows, None, 0.0)
    rows, rough = rough_best(expression, features, classes, rows, len(rows))
    chosen = largest(rough, n_exact)
    best = exact_best(expression, features, classes, rows[chosen], None, 0.0)
    others = Best(np.delete(rows, chosen), np.delete(rough, chosen), None).first(None)
    p = None if best.p is None else np.concatenate([best.p, np.full(len(others.rows), np.nan)])
    return Best(np.concatenate([best.rows, others.rows]), np.concatenate([best.scores, others.scores]), p)


def answered(expression: Expression, best: Best, features: Rows, classes: Rows | None, answers: Answers) -> Best:
    """Rows in order, once what is known of some replaces their probabilities; rows with p = NaN come last."""
    if best.p is None or not answers:
        return best
    rows = np.array(sorted({row for row, *_ in answers}), dtype=np.intp)
    place = {int(row): i for i, row in enumerate(rows)}
    scores, p = (np.concatenate(part) for part in zip(*exact_columns(expression.query, features, classes, rows),
                                                      strict=True))  # fmt: skip
    for row, column, verdict in answers:
        p[place[row], column] = verdict
    values, known = expression.combine(scores, p)
    others = best.select(~np.isin(best.rows, rows))
    parts = ((others.rows, rows), (others.scores, values), (others.p, known))
    return Best(*(np.concatenate(part) for part in parts)).first(None)  # type: ignore[arg-type]


def n_candidates(expression: Expression, top: int | None) -> int | None:
    """Number of rows that get a probability; None for all."""
    return None if expression.query.form is None or top is None else max(CANDIDATES, 10 * top)


def rough_best(
    expression: Expression, features: Rows, classes: Rows | None, rows: NDArray[np.intp], most: int
) -> tuple[NDArray[np.intp], Floats]:
    """Rows with the best scores by the form, and these; several words are combined by their logistic function."""
    form = expression.query.form
    assert form is not None
    if 2 * len(rows) < len(features):  # few: these alone are multiplied
        blocks = [rows[start : start + MOST_COPIED] for start in range(0, len(rows), MOST_COPIED)] or [rows]
        copied = ((features[block], None if classes is None else classes[block]) for block in blocks)
        scores = np.concatenate([form.of_rows(*block) for block in copied])
    else:
        scores = form.of_rows(features, classes)
        scores = scores if len(rows) == len(features) else scores[rows]
    rough, _ = expression.combine(scores, None if expression.is_single else expit(scores))
    chosen = largest(rough, most)
    return rows[chosen], rough[chosen]


def largest(values: Floats, n: int) -> NDArray[np.intp]:
    """Places of the n largest values, in ascending order; of equal values the first."""
    if n >= len(values):
        return np.arange(len(values))
    limit = np.partition(values, len(values) - n)[len(values) - n]
    above, equal = np.flatnonzero(values > limit), np.flatnonzero(values == limit)
    return np.sort(np.concatenate([above, equal[: n - len(above)]]))


def exact_best(
    expression: Expression,
    features: Rows,
    classes: Rows | None,
    rows: NDArray[np.intp],
    top: int | None,
    min_p: float,
) -> Best:
    """Rows in order, by what ``columns`` of the query says."""
    with one_thread() if len(rows) <= BLOCK else nullcontext():  # for a few rows, waking threads takes longer
        blocks = exact_columns(expression.query, features, classes, rows)
        found = [expression.combine(*block) for block in blocks]
    scores, p = np.empty(0), None
    if found:
        scores = np.concatenate([block for block, _ in found])
        p = None if found[0][1] is None else np.concatenate([block for _, block in found])
    if min_p > 0.0 and found:
        if p is None:
            raise ValueError("min_p: this model gives scores, not probabilities. Leave it out.")
        likely = p >= min_p
        rows, scores, p = rows[likely], scores[likely], p[likely]
    return Best(rows, scores, p).first(top)


def exact_columns(
    query: Asked, features: Rows, classes: Rows | None, rows: NDArray[np.intp]
) -> Iterator[tuple[Floats, Floats | None]]:
    """Scores and probabilities of rows, block by block."""
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        logits = decode_rows(classes[block]) if query.needs_classes and classes is not None else None
        yield query.columns(decode_rows(features[block]), logits)


def similar_pairs(
    features: Rows, rows: NDArray[np.intp], cosine: float, progress: Any = None
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Floats]]:
    """Pairs of rows whose features have at least this cosine; a block of products is in memory at a time."""

    def unit(block: NDArray[np.intp]) -> Floats:
        values = decode_rows(features[block])
        lengths = np.linalg.norm(values, axis=1, keepdims=True)
        return values / np.where(lengths > 0.0, lengths, 1.0)

    for start in range(0, len(rows), BLOCK):
        block = unit(rows[start : start + BLOCK])
        for other in range(start, len(rows), BLOCK):
            products = block @ (block if other == start else unit(rows[other : other + BLOCK])).T
            i, j = np.nonzero(np.triu(products, 1) >= cosine if other == start else products >= cosine)
            yield rows[start + i], rows[other + j], products[i, j]
        if progress is not None:
            progress(min(start + BLOCK, len(rows)), len(rows))


def duplicate_groups(
    now: Snapshot, thumbnails: sqlite3.Connection, agreement: float, progress: Any = None
) -> NDArray[np.intp]:
    """Number of a group for each row: near-identical photos, by features and thumbnails, share one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    brightness = cache(partial(_brightness, now.db, thumbnails))
    found = [np.empty((2, 0), dtype=np.intp)]
    for i, j, cosines in similar_pairs(now.features, np.flatnonzero(now.rows()), LEAST_COSINE, progress):
        if len(i):
            first, second = (np.stack([brightness(row) for row in rows.tolist()]) for rows in (i, j))
            correlations = np.einsum("ij,ij->i", first, second)
            same = correlations + COSINE_WEIGHT * cosines >= agreement
            found.append(np.stack([i[same], j[same]]))
    pairs = np.hstack(found)
    shape = (len(now.features), len(now.features))
    graph = coo_array((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=shape)
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.intp)


def _brightness(db: sqlite3.Connection, thumbnails: sqlite3.Connection, row: int) -> Floats:
    """Brightness of 16 x 16 fields of a photo's thumbnail, with mean 0 and length 1."""
    from PIL import Image

    (digest,) = db.execute("SELECT digest FROM images WHERE row = ?", (row,)).fetchone()
    found = thumbnails.execute("SELECT jpeg FROM thumbnails WHERE digest = ?", (digest,)).fetchone()
    if found is None:
        return np.zeros(256)
    with Image.open(BytesIO(found[0])) as image:
        fields = np.asarray(image.convert("L").resize((16, 16), Image.Resampling.BOX), dtype=float).ravel()
    fields = fields - fields.mean()
    return np.asarray(fields / (np.linalg.norm(fields) or 1.0))
