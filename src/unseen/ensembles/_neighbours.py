"""Images that look alike: compact looks of some training images, and the nearest of them to any image."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from unseen.baselines._linear import project, scaled_chunks, unit_rows
from unseen.solvers.rows import row_scale

Matrix = NDArray[np.float64]
Rows = NDArray[np.float32]

MOST_DIRECTIONS = 128  # of the features: more tell no more on VOC2007
ROWS_AT_ONCE = 1024


class Looks(NamedTuple):
    """What an image looks like: ``x directions - middle``, of unit length.

    Attributes
    ----------
    directions : ndarray of shape (n_features, at most 128), float32
        Those in which the features vary most.
    middle : ndarray of shape (at most 128,)
        Mean over the images that the directions were learned from.
    """

    directions: Rows
    middle: Matrix

    def __call__(self, X: Any, *, normalize: bool) -> Rows:
        """Looks of images, a row each."""
        along = project(X, self.directions.astype(np.float64), normalize=normalize)
        return unit_rows(along - self.middle).astype(np.float32)


def learn_looks(X: Any, *, normalize: bool) -> Looks:
    """Directions of the largest singular values of X; no mean is subtracted first, so sparse X stays sparse."""
    if sp.issparse(X):
        rows = sp.csr_array(sp.diags_array(row_scale(X, normalize)) @ X, dtype=np.float32)
    else:
        rows = np.vstack([chunk.astype(np.float32) for _, chunk in scaled_chunks(X, normalize=normalize)])
    n_directions = min(MOST_DIRECTIONS, *rows.shape)
    _, _, across = randomized_svd(rows, n_directions, n_iter=4, random_state=0)
    directions = np.ascontiguousarray(across.T, dtype=np.float32)
    return Looks(directions, project(X, directions.astype(np.float64), normalize=normalize).mean(axis=0))


def nearest(looks: Rows, kept: Rows, n_neighbors: int, *, themselves: bool = False) -> NDArray[np.int32]:
    """Places of the nearest kept images of each image, by the cosine of their looks.

    Parameters
    ----------
    looks : ndarray of shape (n_images, n_directions)
    kept : ndarray of shape (n_kept, n_directions)
    n_neighbors : int
        Below ``n_kept``.
    themselves : bool, default=False
        The images are the kept ones, of which none is its own neighbour.

    Returns
    -------
    ndarray of shape (n_images, n_neighbors), in no order
    """
    found = np.empty((len(looks), n_neighbors), dtype=np.int32)
    for start in range(0, len(looks), ROWS_AT_ONCE):
        cosines = looks[start : start + ROWS_AT_ONCE] @ kept.T
        if themselves:
            rows = np.arange(len(cosines))
            cosines[rows, start + rows] = -np.inf
        best = np.argpartition(-cosines, n_neighbors - 1, axis=1)[:, :n_neighbors]
        found[start : start + ROWS_AT_ONCE] = best
    return found


def shares_of(places: NDArray[np.int32], n_kept: int) -> sp.csr_array:
    """Matrix whose product with values of the kept images is their mean at the places of each row."""
    n_images, n_neighbors = places.shape
    starts = np.arange(0, n_images * n_neighbors + 1, n_neighbors)
    shares = np.full(n_images * n_neighbors, 1.0 / n_neighbors)
    return sp.csr_array((shares, places.ravel(), starts), shape=(n_images, n_kept))
