"""Weight files in PyTorch's old format, written instruction by instruction, the forbidden ones too."""

import struct

import numpy as np

MAGIC = b"\x8a\x0a" + (0x1950A86A20F9469CFC6C).to_bytes(10, "little")
NUMBERS = (("s", np.arange(6, dtype="<f4")),)
NONE, FALSE, EMPTY_TUPLE, EMPTY_DICT, EMPTY_LIST, CALL, BUILD = b"N", b"\x89", b")", b"}", b"]", b"R", b"b"


def text(value):
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value):
    return b"J" + struct.pack("<i", value)


def pack(*parts):
    return b"(" + b"".join(parts) + b"t"


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def program(body):
    return b"\x80\x02" + body + b"."


def ordered_dict():
    return name("collections", "OrderedDict") + EMPTY_TUPLE + CALL


def storage(key="s", n=6, kind="FloatStorage", module="torch"):
    return pack(text("storage"), name(module, kind), text(key), text("cpu"), number(n), NONE) + b"Q"


def tensor(shape=(2, 3), strides=(3, 1), offset=0, source=None):
    sizes = [pack(*map(number, values)) if values else EMPTY_TUPLE for values in (shape, strides)]
    arguments = pack(source or storage(), number(offset), *sizes, FALSE, ordered_dict())
    return name("torch._utils", "_rebuild_tensor_v2") + arguments + CALL


def table(*arrays, after=b""):
    """A table of arrays ``a``, ``b``, ...; ``after`` is run last."""
    items = b"".join(text(key) + array for key, array in zip("abcdefgh", arrays, strict=False))
    return ordered_dict() + b"(" + items + b"u" + after


def whole_file(body, storages=NUMBERS, *, magic=MAGIC, end=b""):
    system = EMPTY_DICT + b"(" + text("little_endian") + b"\x88" + b"u"
    keys = EMPTY_LIST + b"(" + b"".join(text(key) for key, _ in storages) + b"e"
    numbers = b"".join(struct.pack("<q", len(values)) + values.tobytes() for _, values in storages)
    return b"".join(map(program, (magic, number(1001), system, body, keys))) + numbers + end
