"""A reader of PyTorch's old weight files that can build arrays and nothing else.

Such a file is a program for a stack machine (a pickle), followed by the numbers. The usual reader runs whatever
the program names. This one knows the few instructions that a table of arrays needs, and refuses all others.
"""

from __future__ import annotations

import io
import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["UnsafeWeightsError", "read_weights"]

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_MARK = object()
_CODES = {opcode.code: opcode for opcode in pickletools.opcodes}


class UnsafeWeightsError(ValueError):
    """The file holds something other than a table of arrays."""


@dataclass(frozen=True)
class _Global:
    """A name that a file may mention; it stands for itself and cannot be called."""

    name: str


class _Storage(NamedTuple):
    """Numbers that lie further back in the file: their key, their type and how many they are."""

    key: str
    dtype: str
    n_numbers: int


class _Tensor(NamedTuple):
    """An array as a window on a storage."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


_DICT = _Global("collections OrderedDict")
_TENSOR = _Global("torch._utils _rebuild_tensor_v2")
_STORAGES = {_Global("torch FloatStorage"): "<f4", _Global("torch LongStorage"): "<i8"}
_GLOBALS = {item.name: item for item in (_DICT, _TENSOR, *_STORAGES)}


def read_weights(path: str | Path) -> dict[str, NDArray[Any]]:
    """Arrays of a weight file by their names; no code in the file is run.

    Parameters
    ----------
    path : str or pathlib.Path
        A file that ``torch.save`` of PyTorch before 1.6 wrote from a model's ``state_dict()``.

    Returns
    -------
    dict of str to ndarray
        Read-only arrays of float32 or int64.

    Raises
    ------
    UnsafeWeightsError
        If the file asks for anything but arrays, is cut short or contradicts itself.
    FileNotFoundError
        If there is no such file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no weight file {str(path)!r}. Pass one that exists.")
    try:
        return _read(path.read_bytes())
    # What a stack machine and the decoder raise on a broken program.
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise UnsafeWeightsError(
            f"path: {str(path)!r} is not a plain table of weights ({error}). "
            f"Nothing in it was run. Pass an unmodified file."
        ) from error


def _read(content: bytes) -> dict[str, NDArray[Any]]:
    if content[:2] == b"PK":
        raise UnsafeWeightsError("it is a zip archive, not the format before PyTorch 1.6")
    stream = io.BytesIO(content)
    if _Machine().run(stream) != _MAGIC or _Machine().run(stream) != _PROTOCOL:
        raise UnsafeWeightsError("it does not begin as a weight file does")
    system = _Machine().run(stream)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise UnsafeWeightsError("it was not written by a little-endian machine")
    machine = _Machine()
    table, keys = machine.run(stream), _Machine().run(stream)
    if not isinstance(table, dict) or not all(isinstance(tensor, _Tensor) for tensor in table.values()):
        raise UnsafeWeightsError("it is not a table of arrays")
    numbers = _read_storages(content, stream.tell(), keys, machine.storages)
    return {name: _window(name, tensor, numbers[tensor.storage.key]) for name, tensor in table.items()}


def _read_storages(
    content: bytes, start: int, keys: Any, storages: dict[str, _Storage]
) -> dict[str, NDArray[Any]]:
    """Numbers of every storage: after a count of eight bytes each, in the order of ``keys``."""
    if not isinstance(keys, list) or sorted(keys) != sorted(storages):
        raise UnsafeWeightsError("its list of storages differs from those its arrays use")
    numbers = {}
    for key in keys:
        _, dtype, n_numbers = storages[key]
        end = start + 8 + n_numbers * np.dtype(dtype).itemsize
        if end > len(content):
            raise UnsafeWeightsError(f"it ends before the numbers of storage {key!r} do")
        if int.from_bytes(content[start : start + 8], "little", signed=True) != n_numbers:
            raise UnsafeWeightsError(f"storage {key!r} does not hold the {n_numbers} numbers it announces")
        numbers[key] = np.frombuffer(content, dtype, n_numbers, start + 8)
        start = end
    if start != len(content):
        raise UnsafeWeightsError(f"{len(content) - start} bytes follow its last storage")
    return numbers


def _window(name: str, tensor: _Tensor, numbers: NDArray[Any]) -> NDArray[Any]:
    _, offset, shape, strides = tensor
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    # No more entries than numbers: a stride of 0 cannot blow a small file up.
    if 0 in shape or last >= len(numbers) or math.prod(shape) > len(numbers):
        raise UnsafeWeightsError(
            f"array {name!r} of shape {shape} reaches outside its storage of {len(numbers)} numbers"
        )
    steps = [step * numbers.itemsize for step in strides]
    return np.lib.stride_tricks.as_strided(numbers[offset:], shape, steps, writeable=False)


class _Machine:
    """The stack machine: runs one program and returns what is left on its stack."""

    def __init__(self) -> None:
        self.storages: dict[str, _Storage] = {}
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, stream: io.BytesIO) -> Any:
        while True:
            opcode = _CODES.get(stream.read(1).decode("latin-1"))
            if opcode is None or opcode.name not in _ALLOWED:  # refused before its argument is even read
                raise UnsafeWeightsError(f"instruction {opcode.name if opcode else 'none'} is not allowed")
            argument = _argument(opcode, stream)
            if opcode.name == "STOP":
                break
            if opcode.name in _CONSTANTS:
                self._stack.append(_CONSTANTS[opcode.name])
            elif opcode.name in _INSTRUCTIONS:
                _INSTRUCTIONS[opcode.name](self, argument)
        if len(self._stack) != 1:
            raise UnsafeWeightsError("a program in it leaves other than one value")
        return self._stack[0]

    def _take(self, n: int) -> tuple[Any, ...]:
        if n > len(self._stack):
            raise UnsafeWeightsError("a program in it takes more values than there are")
        taken = tuple(self._stack[len(self._stack) - n :])
        del self._stack[len(self._stack) - n :]
        return taken

    def _take_to_mark(self) -> tuple[Any, ...]:
        for n, value in enumerate(reversed(self._stack)):
            if value is _MARK:
                _, *values = self._take(n + 1)
                return tuple(values)
        raise UnsafeWeightsError("a program in it has no mark where it needs one")

    def literal(self, argument: Any) -> None:
        self._stack.append(argument)

    def new_dict(self, _: Any) -> None:
        self._stack.append({})

    def new_list(self, _: Any) -> None:
        self._stack.append([])

    def new_tuple(self, _: Any) -> None:
        self._stack.append(self._take_to_mark())

    def tuple_of_one(self, _: Any) -> None:
        self._stack.append(self._take(1))

    def tuple_of_two(self, _: Any) -> None:
        self._stack.append(self._take(2))

    def tuple_of_three(self, _: Any) -> None:
        self._stack.append(self._take(3))

    def remember(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def recall(self, index: int) -> None:
        self._stack.append(self._memo[index])

    def name(self, name: str) -> None:
        if name not in _GLOBALS:
            raise UnsafeWeightsError(f"the name {name.replace(' ', '.')!r} is not allowed")
        self._stack.append(_GLOBALS[name])

    def call(self, _: Any) -> None:
        function, arguments = self._take(2)
        if function is _DICT and arguments == ():
            self._stack.append({})
        elif function is _TENSOR:
            self._stack.append(_as_tensor(arguments))
        else:
            raise UnsafeWeightsError("it calls something that makes no array")

    def storage(self, _: Any) -> None:
        storage = _as_storage(*self._take(1))
        if self.storages.setdefault(storage.key, storage) != storage:
            raise UnsafeWeightsError(f"storage {storage.key!r} is described in two ways")
        self._stack.append(storage)

    def set_item(self, _: Any) -> None:
        self._put_into(dict, self._take(2))

    def set_items(self, _: Any) -> None:
        self._put_into(dict, self._take_to_mark())

    def append_all(self, _: Any) -> None:
        self._put_into(list, self._take_to_mark())

    def _put_into(self, kind: type[dict[str, Any]] | type[list[Any]], items: tuple[Any, ...]) -> None:
        target = self._stack[-1]
        if type(target) is not kind:
            raise UnsafeWeightsError("it puts values into something that is no table")
        if isinstance(target, list):
            target.extend(items)
            return
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str) or key in target:
                raise UnsafeWeightsError("a table in it has a key that is no name, or is there twice")
            target[key] = value

    def drop_metadata(self, _: Any) -> None:
        """The versions of a state_dict's modules hang on its table as an attribute; nothing else may."""
        (state,) = self._take(1)
        if type(self._stack[-1]) is not dict or not isinstance(state, dict) or set(state) != {"_metadata"}:
            raise UnsafeWeightsError("it changes the inside of an object")


def _argument(opcode: pickletools.OpcodeInfo, stream: io.BytesIO) -> Any:
    if opcode.name == "GLOBAL":  # taken as it stands; the library's reader would undo escapes
        return " ".join(stream.readline().decode("ascii").rstrip("\n") for _ in range(2))
    return opcode.arg.reader(stream) if opcode.arg else None


def _as_storage(description: Any) -> _Storage:
    tag, kind, key, place, n_numbers, view = description
    if tag != "storage" or not isinstance(kind, _Global) or kind not in _STORAGES or view is not None:
        raise UnsafeWeightsError("it asks for something stored outside of it")
    if not isinstance(key, str) or not isinstance(place, str) or not _is_size(n_numbers):
        raise UnsafeWeightsError("the description of a storage is wrong")
    return _Storage(key, _STORAGES[kind], n_numbers)


def _as_tensor(arguments: Any) -> _Tensor:
    storage, offset, shape, strides, requires_grad, hooks = arguments
    if not isinstance(storage, _Storage) or not isinstance(requires_grad, bool) or hooks != {}:
        raise UnsafeWeightsError("the description of an array is wrong")
    if not isinstance(shape, tuple) or not isinstance(strides, tuple) or len(shape) != len(strides):
        raise UnsafeWeightsError("the shape of an array and its strides differ in length")
    if not all(map(_is_size, (offset, *shape, *strides))):
        raise UnsafeWeightsError("the shape, the strides or the offset of an array are no sizes")
    return _Tensor(storage, offset, shape, strides)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**40


_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": (), "MARK": _MARK}
_INSTRUCTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE"), _Machine.literal),
    "EMPTY_DICT": _Machine.new_dict,
    "EMPTY_LIST": _Machine.new_list,
    "TUPLE": _Machine.new_tuple,
    "TUPLE1": _Machine.tuple_of_one,
    "TUPLE2": _Machine.tuple_of_two,
    "TUPLE3": _Machine.tuple_of_three,
    "BINPUT": _Machine.remember,
    "LONG_BINPUT": _Machine.remember,
    "BINGET": _Machine.recall,
    "LONG_BINGET": _Machine.recall,
    "GLOBAL": _Machine.name,
    "REDUCE": _Machine.call,
    "BINPERSID": _Machine.storage,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "APPENDS": _Machine.append_all,
    "BUILD": _Machine.drop_metadata,
}
_ALLOWED = {"PROTO", "STOP", *_CONSTANTS, *_INSTRUCTIONS}
