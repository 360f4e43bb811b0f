"""The command: what it prints is what it found, on a terminal and in a pipe; and it fails in one line."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

import unseen
from unseen import _demo_page as page
from unseen import cli
from unseen.cli.terminal import check_output
from unseen.demo import run_demo

LAUNCH = [sys.executable, "-m", "unseen"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def stages():
    return []


@pytest.fixture(scope="module")
def result(folder, stages):
    class Listener:
        def stage(self, title):
            stages.append((title, []))

        def step(self, done, total):
            stages[-1][1].append((done, total))

    return run_demo(folder / "report.html", quick=True, reporter=Listener())


@pytest.fixture(scope="module")
def piped(folder):
    target = folder / "piped.html"
    done = subprocess.run(
        [*LAUNCH, "demo", "--quick", "--output", str(target)], capture_output=True, text=True, check=False
    )
    return done, target


def _cells(result):
    tables = (page.choice_table(result), *page.result_tables(result))
    return [[cell for cell in row if isinstance(cell, str)] for table in tables for row in table.rows]


def test_a_pipe_gets_plain_whole_lines_with_the_numbers_of_the_result(piped, result):
    done, target = piped
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    lines = [re.split(r"\s{2,}", line.replace("*", "").strip()) for line in done.stdout.splitlines()]
    shown = [[cell.strip("()") for cell in line] for line in lines]
    for row in _cells(result):
        assert row in shown
    assert f"Report   {target}" in done.stdout
    assert "simulated" in done.stdout


def test_a_run_tells_how_far_it_is(result, stages):
    assert [title for title, _ in stages[:2]] == ["tagging photos", "simulating scenes"]
    counted = [steps for _, steps in stages if steps]
    assert len(counted) >= 4
    for steps in counted:
        assert [done for done, _ in steps] == list(range(1, steps[-1][1] + 1))


def test_the_report_holds_the_numbers_of_the_result_and_is_wellformed(result):
    class Reader(HTMLParser):
        open: list[str] = []  # noqa: RUF012
        row: list[str] = []  # noqa: RUF012
        rows: list[list[str]] = []  # noqa: RUF012

        def handle_starttag(self, tag, attrs):
            if tag not in ("meta", "img"):
                self.open.append(tag)
            if tag == "tr":
                self.rows.append([])

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

        def handle_data(self, data):
            if "tr" in self.open:
                self.rows[-1].append(data)

    reader = Reader()
    text = result.report.read_text(encoding="utf-8")
    reader.feed(text)
    assert reader.open == []
    for row in [*_cells(result), *([*r] for r in page.certificate_table(result).rows)]:
        assert row in reader.rows
    assert page.SIMULATED in text


def test_explanations_sum_to_their_scores_and_name_training_images(result):
    data = result.data
    assert len(result.examples) == 3
    for example in result.examples:
        parts, over = example.explanation.seen_labels, example.explanation.score - example.explanation.offset
        assert sum(part.score for part in parts) == pytest.approx(over, abs=1e-6)
        assert sum(value for _, value in example.explanation.images) == pytest.approx(over, abs=1e-4)
        assert {part.name for part in parts} == set(data.seen_labels.names)
        assert example.explanation.label in data.unseen_labels.names
        for support in example.support:
            seen = {data.names[c] for c in data.seen if data.Y_train[support.image, c]}
            assert seen == set(support.labels)
            assert seen


def test_examples_are_described_as_they_are(result):
    for example in result.examples:
        shown = result.data.Y_test[example.image] == 1
        truth = set(np.array(result.data.names)[shown].tolist())
        assert truth == set(example.labels)
        rows = page.tag_table(example, result).rows
        marked = {row[0] for row in rows if any(mark.text == "true" for mark in row[2])}
        assert marked == truth & {tag.name for tag in example.tags}
        assert [tag.score for tag in example.tags] == sorted((t.score for t in example.tags), reverse=True)


def test_certificates_hold(result):
    fits = {fit.name: fit for fit in result.certificates}
    for fit in fits.values():
        assert fit.lower_bound <= fit.objective
    convex, alternating = fits[result.headline], fits[result.alternation]
    assert convex.gap <= 2e-3 + 1e-12
    assert alternating.lower_bound == convex.lower_bound
    assert result.traces[result.headline][-1] == pytest.approx(convex.objective)
    assert np.all(result.traces[result.alternation] >= convex.lower_bound * (1 - 1e-9))


def test_zero_shot_lies_between_chance_and_ceiling(result):
    by_name = {method.name: method for method in result.methods}
    best = by_name[result.headline].zero_shot.miap
    assert by_name["chance"].zero_shot.miap + 0.1 < best
    assert best < by_name["ceiling: all labels annotated"].zero_shot.miap


def test_only_methods_without_annotations_of_unseen_labels_compete(result):
    assert [method.name for method in result.methods if method.fair] == ["TAEP", "TAEP-H", "TAEP-C"]
    for table in page.result_tables(result):
        assert {row for row, _ in table.strong} <= {0, 1, 2}
        column = [float(row[4]) for row in table.rows[:3]]
        assert {row for row, c in table.strong if c == 4} == {i for i in range(3) if column[i] == min(column)}


def test_the_same_seed_gives_the_same_numbers(result, folder):
    again = run_demo(folder / "again.html", quick=True)
    assert again.methods == result.methods
    assert again.choices == result.choices
    other = run_demo(folder / "other.html", quick=True, seed=1)
    assert other.methods != result.methods


def test_version_and_help():
    shown = CliRunner().invoke(cli.app, ["--version"])
    assert (shown.exit_code, shown.output) == (0, f"unseen {unseen.__version__}\n")
    assert "demo" in CliRunner().invoke(cli.app, ["--help"]).output


def _refuse(*args, **kwargs):
    raise AssertionError("the work must not begin")


@pytest.mark.parametrize("where", ["a directory", "below a file"])
def test_an_unwritable_output_is_refused_before_the_work(tmp_path, monkeypatch, where):
    monkeypatch.setattr("unseen.demo.run_demo", _refuse)
    (tmp_path / "file").write_text("mine")
    output = tmp_path if where == "a directory" else tmp_path / "file" / "report.html"
    done = CliRunner().invoke(cli.app, ["demo", "--output", str(output)])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("unseen demo: --output: ")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_checking_an_output_leaves_nothing_behind(tmp_path):
    check_output(tmp_path / "new" / "folder" / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_missing_matplotlib_is_one_line(tmp_path, monkeypatch):
    def missing():
        raise ImportError('Install the extra: pip install "unseen[plots]"')

    monkeypatch.setattr("unseen.evaluation.plots.require_matplotlib", missing)
    done = CliRunner().invoke(cli.app, ["demo", "--output", str(tmp_path / "report.html")])
    assert done.exit_code == 2
    assert done.stderr == 'unseen demo: Install the extra: pip install "unseen[plots]"\n'
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_is_one_line_and_leaves_nothing(tmp_path):
    program = (
        "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "runpy.run_module('unseen', run_name='__main__', alter_sys=True)"
    )
    command = [sys.executable, "-u", "-c", program, "demo", "--output", str(tmp_path / "report.html")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "tuning" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert errors == "unseen demo: interrupted, nothing was written.\n"
    assert list(tmp_path.iterdir()) == []


def test_importing_the_library_loads_no_command_line_and_no_plots():
    program = "import sys, unseen; print(sorted({'matplotlib', 'typer', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
