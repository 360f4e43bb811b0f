"""Scores of photos from stored rows, without decoding them.

Most models have margin scores of the form::

    score(x, l) = n(x) @ weights + offsets + factors * mean_T log(p_T @ affinities + 1e-12) + sqrt(p_1) @ roots

with features x, of length 1 or as they are, and the softmax p_T of class scores l / T, which enter by way of
`BackboneKnowledge`. A model is asked for some scores to find its form, and for others to check it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray
from scipy.special import softmax

from unseen.ensembles.backbone_knowledge import TINY, BackboneKnowledge
from unseen.photos.storage import HEAD, Rows
from unseen.solvers.trees import one_at_a_time

TOLERANCE = 1e-6  # of a form, relative to the scores
N_PROBES = 8
_BLOCK = 256  # rows that a thread takes at a time
Floats = NDArray[Any]  # float32 or float64


class Evidence(NamedTuple):
    """Evidence from class scores at two temperatures, ``temperature`` and that divided by ``power``."""

    affinities: Floats  # (n_classes, n_words)
    factors: Floats
    temperature: float
    power: int
    roots: Floats | None = None  # (n_classes, n_words)

    def logs(self, classes: Floats) -> Floats:
        """Mean logarithms of the evidence at both temperatures."""
        temperatures = self.temperature, self.temperature / self.power
        logs = [np.log(softmax(classes / T, axis=1) @ self.affinities + TINY) for T in temperatures]
        return np.asarray(np.mean(logs, axis=0))

    def of_values(self, classes: Floats) -> Floats:
        """What class scores add to a score."""
        found = self.factors * self.logs(classes)
        return found if self.roots is None else found + np.sqrt(softmax(classes, axis=1)) @ self.roots

    def of_rows(self, rows: Rows) -> NDArray[np.float32]:
        """What stored class scores add to a score."""
        columns = np.ascontiguousarray(self.affinities.T, dtype=np.float32)
        roots = columns[:0] if self.roots is None else np.ascontiguousarray(self.roots.T, dtype=np.float32)
        found = np.empty((len(rows), len(columns)), dtype=np.float32)
        with one_at_a_time:
            _evidence(rows, columns, self.factors.astype(np.float32), roots, self.temperature, self.power, found)
        return found


class StoredScores(NamedTuple):
    """Scores ``n(x) @ weights + offsets`` and evidence; with ``unit``, n scales to length 1."""

    weights: Floats  # (n_features, n_words)
    offsets: Floats
    unit: bool
    evidence: Evidence | None = None

    def of_values(self, features: Floats, classes: Floats | None = None) -> Floats:
        """Scores of features and class scores."""
        scores = features @ self.weights
        if self.unit:
            lengths = np.linalg.norm(features, axis=1, keepdims=True)
            scores = scores / np.where(lengths > 0.0, lengths, 1.0)
        if self.evidence is not None and classes is not None:
            scores = scores + self.evidence.of_values(classes)
        return np.asarray(scores + self.offsets)

    def of_rows(self, features: Rows, classes: Rows | None = None) -> Floats:
        """Scores of stored rows."""
        scores = multiply_rows(features, self.weights, unit=self.unit) + self.offsets.astype(np.float32)
        if self.evidence is not None and classes is not None:
            scores += self.evidence.of_rows(classes)
        return scores


def find_form(tagger: Any, vectors: Floats, n_features: int) -> StoredScores | None:
    """The form of a model's scores for label vectors, or None; X has features, then class scores."""
    M, n_classes = tagger._embed(vectors, "labels"), tagger.n_features_in_ - n_features
    rng = np.random.default_rng(0)
    x = np.abs(rng.normal(size=(N_PROBES, n_features))) * rng.integers(0, 2, size=(N_PROBES, n_features))
    logits = 3.0 * rng.normal(size=(N_PROBES, n_classes))

    def of(X: Floats, L: Floats) -> Floats:
        n = max(len(X), len(L))
        rows = [np.broadcast_to(part, (n, part.shape[1])) for part in (X, L)]
        return np.asarray(tagger._margin_scores(np.hstack(rows), M))

    expected = of(x, logits)
    scale = TOLERANCE * max(1.0, float(np.abs(expected).max()))
    evidence = _find_evidence(tagger, vectors, lambda L: of(x[:1], L), logits) if n_classes else None
    part = _find_linear(lambda X: of(X, logits[:1]), x, scale)
    if part is None:
        return None
    form = StoredScores(part[0], np.zeros(1), part[1], evidence)
    form = form._replace(offsets=expected[0] - form.of_values(x, logits)[0])
    return form if np.abs(form.of_values(x, logits) - expected).max() <= scale else None


def _find_evidence(
    tagger: Any, vectors: Floats, score: Callable[[Floats], Floats], logits: Floats
) -> Evidence | None:
    """What class scores add, if a part of the model knows classes: factors, and roots where these do not suffice.

    An image of class k alone has the score ``factor logs + roots_k + offset``: with these, the scores of other
    images are linear in the factor and the offset.
    """
    while hasattr(tagger, "base_"):  # an `Adapted` adds linear parts to it
        tagger = tagger.base_
    parts = [tagger, *(part for name, part in vars(tagger).items() if name.endswith("_"))]
    knowledge: Any = next((part for part in parts if isinstance(part, BackboneKnowledge)), None)
    scores = score(logits)
    if knowledge is None or not np.ptp(scores, axis=0).any():
        return None
    low, high = sorted(knowledge.temperatures_.tolist())
    if high / low != round(high / low):
        return None
    n_words, n_classes = len(vectors), logits.shape[1]
    affinities = knowledge._affinities(knowledge._embed(vectors, "labels"))
    evidence = Evidence(affinities, np.ones(n_words), high, round(high / low))
    solved = _solve(evidence.logs(logits), np.ones((len(logits), n_words)), scores)
    if solved is not None or low != 1.0:
        return None if solved is None else evidence._replace(factors=solved[0])
    alone = 1000.0 * np.eye(n_classes)
    mixed, logs, of_classes = np.sqrt(softmax(logits, axis=1)), evidence.logs(alone), score(alone)
    ones = 1.0 - mixed.sum(axis=1, keepdims=True) * np.ones(n_words)
    solved = _solve(evidence.logs(logits) - mixed @ logs, ones, scores - mixed @ of_classes)
    if solved is None:
        return None
    return evidence._replace(factors=solved[0], roots=of_classes - solved[0] * logs - solved[1])


def _solve(first: Floats, second: Floats, values: Floats) -> tuple[Floats, Floats] | None:
    """Two coefficients per column with ``values = a first + b second``; None if there are none."""
    found = []
    for x, y, z in zip(first.T, second.T, values.T, strict=True):
        A = np.column_stack([x, y])
        found.append(np.linalg.lstsq(A, z)[0])
        if np.abs(A @ found[-1] - z).max() > TOLERANCE * max(1.0, float(np.abs(z).max())):
            return None
    a, b = np.array(found).T
    return a, b


def _find_linear(score: Callable[[Floats], Floats], rows: Floats, tolerance: float) -> tuple[Floats, bool] | None:
    """Weights of a function that is linear in rows, and whether it takes them as of length 1; None if it is not.

    For x, y of length 1 and z = x + 2 y, ``score(x) + 2 score(y) - |z| score(z)`` is ``(3 - |z|) offset``; without
    the lengths if rows are taken as they are. Pairs must agree on the offset.
    """
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    x, y, z = rows[::2], rows[1::2], rows[::2] + 2.0 * rows[1::2]
    apart, together = score(x) + 2.0 * score(y), score(z)
    lengths = np.minimum(np.linalg.norm(z, axis=1, keepdims=True), 2.999)  # parallel rows are no pair
    for unit, factors in ((True, lengths), (False, np.ones_like(lengths))):
        offsets = (apart - factors * together) / (3.0 - factors)
        if np.ptp(offsets, axis=0).max() <= 10.0 * tolerance:
            return score(np.eye(rows.shape[1])) - offsets[0], unit
    return None


def multiply_rows(rows: Rows, weights: Floats, *, unit: bool) -> NDArray[np.float32]:
    """Products of stored rows, with ``unit`` divided by their lengths, and columns of shape (n_columns, k)."""
    columns = np.ascontiguousarray(weights.T, dtype=np.float32)
    scores = np.empty((len(rows), len(columns)), dtype=np.float32)
    with one_at_a_time:
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


@njit(cache=True, nogil=True, parallel=True, fastmath={"reassoc", "contract"})
def _evidence(rows: Any, columns: Any, factors: Any, roots: Any, temperature: Any, power: Any, found: Any) -> None:
    n, n_classes = rows.shape[0], columns.shape[1]
    for block in prange((n + _BLOCK - 1) // _BLOCK):
        # A code has the weight exp(step (code - 255) / T), by a table; the lower temperature is a power of it.
        table, warm, cold = (
            np.empty(256, np.float32),
            np.empty(n_classes, np.float32),
            np.empty(n_classes, np.float32),
        )
        for i in range(block * _BLOCK, min(n, (block + 1) * _BLOCK)):
            ratio = np.float32(np.exp(-rows[i, :HEAD].view(np.float32)[0] / temperature))
            table[255], table[254] = 1.0, ratio
            for q in range(253, -1, -1):  # two steps at a time: shorter chains of products
                table[q] = table[q + 2] * ratio * ratio
            codes = rows[i, HEAD:]
            for j in range(n_classes):
                warm[j] = table[codes[j]]
            cold[:] = warm
            for _ in range(power - 1):
                for j in range(n_classes):
                    cold[j] *= warm[j]
            warm_total, cold_total = np.float32(0.0), np.float32(0.0)
            for j in range(n_classes):
                warm_total += warm[j]
                cold_total += cold[j]
            for k in range(columns.shape[0]):
                column = columns[k]
                warm_sum, cold_sum = np.float32(0.0), np.float32(0.0)
                for j in range(n_classes):
                    warm_sum += warm[j] * column[j]
                    cold_sum += cold[j] * column[j]
                logs = np.log(warm_sum / warm_total + TINY) + np.log(cold_sum / cold_total + TINY)
                found[i, k] = factors[k] * 0.5 * logs
            for k in range(roots.shape[0]):
                root, root_sum = roots[k], np.float32(0.0)
                for j in range(n_classes):
                    root_sum += np.sqrt(cold[j]) * root[j]
                found[i, k] += root_sum / np.sqrt(cold_total)
