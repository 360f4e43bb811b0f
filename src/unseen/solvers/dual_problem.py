"""The max-margin problem as the solvers over projections see it: one label kernel after another."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unseen.solvers.dual import DualSolution, least_scale, solve_dual
from unseen.solvers.duals import SparseDuals, within_caps
from unseen.solvers.images import Images

Matrix = NDArray[np.float64]


class Moments(NamedTuple):
    """What a label kernel has to know of Psi: ``gain = <Psi, T>`` and ``sums = Psi'X`` of shape (n_seen, d)."""

    gain: float
    sums: Matrix


class DualProblem(Protocol):
    """Psi of the training images, which may be on this machine or on others."""

    least_scale: float  # see `unseen.solvers.dual.least_scale`

    def solve(self, K: Matrix, tol: float) -> DualSolution:
        """Maximise the dual for the label kernel K from the present Psi, to a gap of ``tol``."""

    def moments(self) -> Moments:
        """Return the moments of the present Psi."""

    def tocsr(self) -> sp.csr_array:
        """Psi as a CSR matrix of shape (n_images, n_seen)."""

    def replace(self, psi: sp.csr_array) -> None:
        """Begin at this Psi."""


class LocalDual:
    """All images on this machine."""

    def __init__(self, images: Images, T: NDArray[np.int8], beta: float, rng: np.random.Generator) -> None:
        self._images, self._T, self._beta, self._rng = images, T, beta, rng
        self._duals = SparseDuals(*T.shape)
        self.least_scale = least_scale(T)

    def solve(self, K: Matrix, tol: float) -> DualSolution:
        """Maximise the dual for the label kernel K from the present Psi, to a gap of ``tol``."""
        return solve_dual(self._images, self._T, K, self._beta, self._duals, self._rng, tol=tol)

    def moments(self) -> Moments:
        """Return the moments of the present Psi."""
        psi = self._duals.tocsr()
        return Moments(float(np.abs(psi.data).sum()), self._images.gather(psi).T)

    def tocsr(self) -> sp.csr_array:
        """Psi as a CSR matrix of shape (n_images, n_seen)."""
        return self._duals.tocsr()

    def replace(self, psi: sp.csr_array) -> None:
        """Begin at this Psi, or at what is feasible of it: it may be that of other targets."""
        self._duals.replace(within_caps(psi, self._T))
