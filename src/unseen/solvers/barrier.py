"""A barrier for compiled loops that run in several threads at once, without the interpreter.

The threads of a sweep meet thousands of times a second: a barrier of the standard library, which goes through the
interpreter, would cost more than the work between two meetings.
"""

# mypy: disable-error-code="no-untyped-def, misc, call-arg, var-annotated"
# compiled kernels: numba infers the types

import ctypes
import sys

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

SPINS = 2000  # looks at the counter before the processor is offered to others: about a microsecond
ARRIVED, MEETINGS, GIVEN_UP = 0, 8, 16  # places in the array, on cache lines of their own


def make_barrier() -> NDArray[np.int64]:
    """Memory of one barrier."""
    return np.zeros(24, dtype=np.int64)


def give_up(barrier: NDArray[np.int64]) -> None:
    """Let those who wait go on, and nobody wait any more: a thread will not come."""
    barrier[GIVEN_UP] = 1


def _pointer(context, builder, array_type, array, place):
    view = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, view, [place])


@intrinsic
def _atomic_add(typing_context, array, place, amount):
    """Add to ``array[place]`` as one indivisible step; return the value before."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.atomic_rmw("add", pointer, arguments[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), generate


@intrinsic
def _atomic_load(typing_context, array, place):
    """Read ``array[place]`` afresh: what others wrote before they changed it is visible afterwards."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.load_atomic(pointer, "seq_cst", 8)

    return types.int64(array, types.intp), generate


if sys.platform != "win32" and hasattr(ctypes.CDLL(None), "sched_yield"):
    _offer_processor = types.ExternalFunction("sched_yield", types.int32())
else:

    @njit(cache=True)
    def _offer_processor():
        return 0


@njit(cache=True)
def meet(barrier, n_threads):
    """Wait until all threads are here; False if the meeting was given up."""
    meeting = _atomic_load(barrier, MEETINGS)
    if _atomic_add(barrier, ARRIVED, 1) == n_threads - 1:
        _atomic_add(barrier, ARRIVED, -n_threads)
        _atomic_add(barrier, MEETINGS, 1)
        return True
    spins = 0
    while _atomic_load(barrier, MEETINGS) == meeting:
        if _atomic_load(barrier, GIVEN_UP) != 0:
            return False
        spins += 1
        if spins > SPINS:
            _offer_processor()
    return True
