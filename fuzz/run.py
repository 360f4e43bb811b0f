"""Feed damaged files to every reader: each must be read, or refused with one clear error.

    python -m fuzz [--inputs 1000000] [--jobs 2] [--only table coco] [--seed 0]
    python -m fuzz --atheris coco          # guided by coverage, where atheris is installed; until Ctrl-C

An error is clear if it is a ValueError or an OSError of ours, whose message is short and does not advise to load
pickles. Any other exception, and any input that takes more than 5 seconds or 4 GB, is a finding: it is written to
fuzz/found, and belongs into fuzz/corpus, which the tests read.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from fuzz.readers import Reader, readers

HERE = Path(__file__).parent
MOST_SECONDS, MOST_BYTES, MOST_LETTERS = 5.0, 4 * 2**30, 1000
TOKENS = [
    b"\0", b"\xff", b"nan", b"inf", b"-1", b"1e999", b"9" * 400, b'"', b"'", b",", b";", b"\n", b"\r", b"\t", b"<",
    b">", b"&a;", b"<!DOCTYPE a [<!ENTITY a 'b'>]>", b"{", b"}", b"[" * 200, b"null", b"true", b"\\u0000",
    b"PK\x03\x04", b"\x93NUMPY", b"\xef\xbb\xbf", b"\xff\xfe", b"../../", b"\xf0\x9f\x90\xb1", b"=1+1",
]  # fmt: skip


def mutate(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """A damaged copy: bits and bytes changed, parts cut out, repeated, moved, or taken from another file."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        kind = rng.randrange(9)
        if kind == 0 and data:
            data[min(a, len(data) - 1)] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[min(a, len(data) - 1)] = rng.randrange(256)
        elif kind == 2:
            del data[a : min(b, a + rng.choice((1, 4, 64)))]
        elif kind == 3:
            data[a:a] = rng.choice(TOKENS)
        elif kind == 4:
            data[a:b] = rng.choice(TOKENS)
        elif kind == 5:
            data[a:a] = data[a : min(b, a + 200)] * rng.choice((1, 2, 50))
        elif kind == 6:
            del data[a:]
        elif kind == 7:
            other = rng.choice(others)
            data[a:b] = other[rng.randrange(len(other) + 1) :][:1000]
        elif data:
            size = rng.choice((1, 2, 4, 8))
            data[a : a + size] = rng.getrandbits(8 * size).to_bytes(size, rng.choice(("big", "little")))
    return bytes(data[:1_000_000])


def attempt(reader: Reader, content: bytes, folder: Path) -> str | None:
    """What is wrong with the way in which a reader takes a file; None if nothing.

    What is slow is tried twice: the first may have compiled a kernel, or waited for the machine.
    """
    wrong = _attempt(reader, content, folder)
    return _attempt(reader, content, folder) if wrong is not None and wrong.startswith("slow") else wrong


def _attempt(reader: Reader, content: bytes, folder: Path) -> str | None:
    path = folder / f"x{reader.suffix}"
    path.write_bytes(content)
    started = time.perf_counter()
    try:
        reader.read(path)
    except (ValueError, OSError, ImportError) as error:
        message = str(error)
        if type(error) not in (ValueError, OSError, FileNotFoundError, ImportError) and ": " not in message:
            return f"{type(error).__name__}: {message[:200]}"
        if "allow_pickle" in message or not message or len(message) > MOST_LETTERS + len(str(path)):
            return f"unclear: {message[:300]!r}"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:200]} ({Path(where.filename).name}:{where.lineno})"
    seconds = time.perf_counter() - started
    return f"slow: {seconds:.1f} s" if seconds > MOST_SECONDS else None


def work(name: str, n_inputs: int, seed: int) -> tuple[str, int, dict[str, bytes]]:
    """Findings of one reader, by what is wrong."""
    warnings.simplefilter("ignore")
    reader, rng, found = readers()[name], random.Random(f"{name} {seed}"), dict[str, bytes]()
    seeds = [*reader.seeds, *(path.read_bytes() for path in sorted((HERE / "corpus").glob(f"{name}-*")))]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        os.environ["UNSEEN_CACHE"] = f"{folder}/cache"
        for _ in range(n_inputs):
            content = mutate(rng.choice(seeds), seeds, rng)
            wrong = attempt(reader, content, Path(folder))
            if wrong is not None and wrong not in found:
                found[wrong] = content
    return name, n_inputs, found


def limit_memory() -> None:
    """Let this process have 4 GB more than it has once everything is loaded."""
    readers()
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    except (ImportError, OSError, ValueError):
        pass


def guided(name: str, arguments: list[str]) -> None:
    """Fuzz one reader with atheris; ends at the first finding."""
    import atheris

    with atheris.instrument_imports(include=["unseen"]):
        reader = readers()[name]
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))

    def check(data: bytes) -> None:
        if (wrong := attempt(reader, data, folder)) is not None:
            raise RuntimeError(wrong)

    corpus = folder / "corpus"
    corpus.mkdir()
    for i, seed in enumerate(reader.seeds):
        (corpus / str(i)).write_bytes(seed)
    atheris.Setup([sys.argv[0], *arguments, str(corpus)], check)
    atheris.Fuzz()


def main() -> int:
    """Run the command; returns 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000, help="in all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="+", help="readers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--atheris", metavar="READER")
    args, rest = parser.parse_known_args()
    if args.atheris:
        guided(args.atheris, rest)
        return 0
    names = args.only or list(readers())
    slow = {"image": 0.5, "keywords": 0.3, "library": 0.15, "model": 0.5, "signed model": 0.15, "voc": 0.5}
    weights = {name: slow.get(name, 1.0) for name in names}  # fewer inputs for slow readers
    pieces, tasks = 2 * args.jobs, []
    for name in names:
        n_inputs = round(args.inputs * weights[name] / sum(weights.values()))
        tasks += [(name, len(range(piece, n_inputs, pieces)), args.seed + piece) for piece in range(pieces)]
    total, counts, findings, started = (
        0,
        dict.fromkeys(names, 0),
        dict[str, dict[str, bytes]](),
        time.perf_counter(),
    )
    with ProcessPoolExecutor(args.jobs, initializer=limit_memory) as pool:
        for name, n_inputs, found in pool.map(work, *zip(*sorted(tasks, key=lambda task: task[2]), strict=True)):
            total += n_inputs
            counts[name] += n_inputs
            findings.setdefault(name, {}).update(found)
            print(f"\r{total:,} inputs, {sum(map(len, findings.values()))} findings", end="", flush=True)
    print(f"\r{total:,} inputs in {time.perf_counter() - started:,.0f} s")
    for name in names:
        print(f"  {name:<14} {counts[name]:>9,} inputs, {len(findings.get(name, {}))} findings")
        for wrong, content in findings.get(name, {}).items():
            (HERE / "found").mkdir(exist_ok=True)
            path = HERE / "found" / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
            path.write_bytes(content)
            print(f"    {path}: {wrong}")
    return 1 if any(findings.values()) else 0
