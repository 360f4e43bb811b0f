"""The dual variables Psi of all images, of which few are non-zero."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from unseen.solvers.sweep import DualArrays

FIRST_SLOTS = 16


class SparseDuals:
    """The rows of Psi, of which few entries are non-zero: ``count[i]`` pairs (label, value) for image ``i``."""

    def __init__(self, n_images: int, n_labels: int) -> None:
        slots = min(FIRST_SLOTS, n_labels)
        self.n_labels = n_labels
        self.index = np.zeros((n_images, slots), dtype=np.int32)
        self.value = np.zeros((n_images, slots))
        self.count = np.zeros(n_images, dtype=np.int32)

    @property
    def arrays(self) -> DualArrays:
        """The arrays themselves, for the kernels."""
        return DualArrays(self.index, self.value, self.count)

    def make_room(self) -> None:
        """Double the number of slots."""
        n_images, slots = self.index.shape
        more = min(2 * slots, self.n_labels) - slots
        self.index = np.hstack([self.index, np.zeros((n_images, more), dtype=np.int32)])
        self.value = np.hstack([self.value, np.zeros((n_images, more))])

    def total(self) -> float:
        """Sum of the absolute values, ``<Psi, T>``."""
        held = np.arange(self.index.shape[1]) < self.count[:, None]
        return float(np.abs(self.value[held]).sum())

    def replace(self, psi: sp.csr_array) -> None:
        """Take over the non-zeros of a CSR matrix."""
        counts = np.diff(psi.indptr)
        while counts.max(initial=0) > self.index.shape[1]:
            self.make_room()
        self.count[:] = counts
        held = np.arange(self.index.shape[1]) < self.count[:, None]
        self.index[held], self.value[held] = psi.indices, psi.data

    def tocsr(self) -> sp.csr_array:
        """Psi as a CSR matrix of shape (n_images, n_labels)."""
        held = np.arange(self.index.shape[1]) < self.count[:, None]
        indptr = np.concatenate([[0], np.cumsum(self.count, dtype=np.int64)])
        shape = (len(self.count), self.n_labels)
        return sp.csr_array((self.value[held], self.index[held], indptr), shape=shape)


def within_caps(psi: sp.csr_array, T: np.typing.NDArray[np.int8]) -> sp.csr_array:
    """Psi without entries of the wrong sign, and each side of a row shortened to a sum of at most one."""
    rows = np.repeat(np.arange(psi.shape[0]), np.diff(psi.indptr))
    signs = T[rows, psi.indices]
    sizes = np.maximum(psi.data * signs, 0.0)
    for side in (1, -1):
        held = signs == side
        sums = np.bincount(rows[held], sizes[held], psi.shape[0])
        sizes[held] /= np.maximum(sums, 1.0)[rows[held]]
    result = sp.csr_array((sizes * signs, psi.indices, psi.indptr), shape=psi.shape)
    result.eliminate_zeros()
    return result
