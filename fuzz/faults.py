"""Kill every command that writes, and take the disk, its input and its output away from it; nothing may be lost.

    python -m fuzz.faults [--kills 500] [--only index "tags write"] [--seed 0]

A command runs on small data made here, in a folder on a disk of its own in memory. **Kills** (SIGKILL) fall at a
random operation on files, at a random line of ours after the first of these, or at a random time after it. What is
there then is the old or the new of each file, of each photo of a library and of each row of features; and the same
command, run again, ends as one that nobody disturbed, with the same files and nothing left over. Nine kills in ten
are of a process forked from this one, which has loaded everything; the others and all that follows are of fresh
processes. **Faults**: a full disk, with room for a random part of the output or none; a disk that cannot be
written; photos, features, tables or models that vanish at a random moment; a pipe that is closed after no line or
one; a full disk behind the standard output. Each ends in one line on standard error that says what and what to do,
and an exit code; a closed pipe ends quietly.

Disks are mounted in a namespace of our own, which needs Linux and either root or user namespaces; elsewhere the
faults of disks are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import json
import math
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import unseen

ROOT = Path(__file__).parents[1]
PACKAGE = str(Path(unseen.__file__).parent)
CHANGES = {  # audit events of operations on files, with the place of the path that is written
    "os.rename": 1, "os.remove": 0, "os.rmdir": 0, "os.mkdir": 0, "os.link": 1, "os.symlink": 1, "os.truncate": 0,
    "os.chmod": 0, "os.chown": 0, "os.utime": 0, "sqlite3.connect": 0,
}  # fmt: skip
READS = ("open", "os.listdir", "os.scandir")
WELL = (0, 130)  # the latter: a server, ended by Ctrl-C
WORDS = "red,green,blue,yellow"


class Command(NamedTuple):
    """What is typed, in which state of the folder, and what may be taken away meanwhile."""

    typed: str
    before: str = "photos"
    inputs: tuple[str, ...] = ()
    share: float = 1.0  # of the kills
    between: str = r"$"  # names of files that are there only while it runs
    keys: str = ""  # typed on its standard input
    own_way: str = r"$"  # names of files that another way to the same end leaves out


PHOTOS = ("photos", "photos/000.jpg")
COMMANDS = {
    "features": Command("features photos -o feats --backbone eye.onnx --jobs 1", "photos", PHOTOS),
    "features, grown": Command(
        "features photos -o feats --backbone eye.onnx --jobs 1", "grown", (*PHOTOS, "feats")
    ),
    "index": Command("index photos -L library --backbone eye.onnx --jobs 1", "photos", PHOTOS),
    "index, changed": Command("index -L library --jobs 1", "changed", (*PHOTOS, "library")),
    "index --forget": Command("index -L library --forget photos", "library", ("photos",)),
    "fit": Command(
        "fit feats -a labels.csv --from-scratch --vectors vectors.csv --beta 1 -o made/m.safetensors", "keyless",
        ("feats", "labels.csv", "vectors.csv"),
    ),
    "fit -L": Command(
        "fit -L library --from-scratch --vectors vectors.csv --beta 1 -o made/m.safetensors", "answers",
        ("library",),
    ),
    "tag": Command(f"tag photos -w {WORDS} -m sure.safetensors -o made/p.html", "photos", (*PHOTOS, "many.csv")),
    "tag --json": Command(f"tag photos -w {WORDS} -m sure.safetensors --json", "photos", PHOTOS, 0.0),
    "tag --csv": Command(f"tag photos -w {WORDS} -m sure.safetensors --csv", "photos", PHOTOS, 0.0),
    "tag -L": Command(f"tag -L library -w {WORDS} -m sure.safetensors -o made/p.html", "library", ("library",)),
    "search": Command(
        "search red -L library -m sure.safetensors -o made/p.html", "library", ("library", "sure.safetensors")
    ),
    "duplicates": Command("duplicates -L library -o made/p.html", "library", ("library",)),
    "explain": Command("explain photos/000.jpg -w red -m sure.safetensors -o made/p.html", "photos", PHOTOS),
    "labels": Command(
        "labels --seen red,green --unseen crimson --vectors glove.txt -o made/p.html", "photos", ("glove.txt",)
    ),
    "labels --source flickr": Command(
        "labels --seen red,green,blue --vectors none --source flickr", "photos", (), 1.0, r"unseen/flickr/"
    ),
    "evaluate": Command(
        "evaluate feats -a labels.csv --split test -m sure.safetensors -o made/p.html", "features",
        ("feats", "labels.csv"),
    ),
    "data show": Command("data show labels.csv -o made/t.csv", "photos", ("labels.csv",)),
    "data get": Command("data get voc2007 -o made", "photos"),
    "backbones --download": Command("backbones owner/pair --download", "photos"),
    "cache clear": Command("cache clear --yes", "cached"),
    "tags write": Command(
        f"tags write -L library -w {WORDS} -m sure.safetensors", "library", (*PHOTOS, "library")
    ),
    "tags write --csv": Command(
        f"tags write -L library -w {WORDS} -m sure.safetensors --csv made/t.csv", "library", ("library",)
    ),
    "tags write --embed": Command(
        f"tags write -L library -w {WORDS} -m sure.safetensors --embed", "library", PHOTOS, 0.7
    ),
    "tags undo": Command("tags undo -L library", "written", (*PHOTOS, "library")),
    "tags undo, embedded": Command("tags undo -L library", "embedded", PHOTOS, 0.7),
    "review": Command(
        f"review -L library -w {WORDS},crimson,warm,cold -m sure.safetensors", "library", ("library",), 1.0, "$",
        "y\n" * 80,
    ),
    "serve": Command(
        "serve -L library -m sure.safetensors --no-open --port 0", "library", (), 0.5,
        own_way="unseen/word-vectors/"  # words are looked up together, or one after another
    ),
    "demo": Command("demo --quick -o made/p.html", "photos", (), 0.3),
    "reproduce": Command(
        "reproduce --data scenes/scenes_labels.csv --methods dmp,eszsl --splits 0 --quick --jobs 1 -o made",
        "photos", ("scenes",), 0.7,
    ),
}  # fmt: skip


# What runs in the process of a command.


def patch() -> None:
    """Small blocks, so that there are several; addresses on this machine; answers of Flickr."""
    from unseen import files
    from unseen.datasets.download import DATA_SETS, DataSet
    from unseen.images import features
    from unseen.labels import cooccurrence
    from unseen.photos import index, tags

    features._BLOCK = index._BLOCK = tags._BATCH = 4
    index._FEW, files._PAUSE = 2, 0.0
    cooccurrence._ask = lambda asked, key, session: len(asked)  # type: ignore[assignment]
    host, md5, size = json.loads(os.environ["FAULTS_DATA_SET"])
    archives, folder = {"all.tar": (md5, size)}, "VOCdevkit/VOC2007"
    DATA_SETS["voc2007"] = DataSet("Small", (host,), archives, folder, {"trainval.txt": 2})


class Moment(NamedTuple):
    """The n-th change of a file, or line of ours after the first, kills; the n-th read removes a path."""

    kind: str = "never"  # "change", "line", "read" or "never"; "count" traces all lines
    at: int = 0
    path: str = ""


def watch(moment: Moment, folder: str) -> dict[str, float]:
    """Count changes, lines and reads from now on, and act at a moment."""
    counts: dict[str, float] = {"change": 0, "line": 0, "read": 0, "first": 0.0}

    def count(kind: str) -> None:
        counts[kind] += 1
        if kind == moment.kind and counts[kind] == moment.at:
            if kind != "read":
                os.kill(os.getpid(), signal.SIGKILL)
            shutil.rmtree(moment.path) if os.path.isdir(moment.path) else os.unlink(moment.path)  # noqa: PTH108, PTH112

    def trace(frame: Any, event: str, _: Any) -> Any:
        if event == "line" and counts["change"]:
            count("line")
        return trace

    def begin(frame: Any, event: str, _: Any) -> Any:
        return trace if frame.f_code.co_filename.startswith(PACKAGE) else None

    def is_inside(path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        name = os.fsdecode(path).removeprefix("file://").partition("?")[0]
        return os.path.abspath(name).startswith(folder)  # noqa: PTH100

    def hook(event: str, values: tuple[Any, ...]) -> None:
        if event in CHANGES:
            path, changes = values[CHANGES[event]], event != "sqlite3.connect" or "mode=rwc" in values[0]
        elif event in READS:
            path = values[0]
            changes = event == "open" and values[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) != 0
        else:
            return
        if not is_inside(path):
            return
        if changes and not counts["change"]:
            counts["first"] = time.monotonic()
            frame: Any = sys._getframe(1)
            while moment.kind in ("line", "count") and frame is not None:
                if frame.f_code.co_filename.startswith(PACKAGE):
                    frame.f_trace = trace
                frame = frame.f_back
            if moment.kind in ("line", "count"):
                sys.settrace(begin)
        count("change" if changes else "read")

    if moment.kind in ("line", "count"):
        threading.settrace(begin)
    sys.addaudithook(hook)
    return counts


def perform(typed: str, moment: Moment, folder: str, report: Path) -> None:
    """Run a command in this process, as `unseen` does, and say what was counted."""
    from unseen.cli import app

    patch()
    started, counts = time.monotonic(), watch(moment, folder)
    sys.argv = ["unseen", *shlex.split(typed)]
    try:
        app(prog_name="unseen")
    finally:
        counts["first"], counts["end"] = counts["first"] - started, time.monotonic() - started
        report.write_text(json.dumps(counts | {"modules": list(sys.modules)}))


# What runs in the process that starts the others.


class Ended(NamedTuple):
    """How a process ended: its exit code or minus its signal, what it printed, and what was counted."""

    code: int
    out: str
    err: str
    counts: dict[str, float]


class Place:
    """The folder of a command, on a disk of its own; the states that it can have; and servers on this machine."""

    def __init__(self, work: Path) -> None:
        self.work, self.disk = work, work / "disk"
        self.trial, self.filler = self.disk / "trial", self.disk / "filler"
        self.out, self.err, self.report = work / "out", work / "err", work / "report"
        self.disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "faults", self.disk]
        self.is_mounted = os.environ.get("FAULTS") == "alone" and not subprocess.run(mount).returncode
        self.trial.mkdir()
        os.environ |= {
            "UNSEEN_CACHE": str(self.trial / "unseen"), "UNSEEN_KEY": str(self.trial / "key"),
            "HF_HOME": str(self.trial), "FLICKR_API_KEY": "key", "PYTHONPATH": f"{Path(PACKAGE).parent}:{ROOT}",
            "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore",
            "NUMBA_THREADING_LAYER": "workqueue",  # forks cannot use GNU OpenMP
        }  # fmt: skip
        os.chdir(self.trial)

    def put(self, state: Path) -> None:
        """Make the folder as a state has it; its path stays the same."""
        for item in self.trial.iterdir():
            shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
        shutil.copytree(state, self.trial, symlinks=True, dirs_exist_ok=True)

    def names(self) -> set[str]:
        """Everything in the folder, but logs of SQLite's readers, locks in the cache, and what the hub keeps."""
        found = {path.relative_to(self.trial).as_posix() for path in self.trial.rglob("*")}
        others = r"\.sqlite-(wal|shm)$|^hub\b|^unseen/.*\.lock$"
        return {name for name in found if not re.search(others, name)}

    @contextlib.contextmanager
    def standing(self, command: Command) -> Iterator[dict[str, Any]]:
        """Files for the standard streams of a process."""
        self.report.unlink(missing_ok=True)
        with self.out.open("wb") as out, self.err.open("wb") as err, tempfile.TemporaryFile() as keys:
            keys.write(command.keys.encode())
            keys.seek(0)
            yield {"stdin": keys, "stdout": out, "stderr": err}

    def forked(self, command: Command, moment: Moment = Moment(), delay: float | None = None) -> Ended:  # noqa: B008
        """Run a command in a fork of this process, killed at a moment, after a delay, or never."""
        if command.typed.startswith("serve"):  # its threads and processes do not like forks
            return self.fresh(command, moment)
        with self.standing(command) as streams:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    for number, stream in enumerate(streams.values()):
                        os.dup2(stream.fileno(), number)
                    perform(command.typed, moment, str(self.trial), self.report)
                except SystemExit as error:
                    code = error.code if isinstance(error.code, int) else 1
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)
            return self._wait(command, child, delay)

    def fresh(self, command: Command, moment: Moment = Moment(), lines: int = 0, **streams: Any) -> Ended:  # noqa: B008
        """Run a command in a process of its own; a pipe for its output is closed after some lines."""
        typed = [
            sys.executable,
            "-m",
            "fuzz.faults",
            "--perform",
            command.typed,
            str(self.report),
            *map(str, moment),
        ]
        with self.standing(command) as files:
            process = subprocess.Popen(typed, **(files | streams), cwd=self.trial)
            if process.stdout is not None:
                for _ in range(lines):
                    process.stdout.readline()
                process.stdout.close()
            return self._wait(command, process.pid, None)

    def _wait(self, command: Command, child: int, delay: float | None) -> Ended:
        timer = None if delay is None else threading.Timer(delay, os.kill, (child, signal.SIGKILL))
        if timer is not None:
            timer.start()
        if command.typed.startswith("serve"):
            talk(self.out, child)
        _, status = os.waitpid(child, 0)
        if timer is not None:
            timer.cancel()
        counts = json.loads(self.report.read_text()) if self.report.exists() else {}
        for name in counts.pop("modules", ()):  # loaded once here, they need not be by later forks
            with contextlib.suppress(Exception):
                import_module(name)
        texts = (path.read_text("utf-8", "replace") for path in (self.out, self.err))
        return Ended(os.waitstatus_to_exitcode(status), *texts, counts)

    def state(self) -> dict[str, Any]:
        """What the folder holds, as a reader sees it, by name; times and random numbers left out."""
        found: dict[str, Any] = {}
        for path in sorted(self.trial.rglob("*")):
            name = path.relative_to(self.trial).as_posix()
            top = name.partition("/")[0]
            is_hidden = any(part.startswith(".") for part in path.relative_to(self.trial).parts)
            if is_hidden or top == "hub" or not path.is_file():
                continue
            if top == "library" and (path.suffix == ".bin" or ".sqlite" in path.name):
                if path.name == "library.sqlite":
                    found |= library_state(path.parent)
            elif top == "feats":
                if "feats" not in found:
                    found |= {"feats": features_state(path.parents[-1 - len(self.trial.parts)])}
            elif path.suffix == ".safetensors":
                found[name] = model_state(path)
            else:
                found[name] = path.read_bytes() if name != "key" else path.stat().st_size
        return found


def features_state(folder: Path) -> Any:
    """Rows of features; None before the first run has ended."""
    from unseen.images.features import open_features

    try:
        made = open_features(folder)
    except FileNotFoundError:
        return None
    return made.paths, made.problems, made.X.tobytes(), None if made.logits is None else made.logits.tobytes()


def model_state(path: Path) -> Any:
    """Digest of a model, which is checked, and whether it is the user's own."""
    from unseen import ZeroShotTagger, model_file

    ZeroShotTagger.load(path)
    return model_file.read_header(path)["digest"], model_file.is_own(path)


def library_state(folder: Path) -> dict[str, Any]:
    """Everything that a reader of a library sees: photos, answers and written tags."""
    from unseen.photos.library import PhotoLibrary
    from unseen.photos.storage import decode_rows

    library, found = PhotoLibrary.open(folder), dict[str, Any]()
    with library.snapshot() as now:
        if now.db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            return {"library": "damaged"}
        rows = dict(now.db.execute("SELECT lower(hex(digest)), row FROM images"))
        if len(rows) + len(now.dead) != len(now.features):
            return {"library": "rows without images"}
        for photo in library.photos():
            row = [rows[photo.digest]]
            values = decode_rows(now.features[row]).tobytes(), decode_rows(now.classes[row]).tobytes()  # type: ignore[index]
            found[f"library: {photo.path}"] = (*photo[1:], *values, library.thumbnail(photo))
        keys = now.db.execute("SELECT digest, word, verdict FROM corrections").fetchall()
        found |= {f"library: {digest.hex()} {word}": verdict for digest, word, verdict in keys}
    with library.journal(write=False) as journal:
        for record in journal.records("done"):
            found[f"library: {record.change.photo} {record.change.target}"] = (*record.change.words,)
    return found


def talk(out: Path, server: int) -> None:
    """Upload a photo, write words, answer, learn, write tags and take them back; then end the server."""
    while not (found := re.search(r"http://([\d.]+:\d+)/", out.read_text())):
        if os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            return
        time.sleep(0.01)
    caller = http.client.HTTPConnection(found[1], timeout=60)

    def ask(method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        content = body if isinstance(body, bytes) else json.dumps(body)
        caller.request(method, path, content, {"Content-Type": kind})
        return json.loads(caller.getresponse().read() or "null")

    def work(path: str, body: Any = None) -> None:
        job = ask("POST", path, body)
        while job.get("state") == "running":
            time.sleep(0.01)
            job = ask("GET", f"/v1/jobs/{job['id']}")

    try:
        form = b'--x\r\nContent-Disposition: form-data; name="photo"; filename="a.jpg"\r\n\r\n'
        form += Path("photos/000.jpg").read_bytes() + b"\r\n--x--\r\n"
        ask("POST", "/v1/tag", form, "multipart/form-data; boundary=x")
        ask("PUT", "/v1/words", {"text": WORDS.replace(",", "\n")})
        for photo in ask("GET", "/v1/search?q=red")["hits"]:
            ask("POST", "/v1/corrections", {"id": photo["id"], "word": "red", "verdict": photo["p"] > 0.5})
        work("/v1/export/xmp", {"dry_run": False})
        if not list(Path("library").glob("model.*")):  # with a model given, what was learned before is not used
            work("/v1/learn")
        os.kill(server, signal.SIGINT)
    except (OSError, http.client.HTTPException):  # it was killed, or does not answer
        os.kill(server, signal.SIGKILL)


@contextlib.contextmanager
def servers(place: Place) -> Iterator[None]:
    """A hub and the host of a data set on this machine."""
    import pytest
    from tests import hub, test_files
    from tests.clip import write_pair
    from tests.datasets.test_download import make_tar

    body = make_tar()
    md5 = hashlib.md5(body, usedforsecurity=False).hexdigest()
    with pytest.MonkeyPatch.context() as patches, test_files.serve("/all.tar") as sites:
        sites["/all.tar"].body = body
        host = sites["/all.tar"].url.removesuffix("/all.tar")
        os.environ["FAULTS_DATA_SET"] = json.dumps([host, md5, len(body)])
        with hub.serve({"owner/pair": [write_pair(place.work / "pair")]}, place.trial, patches) as served:
            os.environ["HF_ENDPOINT"] = served.address
            yield


def make_states(place: Place, states: Path) -> None:
    """The states of the folder from which commands start."""
    from tests.experiment.files import write_files
    from tests.photos.sidecars import SIDECARS
    from tests.photos.world import CORNERS, SHOWN, VECTORS, calibrated, paint, write_backbone, write_rows

    from unseen import PhotoTagger
    from unseen.photos.library import PhotoLibrary

    trial = place.trial

    def keep(name: str) -> None:
        shutil.copytree(trial, states / name, symlinks=True)

    def run(typed: str) -> None:
        done = place.forked(Command(typed))
        assert done.code == 0, (typed, done)

    def photos(numbers: range) -> None:
        for i in numbers:
            paint(trial / "photos" / f"{i:03d}.jpg", SHOWN[i % len(SHOWN)], i)

    (trial / "photos").mkdir()
    write_backbone(trial)
    rows = [(f"{i:03d}.jpg", "test" if i >= 8 else "train", ";".join(SHOWN[i % len(SHOWN)])) for i in range(12)]
    write_rows(trial / "labels.csv", [("path", "split", "labels"), *rows])
    write_rows(trial / "vectors.csv", [("name", "x", "y", "z"), *((name, *v) for name, v in VECTORS.items())])
    write_rows(trial / "many.csv", [("name", "x", "y", "z"), *((n, *v) for n, v in (VECTORS | CORNERS).items())])
    (trial / "glove.txt").write_text("".join(f"{name} {x} {y} {z}\n" for name, (x, y, z) in VECTORS.items()))
    write_files(trial / "scenes")
    PhotoTagger(calibrated().tagger, str(trial / "eye.onnx"), str(trial / "many.csv")).save("sure.safetensors")
    photos(range(8))
    keep("few")
    run(COMMANDS["features"].typed)
    photos(range(8, 14))
    paint(trial / "photos" / "003.jpg", ("blue",))
    keep("grown")
    place.put(states / "few")
    photos(range(8, 14))
    for photo, name, content, _ in SIDECARS:
        if photo.endswith(".jpg"):
            paint(trial / "photos" / photo, ("red", "blue"), 100 + len(rows))
            rows.append((photo,))
            (trial / "photos" / name).write_bytes(content)
    keep("photos")
    run(COMMANDS["features"].typed)
    keep("features")
    (trial / "key").unlink()
    keep("keyless")
    place.put(states / "photos")
    run(COMMANDS["labels"].typed)
    run(COMMANDS["labels --source flickr"].typed)
    keep("cached")
    place.put(states / "photos")
    run(COMMANDS["index"].typed)
    keep("library")
    run(COMMANDS["tags write"].typed)
    keep("written")
    place.put(states / "library")
    if shutil.which("exiftool"):
        run(COMMANDS["tags write --embed"].typed)
        keep("embedded")
        place.put(states / "library")
    library = PhotoLibrary.open(trial / "library")
    for photo in library.photos():
        for name in ("red", "green", "blue"):
            library.correct(photo, name, name == SHOWN[len(Path(photo.path).stem) % 3][0])
    keep("answers")
    place.put(states / "library")
    (trial / "photos" / "moved").mkdir()
    photos(range(14, 20))
    for i in range(4):
        (trial / "photos" / f"{i:03d}.jpg").rename(trial / "photos" / "moved" / f"{i}.jpg")
        paint(trial / "photos" / f"{i + 4:03d}.jpg", ("yellow",), i)
        (trial / "photos" / f"{i + 8:03d}.jpg").unlink()
    keep("changed")


class Expected(NamedTuple):
    """States before and after a command that nobody disturbed, the names of all files, and what was counted."""

    before: dict[str, Any]
    after: dict[str, Any]
    names: set[str]
    counts: dict[str, float]


def undisturbed(place: Place, command: Command, states: Path) -> Expected:
    """Run a command twice, the second time counting lines: the results are the same."""
    place.put(states / command.before)
    before = place.state()
    ends = []
    for kind in ("never", "count"):
        place.put(states / command.before)
        done = place.forked(command, Moment(kind))
        assert done.code in WELL, (command, done)
        names = place.names()
        ends.append((place.state(), names, done.counts))
    assert ends[0][:2] == ends[1][:2], [*differences(ends[0][0], ends[1][0], {}), ends[0][1] ^ ends[1][1]]
    counts = {name: ends[1][2][name] for name in ("change", "line", "read")}
    return Expected(before, *ends[0][:2], ends[0][2] | counts)


def differences(found: dict[str, Any], one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Names of what is neither as in the one state nor as in the other."""
    names = sorted({*found, *one, *other})
    return [name for name in names if found.get(name) not in (one.get(name), other.get(name))]


def wrong_state(place: Place, command: Command, expected: Expected) -> list[str]:
    """What is lost or half-written."""
    try:
        found = place.state()
    except Exception as error:
        return [f"cannot be read: {error!r}"]
    lost = differences(found, expected.before, expected.after)
    return [f"lost or half-written: {name}" for name in lost if not re.match(command.between, name)]


def wrong_end(place: Place, command: Command, expected: Expected, again: Ended) -> list[str]:
    """What is not as after a run that nobody disturbed."""
    if again.code not in WELL:
        return [f"the next run ends with {again.code}: {again.err[-300:]}"]
    names, found = place.names(), place.state()
    kinds = {
        "left over": sorted(names - expected.names),
        "missing": sorted(expected.names - names),
        "another result": differences(found, expected.after, expected.after),
    }
    wrong = [(kind, name) for kind, listed in kinds.items() for name in listed]
    return [f"{kind}: {name}" for kind, name in wrong if not re.match(command.own_way, name)]


def kill(place: Place, command: Command, states: Path, expected: Expected, number: int, rng: random.Random) -> Any:
    """Kill a command once and run it again: the moment and what is wrong, or None if it ended before."""
    place.put(states / command.before)
    kind, counts, delay = ("change", "line", "time")[number % 3], expected.counts, None
    is_fresh = number % 10 == 9
    if kind == "time" and (is_fresh or command.typed.startswith("serve")):
        kind = "line"
    if kind == "time":
        delay = rng.uniform(counts["first"], counts["end"])
        killed, moment = place.forked(command, delay=delay), Moment(kind)
    else:
        moment = Moment(kind, rng.randint(1, int(counts[kind])))
        killed = (place.fresh if is_fresh else place.forked)(command, moment)
    if killed.code != -signal.SIGKILL:
        return None
    wrong = wrong_state(place, command, expected)
    again = place.fresh(command) if is_fresh else place.forked(command)
    return moment, delay, wrong + wrong_end(place, command, expected, again)


def unclear(command: Command, done: Ended) -> list[str]:
    """What is wrong with the way in which a run ended: it is done, or says in one line what is wrong."""
    if re.search("Traceback|Exception ignored|Bus error", done.err) or done.code < 0:
        return [f"code {done.code}, {done.err[-700:]!r}"]
    said = [line for line in done.err.splitlines() if line.startswith("unseen ") and ": note: " not in line]
    if (done.code == 0) == bool(said) and not command.typed.startswith("serve"):
        return [f"code {done.code} with {said}"]
    vague = [line for line in said if "Errno" in line.partition("(")[0] or not re.search(r"\.$", line)]
    return [f"unclear: {line!r}" for line in vague]


def faults(
    place: Place, command: Command, states: Path, expected: Expected, rng: random.Random
) -> Iterator[tuple[str, list[str]]]:
    """Take things away from a command: what was done, and what is wrong."""

    def begin() -> None:
        place.filler.unlink(missing_ok=True)
        place.put(states / command.before)

    def free() -> int:
        return shutil.disk_usage(place.disk).free

    if place.is_mounted:
        begin()
        room = free()
        place.forked(command)
        needed = room - free()
        for share in (0.0, rng.random(), rng.random()):
            begin()
            with place.filler.open("wb") as file, contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), 0, free() - int(share * needed) // 4096 * 4096)
            done = place.forked(command)
            place.filler.unlink()  # readers of a library need some space, too
            wrong = unclear(command, done) + wrong_state(place, command, expected)
            wrong += wrong_end(place, command, expected, place.forked(command))
            yield f"full disk, {share:.0%} of the room", wrong
        begin()
        subprocess.run(["mount", "-o", "remount,ro", place.disk], check=True)
        done = place.forked(command)
        subprocess.run(["mount", "-o", "remount,rw", place.disk], check=True)
        wrong = unclear(command, done) + wrong_state(place, command, expected)
        if not done.code and any(
            name.startswith("made") for name in expected.after.keys() - expected.before.keys()
        ):
            wrong.append("nothing is said")
        yield "read-only disk", wrong
    for path in command.inputs:
        for _ in range(3):
            begin()
            moment = Moment("read", rng.randint(1, int(expected.counts["read"])), str(place.trial / path))
            done = place.forked(command, moment)
            wrong = unclear(command, done)
            if path != "library":
                lost = differences(place.state(), expected.before, expected.after)
                own = (path, "library", "made", "feats")  # what is made of other input is another result
                wrong += [f"lost: {name}" for name in lost if not name.startswith(own)]
            yield f"vanished input, {path} at read {moment.at}", wrong
    if command.typed.startswith("serve"):  # its output is what is asked for
        return
    for lines in (0, 1):
        begin()
        done = place.fresh(command, lines=lines, stdout=subprocess.PIPE)
        wrong = wrong_state(place, command, expected)
        if done.code not in (0, 1, 2) or "Traceback" in done.err or "ignored" in done.err:
            wrong.append(f"code {done.code}, {done.err[-700:]!r}")
        yield f"closed pipe, after {lines} lines", wrong
    begin()
    with Path("/dev/full").open("wb") as full:
        done = place.fresh(command, stdout=full)
        wrong = unclear(command, done) + wrong_state(place, command, expected)
        if not done.code:
            wrong.append("nothing is said")
        yield "full standard output", wrong


def main() -> int:
    """Run the command; returns 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=500, help="in all")
    parser.add_argument("--only", nargs="+", choices=COMMANDS, metavar="COMMAND")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-faults", action="store_true", help="kills alone")
    parser.add_argument("--perform", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.perform:
        typed, report, kind, at, path = args.perform
        perform(typed, Moment(kind, int(at), path), os.getcwd(), Path(report))  # noqa: PTH109
        return 0
    if os.environ.get("FAULTS") != "alone":  # mounts of our own, which end with us
        how = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
        if shutil.which(how[0]) and subprocess.run([*how, "true"], capture_output=True).returncode == 0:
            os.environ["FAULTS"] = "alone"
            os.execvp(how[0], [*how, sys.executable, "-m", "fuzz.faults", *sys.argv[1:]])
    names, started = args.only or list(COMMANDS), time.monotonic()
    if not shutil.which("exiftool"):
        names = [name for name in names if "embed" not in name]
        print("without exiftool: nothing is embedded")
    findings, n_killed, n_faults = list[str](), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        work = Path(folder)
        place = Place(work)
        try:
            with servers(place):
                states = work / "states"
                make_states(place, states)
                print(f"states made, {time.monotonic() - started:,.0f} s", flush=True)
                total = sum(COMMANDS[name].share for name in names)
                for name in names:
                    command, rng = COMMANDS[name], random.Random(f"{args.seed} {name}")
                    expected, number = undisturbed(place, command, states), 0
                    wanted = math.ceil(args.kills * command.share / total)
                    while n_killed[name] < wanted and number < 3 * args.kills:
                        found = kill(place, command, states, expected, number, rng)
                        number += 1
                        n_killed[name] += found is not None
                        for wrong in found[2] if found else ():
                            findings.append(f"{name}, killed at {found[0]} {found[1] or ''}: {wrong}")
                            print(findings[-1], flush=True)
                    for what, found in () if args.no_faults else faults(place, command, states, expected, rng):
                        n_faults[what.partition(",")[0]] += 1
                        for wrong in found:
                            findings.append(f"{name}, {what}: {wrong}")
                            print(findings[-1], flush=True)
                    print(f"{name}: {n_killed[name]} kills, {time.monotonic() - started:,.0f} s", flush=True)
        finally:
            os.chdir("/")
            if place.is_mounted:
                subprocess.run(["umount", "--lazy", place.disk], check=True)
    print(f"{n_killed.total()} kills; " + "; ".join(f"{what}: {n}" for what, n in n_faults.items()))
    print(f"{len(findings)} findings in {time.monotonic() - started:,.0f} s")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
