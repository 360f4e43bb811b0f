"""The reader of weight files builds arrays, and nothing that a file says can make it do anything else."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.images.weight_files import (
    BUILD,
    CALL,
    EMPTY_DICT,
    EMPTY_TUPLE,
    name,
    number,
    ordered_dict,
    pack,
    program,
    storage,
    table,
    tensor,
    text,
    whole_file,
)

from unseen.images._weights import UnsafeWeightsError, read_weights


def read(tmp_path, content):
    path = tmp_path / "weights.pth"
    path.write_bytes(content)
    return read_weights(path)


def test_arrays_are_windows_on_the_numbers_at_the_end(tmp_path):
    counts = tensor((), (), source=storage("t", 1, "LongStorage"))
    body = table(tensor(), tensor((3, 2), (1, 3)), tensor((2,), (2,), offset=3), counts)
    read_back = read(
        tmp_path, whole_file(body, [("t", np.array([7], dtype="<i8")), ("s", np.arange(6, dtype="<f4"))])
    )
    np.testing.assert_array_equal(read_back["a"], np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(read_back["b"], np.arange(6).reshape(2, 3).T)
    np.testing.assert_array_equal(read_back["c"], [3, 5])
    assert read_back["d"] == 7
    assert read_back["d"].dtype == np.int64
    assert read_back["a"].dtype == np.float32
    assert not read_back["a"].flags.writeable


def test_the_versions_of_modules_on_a_state_dict_are_passed_over(tmp_path):
    versions = EMPTY_DICT + text("_metadata") + ordered_dict() + b"s" + BUILD
    assert list(read(tmp_path, whole_file(table(tensor(), after=versions)))) == ["a"]


def calls(marker):
    """Programs that would touch the file ``marker``, in the ways that known attacks take."""
    command = pack(text(f"touch {marker}"))
    code = pack(text(f"open({str(marker)!r}, 'w')"))
    return {
        "os.system": name("os", "system") + command + CALL,
        "posix.system": name("posix", "system") + command + CALL,
        "eval": name("builtins", "eval") + code + CALL,
        "old eval": name("__builtin__", "eval") + code + CALL,
        "getattr": name("builtins", "getattr") + pack(name("os", "path"), text("join")) + CALL,
        "inside a table": table(name("os", "system") + command + CALL),
        "as a hook": table(tensor(source=name("os", "system") + command + CALL)),
        "instance": b"(" + text(f"touch {marker}") + b"ios\nsystem\n",
        "object": b"(" + name("os", "system") + text(f"touch {marker}") + b"o",
        "new object": name("os", "system") + command + b"\x81",
        "name from the stack": text("os") + text("system") + b"\x93" + command + CALL,
        "extension": b"\x82\x01" + command + CALL,
        "old persistent id": b"Pwhatever\n",
        "torch.load": name("torch", "load") + pack(text(str(marker))) + CALL,
        "numpy": name("numpy.core.multiarray", "_reconstruct") + EMPTY_TUPLE + CALL,
        "unknown storage": table(tensor(source=storage(kind="system", module="os"))),
    }


@pytest.mark.parametrize("attack", calls("marker"))
def test_nothing_in_a_file_is_run(tmp_path, attack):
    marker = tmp_path / "marker"
    with pytest.raises(UnsafeWeightsError, match=r"weights\.pth.*Nothing in it was run"):
        read(tmp_path, whole_file(calls(marker)[attack]))
    assert not marker.exists()


BROKEN = {
    "call of a storage": name("torch", "FloatStorage") + EMPTY_TUPLE + CALL,
    "call of a table": ordered_dict() + EMPTY_TUPLE + CALL,
    "ordered dict of arguments": name("collections", "OrderedDict") + pack(EMPTY_TUPLE) + CALL,
    "state of an array": table(tensor() + EMPTY_DICT + BUILD),
    "other state of a table": table(tensor(), after=EMPTY_DICT + text("x") + number(1) + b"s" + BUILD),
    "state that is no table": table(tensor(), after=EMPTY_TUPLE + BUILD),
    "key that is no name": ordered_dict() + b"(" + number(1) + tensor() + b"u",
    "key there twice": ordered_dict() + b"(" + (text("a") + tensor()) * 2 + b"u",
    "items for a tuple": EMPTY_TUPLE + b"(" + text("a") + tensor() + b"u",
    "key without a value": ordered_dict() + b"(" + text("a") + b"u",
    "no array": table(number(1)),
    "no table": tensor(),
    "nothing": b"",
    "two values": table(tensor()) + number(1),
    "no mark": b"t",
    "empty stack": CALL,
    "unknown memory": b"h\x07",
    "floating-point number": b"G" + struct.pack(">d", 1.0),
    "bytes": b"C\x01x",
    "frozen set": b"(\x91",
    "storage of another place": table(tensor(source=pack(text("module"), *[EMPTY_TUPLE] * 5) + b"Q")),
    "storage without a size": table(tensor(source=storage(n=-1))),
    "two kinds of one storage": table(tensor(), tensor(source=storage(kind="LongStorage"))),
    "past the end": table(tensor((2, 4), (4, 1))),
    "past the end by the offset": table(tensor(offset=1)),
    "past the end by the strides": table(tensor((2, 3), (4, 1))),
    "blown up by a stride of zero": table(tensor((1000, 1000), (0, 0))),
    "negative shape": table(tensor((-2, 3), (3, 1))),
    "negative stride": table(tensor((2, 3), (-3, 1))),
    "negative offset": table(tensor(offset=-1)),
    "fewer strides": table(tensor((2, 3), (1,))),
    "empty array": table(tensor((0, 3), (3, 1))),
    "shape of texts": table(tensor((2,), (1,)).replace(number(2), text("2"))),
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_a_program_that_makes_no_arrays_is_refused(tmp_path, body):
    with pytest.raises(UnsafeWeightsError, match="is not a plain table of weights"):
        read(tmp_path, whole_file(body))


GOOD = whole_file(table(tensor()))
SIX = np.arange(6, dtype="<f4")
DAMAGED = {
    "empty": (b"", "is not a plain table"),
    "text": (b"these are no weights", "is not a plain table"),
    "picture": (b"\x89PNG\r\n\x1a\n" + bytes(100), "is not a plain table"),
    "zip": (b"PK\x03\x04" + bytes(100), "zip archive"),
    "other magic": (whole_file(table(tensor()), magic=number(1)), "does not begin as a weight file"),
    "big-endian": (GOOD.replace(b"\x88", b"\x89", 1), "little-endian"),
    "cut in its numbers": (GOOD[:-1], "ends before"),
    "cut in its program": (GOOD[:200], "is not a plain table"),
    "more bytes": (GOOD + b"\0", "1 bytes follow"),
    "storage shorter than it says": (
        whole_file(table(tensor()), [("s", SIX[:5])], end=bytes(4)),
        "does not hold the 6",
    ),
    "storage missing": (whole_file(table(tensor()), []), "list of storages"),
    "storage too many": (whole_file(table(tensor()), [("s", SIX), ("t", SIX)]), "list of storages"),
    "storage twice": (whole_file(table(tensor()), [("s", SIX), ("s", SIX)]), "list of storages"),
    "keys that are no list": (GOOD.replace(b"]", b"}", 1), "is not a plain table"),
}


@pytest.mark.parametrize(("content", "message"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused(tmp_path, content, message):
    with pytest.raises(UnsafeWeightsError, match=message):
        read(tmp_path, content)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no weight file .*nowhere\.pth"):
        read_weights(tmp_path / "nowhere.pth")


@settings(max_examples=300)
@given(data=st.data())
def test_whatever_the_bytes_they_are_read_or_refused(tmp_path_factory, data):
    content = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        change = data.draw(st.sampled_from(["replace", "insert", "remove"]))
        piece = data.draw(st.binary(min_size=0, max_size=8))
        end = place + (len(piece) if change == "replace" else 8 if change == "remove" else 0)
        content[place:end] = b"" if change == "remove" else piece
        if not content:
            break
    try:
        arrays = read(tmp_path_factory.mktemp("changed"), bytes(content))
    except UnsafeWeightsError:
        return
    assert all(isinstance(array, np.ndarray) and array.size <= 6 for array in arrays.values())


def test_programs_end_where_they_say(tmp_path):
    """A second program inside the first one's place is not run."""
    with pytest.raises(UnsafeWeightsError):
        read(tmp_path, program(number(1)) * 5)
