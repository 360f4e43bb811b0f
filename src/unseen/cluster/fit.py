"""Training on the workers of a Dask cluster: rounds of CoCoA+, with the true duality gap.

In a round every part k of the images ascends, from a common V, on the model

    ``<dPsi, T> - beta <V, dV_k> - sigma beta/2 |dV_k|^2``,   ``dV_k = X_k' dPsi_k A / beta``,

which is the row problem with ``beta / sigma`` in place of beta: its V moves by ``sigma dV_k``. With ``sigma`` the
number of parts the sum of all moves never overshoots. Each step is a Dask task without side effects: when a worker
is lost, Dask repeats the tasks whose results it held, since the last copy of the duals. Workers keep dense images
and targets in files and read some thousand rows at a time. See docs/scale.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain, cycle, islice, pairwise
from operator import add, itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from unseen import validation
from unseen.cluster.score import current_client, gathered, is_dask, known_rows, wait_for
from unseen.solvers import dual as dual_solver
from unseen.solvers.dual import Ascent, DualProblem, DualSolution, LabelKernel, SparseDuals, TrainingImages
from unseen.solvers.rows import Floats, Rows, advise, read_chunks, row_scale
from unseen.validation import Annotations, Matrix, Targets, as_targets, check_annotations, check_targets

Future = Any  # from distributed, an optional dependency

CHECK_EVERY = 5  # rounds between exact gaps while the running estimate is above the tolerance
CHECKPOINT_EVERY = 20
FAN_IN = 8  # terms that one task adds
BLOCK = 2**23  # bytes that are copied at a time


class Stored:
    """An array in a nameless file on the disk of this worker, whose pages are read as needed.

    Where Dask sends it, or loads it again, it becomes such a file, which lives no longer than the array.
    """

    folder: str | None = None  # the worker's, once it is known; temporary otherwise

    def __init__(self, blocks: Iterable[Any], shape: tuple[int, ...], dtype: Any) -> None:
        from distributed import get_worker

        with suppress(ValueError):  # not in a task
            Stored.folder = get_worker().local_directory
        if Stored.folder is not None and not Path(Stored.folder).is_dir():  # of a worker that has ended
            Stored.folder = None
        with tempfile.TemporaryFile(dir=Stored.folder) as file:
            self.array = np.memmap(file, dtype, "w+", shape=shape)
        start = 0
        for block in blocks:
            for rows, values in self._chunks(block):
                own = slice(start + rows.start, start + rows.stop)
                self.array[own] = values
                advise(self.array, own, "MADV_DONTNEED")
            start += len(block)

    def release(self) -> None:
        """Take the pages that were read out of memory; they stay in the file."""
        advise(self.array, slice(0, len(self.array)), "MADV_DONTNEED")

    def copy(self) -> NDArray[Any]:
        """The array in memory."""
        values = np.empty(self.array.shape, self.array.dtype)
        for rows, part in self._chunks(self.array):
            values[rows] = part
        return values

    @staticmethod
    def _chunks(array: Any) -> Iterator[tuple[slice, Any]]:
        return read_chunks(array, size=max(1, BLOCK * len(array) // max(1, array.nbytes)))

    def __reduce__(self) -> tuple[Any, ...]:
        values = self.copy()  # the pages of the map would stay in memory
        return Stored, ((values,), values.shape, values.dtype)


class StoredDuals:
    """Psi of a part, in a file between the tasks that use it."""

    def __init__(self, psi: sp.csr_array) -> None:
        arrays = psi.data, psi.indptr, psi.indices  # the largest numbers first, so that all are aligned
        self._shape, self._kinds = psi.shape, [(array.dtype, array.nbytes) for array in arrays]
        self._bytes = Stored(
            [array.view(np.uint8) for array in arrays], (sum(n for _, n in self._kinds),), np.uint8
        )

    def read(self) -> sp.csr_array:
        """Psi in memory."""
        everything, ends = self._bytes.copy(), np.cumsum([n for _, n in self._kinds])
        parts = zip(np.split(everything, ends[:-1]), self._kinds, strict=True)
        data, indptr, indices = (part.view(dtype) for part, (dtype, _) in parts)
        return sp.csr_array((data, indices, indptr), shape=self._shape)


class StoredImages(TrainingImages):
    """Training images, with the features (unless they are sparse) and the targets in files."""

    def __init__(self, X: Any, scale: Any, T: Stored, weights: Any, is_mean: bool) -> None:
        self._arguments = X, scale, T, weights, is_mean
        rows = Rows(X.array if isinstance(X, Stored) else X, scale)
        super().__init__(rows, np.asarray(T.array), weights, is_mean=is_mean)
        self.release()

    def release(self) -> None:
        """Take the features and targets that were read out of memory."""
        for stored in (self._arguments[0], self._arguments[2]):
            if isinstance(stored, Stored):
                stored.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredImages, self._arguments


@dataclass(frozen=True)
class Parts:
    """Training images on the workers: futures of `StoredImages`."""

    client: Any
    futures: list[Future]
    sizes: list[int]  # images of each part
    shape: tuple[int, int]  # images and features
    n_seen: int
    dtype: np.dtype[Any]
    total_weight: float
    annotated_weight: float
    least_scale: float

    def homes(self) -> list[str | None]:
        """The worker that has each part at the moment."""
        holders = self.client.who_has(self.futures)
        return [min(holders[future.key], default=None) for future in self.futures]


def check_dask_images(estimator: Any, X: Any) -> Any:
    """A Dask array or data frame as an array in chunks of whole rows; the estimator learns its feature names."""
    names = X._meta if hasattr(X, "columns") else None
    X = known_rows(X, "X")
    if X.ndim != 2 or X.shape[0] == 0:
        raise ValueError(f"X: its shape is {X.shape}. Pass a matrix (n_images, n_features).")
    validate_data(estimator, np.empty((0, X.shape[1])) if names is None else names, skip_check_array=True)
    return X


def spread(
    X: Any, Y: Any, *, normalize: bool, part_size: int, is_mean: bool, weights: Any = None
) -> tuple[Parts, Annotations]:
    """Put images, targets and weights on the workers of the current cluster, in parts of about ``part_size`` rows.

    X is a validated local matrix, or a Dask array as returned by `known_rows`. The annotations have no rows.
    """
    client = current_client()
    import dask

    if not client.nthreads():
        raise ValueError("engine: the Dask cluster has no workers. Wait for some: client.wait_for_workers(1)")
    n_images = X.shape[0]
    T, annotations = _targets(Y, n_images)
    weights = np.ones(n_images) if weights is None else weights
    # Parts depend on the data and the parameter alone, as workers come and go.
    edges = np.linspace(0, n_images, -(-n_images // part_size) + 1).astype(int)
    sizes, dtype = np.diff(edges).tolist(), np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    # Each part goes to the next worker, which reads its images itself.
    homes, futures = [*islice(cycle(client.nthreads()), len(sizes))], []
    is_sparse = sp.issparse(X._meta if is_dask(X) else X)
    _compile(np.ones((2, X.shape[1]), dtype), annotations.T.shape[1], normalize, is_mean, is_sparse=is_sparse)
    store = partial(store_images, dtype=dtype)
    # Tasks may carry a part of X, so that Dask can repeat them.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
        for home, (start, stop) in zip(homes, pairwise(edges.tolist()), strict=True):
            images = _pieces(client, home, store, X, start, stop)
            targets = _pieces(client, home, store_targets, T, start, stop)
            own = weights[start:stop], start, normalize, is_mean, dtype
            futures.append(_submit(client, home, make_part, images, targets, *own))
    summaries = [_submit(client, home, _summary, part) for home, part in zip(homes, futures, strict=True)]
    n_positive, *sums = np.sum(gathered(client, summaries), axis=0).tolist()
    if n_positive == 0:
        check_targets(np.zeros((1, 1)), "Y")  # raises: there is nothing to learn
    return Parts(client, futures, sizes, X.shape, annotations.T.shape[1], dtype, *sums), annotations


def _targets(Y: Any, n_images: int) -> tuple[Any, Annotations]:
    """Targets as a NumPy or Dask array, and annotations without rows."""
    names = validation.axis_names(Y.columns, "Y") if hasattr(Y, "columns") else None
    Y = known_rows(Y, "Y") if is_dask(Y) else Y
    if not is_dask(Y) or Y.ndim != 2:
        # The classes of a vector are known only after reading all of it.
        annotations = check_annotations(Y.compute() if is_dask(Y) else Y, n_images)
        return annotations.T, annotations._replace(T=annotations.T[:0])
    if Y.shape[0] != n_images:
        raise ValueError(f"Y: its shape is {Y.shape} for {n_images} images. Pass one row per image.")
    no_rows = np.empty((0, Y.shape[1]), dtype=np.int8)
    return Y.map_blocks(as_targets, need_positive=False, dtype=np.int8), Annotations(no_rows, names, None)


def _pieces(client: Any, home: str, store: Callable[..., Any], array: Any, start: int, stop: int) -> list[Future]:
    """Some rows of an array, each chunk stored by a task of its own on the worker that needs them.

    Dask joins the tasks that read a chunk with the one that stores it, so that no chunk waits in memory; and what
    a task carries is in memory as long as its result.
    """
    if not is_dask(array):
        return [_submit(client, home, store, array[start:stop], start)]
    stored = array[start:stop].map_blocks(store, start, dtype=array.dtype, meta=array._meta)
    tasks = [task for task, size in zip(stored.to_delayed().ravel(), stored.chunks[0], strict=True) if size]
    return list(client.compute(tasks, workers=home, allow_other_workers=True))


def _submit(client: Any, home: str | None, function: Callable[..., Any], *arguments: Any) -> Future:
    """Submit a task to a given worker, or to another if that one is lost."""
    return client.submit(function, *arguments, pure=False, workers=home, allow_other_workers=home is not None)


def store_images(X: Any, start: int, dtype: np.dtype[Any], block_info: Any = None) -> Any:
    """Validate a chunk of the images from row ``start`` on; dense ones go to a file."""
    try:
        X = check_array(X, accept_sparse="csr", dtype=dtype, order="C", input_name="X", copy=sp.issparse(X))
    except ValueError as error:
        first = start + (block_info[0]["array-location"][0][0] if block_info else 0)
        raise ValueError(f"{error} (In the chunk that starts at row {first}.)") from None
    return X if sp.issparse(X) else Stored([X], X.shape, dtype)


def store_targets(T: Targets, start: int) -> Stored:
    """Put a chunk of the targets into a file."""
    return Stored([T], T.shape, T.dtype)


def joined(pieces: list[Stored]) -> Stored:
    """The rows of all pieces in one file."""
    arrays = [piece.array for piece in pieces]
    return Stored(arrays, (sum(map(len, arrays)), *arrays[0].shape[1:]), arrays[0].dtype)


def make_part(
    pieces: list[Any], targets: list[Stored], weights: Any, first: int, normalize: bool, is_mean: bool,
    dtype: np.dtype[Any],
) -> StoredImages:  # fmt: skip
    """The images of one part, which starts at row ``first``."""
    X: Any
    if sp.issparse(pieces[0]):
        X = values = sp.csr_array(sp.vstack(pieces, format="csr", dtype=dtype))
        X.sum_duplicates()
    else:
        X = joined(pieces)
        values = X.array
    try:
        scale = row_scale(values, normalize)
    except ValueError as error:
        raise ValueError(f"{error} (In the part that starts at row {first}.)") from None
    return StoredImages(X, scale, joined(targets), weights, is_mean)


def _compile(X: Any, n_seen: int, normalize: bool, is_mean: bool, *, is_sparse: bool) -> None:
    """Run what the workers will run, so that they find it compiled in the cache: compiling takes memory."""
    T, kernel = np.ones((2, n_seen), dtype=np.int8), LabelKernel(np.ones((n_seen, 1)))
    T[0, 0] = -1
    images = store_images(sp.csr_array(X) if is_sparse else X, 0, X.dtype)
    part = make_part([images], [store_targets(T, 0)], np.ones(2), 0, normalize, is_mean, X.dtype)
    start, V = start_round(part, StoredDuals(sp.csr_array((2, n_seen)))), np.zeros((X.shape[1], 1), X.dtype)
    moments(part, ascend(part, start, [0, 0, 0], 1.0, V, kernel, 1.0, 1.0, 1.0, 1e-3), 1.0, kernel)
    part_loss(part, V, kernel, 1.0)


def _summary(part: StoredImages) -> tuple[float, ...]:
    n_positive = float((part.T > 0).sum())
    part.release()
    return n_positive, float(part.weights.sum()), part.annotated_weight, part.least_scale


class ClusterDual(DualProblem):
    """Psi, each part stored with its images; it starts at zero."""

    def __init__(self, parts: Parts, beta: float, rng: np.random.Generator) -> None:
        self.least_scale = parts.least_scale
        self.n_rounds = 0
        self._parts, self._beta, self._seed = parts, beta, int(rng.integers(2**32))
        self._homes = parts.homes()
        self.replace(sp.csr_array((parts.shape[0], parts.n_seen)))

    def solve(self, kernel: LabelKernel, tol: float, max_epochs: int = dual_solver.MAX_EPOCHS) -> DualSolution:  # noqa: D102
        shared = self._one(LabelKernel, kernel.A)
        primal, dual, V = self._primal_and_dual(shared)
        trace = [(primal, dual)]
        row_tol, n_rounds, doubt, pace = 1e-3, 0, 1.0, 1.0
        while primal - dual > tol * max(primal, self.least_scale) and n_rounds < max_epochs:
            last_pace, pace = pace, 0.5 * (1.0 + float(np.sqrt(1.0 + 4.0 * pace**2)))
            V, estimate = self._round(shared, V, (last_pace - 1.0) / pace, row_tol)
            n_rounds += 1
            pace = pace if self._step == 1.0 else 1.0
            row_tol = min(row_tol, max(0.1 * estimate / self._parts.total_weight, 1e-12))
            if doubt * estimate <= tol * max(primal, self.least_scale) or n_rounds % CHECK_EVERY == 0:
                if self.n_rounds - self._last_checkpoint >= CHECKPOINT_EVERY:
                    self._begin(self._copied_rounds())
                primal, dual, V = self._primal_and_dual(shared)
                trace.append((primal, dual))
                doubt = max((primal - dual) / estimate, 1.0) if estimate > 0.0 else 1.0
        return DualSolution(primal, dual, n_rounds, tuple(trace))

    def moments(self, C: Matrix | None = None) -> tuple[float, Matrix]:  # noqa: D102
        factor = () if C is None else (self._one(LabelKernel, C),)
        shares = self._each(moments, self._parts.futures, self._rounds, common=(self._step, *factor))
        (total,) = gathered(self._parts.client, [self._one(add_all, self._narrowed(shares))])
        return total  # type: ignore[no-any-return]

    def tocsr(self) -> sp.csr_array:  # noqa: D102
        copies = [self._copies(some) for some in self._in_turn()]
        return sp.csr_array(sp.vstack([psi for psi, _ in chain.from_iterable(copies)], format="csr"))

    def snapshot(self) -> Callable[[], None]:  # noqa: D102
        return partial(vars(self).update, _rounds=self._rounds, _step=self._step)

    def replace(self, psi: sp.csr_array) -> None:  # noqa: D102
        edges = np.cumsum([0, *self._parts.sizes])
        stored = self._each(StoredDuals, [psi[a:b] for a, b in pairwise(edges)])
        self._begin(self._each(start_round, self._parts.futures, stored))

    def _begin(self, rounds: list[Future]) -> None:
        self._rounds = rounds
        self._step = 1.0  # fraction of the last round's move that was taken
        self._last_checkpoint = self.n_rounds

    def _in_turn(self) -> Iterator[slice]:
        """As many parts at a time as there are workers, which need not have the copies of all at once."""
        n_parts, most = len(self._homes), len(set(self._homes))
        return (slice(start, start + most) for start in range(0, n_parts, most))

    def _copies(self, some: slice) -> list[tuple[sp.csr_array, sp.csr_array]]:
        tasks = self._each(settled, self._rounds[some], common=(self._step,), some=some)
        return gathered(self._parts.client, tasks)

    def _copied_rounds(self) -> list[Future]:
        """The last rounds, from copies of their duals: what was before them need not be done again."""
        rounds, self._homes = list[Future](), self._parts.homes()  # workers may have come and gone
        for some in self._in_turn():
            both = zip(*self._copies(some), strict=True)
            stored = [self._each(StoredDuals, psi, some=some) for psi in both]
            rounds += self._each(copied_round, *stored, some=some)
            wait_for(self._parts.client, rounds)
        return rounds

    def _round(self, kernel: Future, V: Future, momentum: float, row_tol: float) -> tuple[Future, float]:
        """Let every part ascend from the common V; return the next V and an estimate of the gap."""
        self.n_rounds += 1
        seeds = [[self._seed, self.n_rounds, k] for k in range(len(self._rounds))]
        common = (self._step, V, kernel, self._beta, float(len(self._rounds)), momentum, row_tol)
        self._rounds = self._each(ascend, self._parts.futures, self._rounds, seeds, common=common)
        moves = self._narrowed(self._each(itemgetter(3), self._rounds))
        advanced = self._one(advance, V, moves, self._beta)
        ((self._step, estimate),) = gathered(self._parts.client, [self._one(itemgetter(1), advanced)])
        return self._one(itemgetter(0), advanced), estimate

    def _primal_and_dual(self, kernel: Future) -> tuple[float, float, Future]:
        """Both objectives at ``V(Psi)``, which is computed from the duals, and that V."""
        shares = self._each(moments, self._parts.futures, self._rounds, common=(self._step, kernel))
        made = self._one(make_V, self._narrowed(shares), self._beta, self._parts.dtype)
        V = self._one(itemgetter(0), made)
        losses = self._each(part_loss, self._parts.futures, common=(V, kernel, self._beta))
        (gain, regulariser), *lost = gathered(self._parts.client, [self._one(itemgetter(1), made), *losses])
        return sum(lost) + regulariser, gain - regulariser, V

    def _one(self, function: Callable[..., Any], *arguments: Any) -> Future:
        return _submit(self._parts.client, None, function, *arguments)

    def _each(
        self, function: Callable[..., Any], *by_part: Any, common: tuple[Any, ...] = (), some: slice = slice(None)
    ) -> list[Future]:
        """One task per part (or some), on its worker, with its own arguments and the common ones."""
        by_home = zip(self._homes[some], *by_part, strict=True)
        return [_submit(self._parts.client, home, function, *own, *common) for home, *own in by_home]

    def _narrowed(self, terms: list[Future]) -> list[Future]:
        """Add tuples in a tree until few are left."""
        while len(terms) > FAN_IN:
            terms = [self._one(add_all, terms[i : i + FAN_IN]) for i in range(0, len(terms), FAN_IN)]
        return terms


class Round(NamedTuple):
    """Psi of a part before and after a round, and ``found``, which is ``after`` without momentum.

    ``move`` is sent to the client: the change of V, the first-order gain of the dual
    ``<dPsi, T> - beta <V, dV>``, and the sum of the gaps of the rows when they were visited.
    """

    before: StoredDuals
    after: StoredDuals
    found: StoredDuals
    move: tuple[Floats, float, float] | None = None


def start_round(part: StoredImages, psi: StoredDuals) -> Round:
    """The feasible part of a Psi, as the outcome of a round."""
    feasible = StoredDuals(part.within_caps(psi.read()))
    return Round(feasible, feasible, feasible)


def copied_round(psi: StoredDuals, found: StoredDuals) -> Round:
    """What `settled` returned, as the outcome of a round."""
    return Round(psi, psi, found)


def ascend(
    part: StoredImages, last: Round, seed: list[int], step: float, V: Floats, kernel: LabelKernel, beta: float,
    sigma: float, momentum: float, row_tol: float,
) -> Round:  # fmt: skip
    """Visit the rows of one part once, from a common V, and add momentum."""
    before, last_found = settled(last, step)
    duals, local = SparseDuals(*before.shape), V.copy()
    duals.replace(before)
    problems = part.row_problems(kernel, beta / sigma)
    estimate = Ascent(part.rows, problems, duals).visit_all(local, np.random.default_rng(seed), row_tol)
    found = after = duals.tocsr()
    change = (local - V) / V.dtype.type(sigma)
    if momentum > 0.0:
        after = part.within_caps(sp.csr_array(found + momentum * (found - last_found)))
        change = (part.rows.gather((after - before) @ kernel.A) / beta).astype(V.dtype)
    part.release()
    linear = float(abs(after).sum() - abs(before).sum()) - beta * _product(V, change)
    kept = last.after if step == 1.0 else StoredDuals(before)
    return Round(kept, StoredDuals(after), StoredDuals(found), (change, linear, estimate))


def settled(outcome: Round, step: float) -> tuple[sp.csr_array, sp.csr_array]:
    """Psi of a part after the step that was taken, and what its last ascent had found."""
    after, found = outcome.after.read(), outcome.found.read()
    if step == 1.0:
        return after, found
    return sp.csr_array((1.0 - step) * outcome.before.read() + step * after), found


def advance(V: Floats, moves: list[Any], beta: float) -> tuple[Floats, tuple[float, float]]:
    """Take the best step along the summed moves, of length at most 1: longer ones may violate the caps.

    The dual along them is a parabola, so it never falls. Returns the next V; the step, and the gap estimate.
    """
    change, linear, estimate = add_all(moves)
    squared = _product(change, change)
    step = float(np.clip(linear / (beta * squared), 0.0, 1.0)) if squared > 0.0 else 1.0
    return np.ascontiguousarray(V + V.dtype.type(step) * change), (step, estimate)


def moments(part: StoredImages, outcome: Round, step: float, kernel: LabelKernel | None = None) -> Any:
    """``<Psi, T>`` of a part, and its share of ``Psi'X``, or of ``A'Psi'X`` with a label kernel."""
    psi, _ = settled(outcome, step)
    share = part.rows.gather(psi if kernel is None else psi @ kernel.A).T
    part.release()
    return float(abs(psi).sum()), share


def make_V(shares: list[Any], beta: float, dtype: np.dtype[Any]) -> tuple[Floats, tuple[float, float]]:  # noqa: N802
    """``V(Psi)`` in the dtype of the images; ``<Psi, T>`` and ``beta/2 |V|^2``."""
    gain, sums = add_all(shares)
    V = sums.T / beta
    return np.ascontiguousarray(V, dtype=dtype), (gain, 0.5 * beta * float(np.vdot(V, V)))


def part_loss(part: StoredImages, V: Floats, kernel: LabelKernel, beta: float) -> float:
    """The part's share of the losses at V."""
    lost = dual_solver.loss(part.rows, part.row_problems(kernel, beta), V)
    part.release()
    return lost


def add_all(terms: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Sum of tuples of arrays and numbers, entry by entry."""
    return tuple(reduce(add, entries) for entries in zip(*terms, strict=True))


def _product(a: Floats, b: Floats) -> float:
    """``<a, b>`` in double precision: single would lose the small differences that determine steps."""
    return float(np.einsum("ij,ij->", a, b, dtype=np.float64))
