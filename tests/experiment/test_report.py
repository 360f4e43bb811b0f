"""`unseen reproduce`: one call makes every table and figure, the same bytes for the same seed."""

import csv
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from scripts.make_results import collect
from tests.experiment.files import write_files
from typer.testing import CliRunner

from unseen import cli
from unseen.baselines import LatEm
from unseen.evaluation.protocol import CLASS_SPLITS, alternating_split
from unseen.experiment import report, tables
from unseen.experiment.data import read_data
from unseen.experiment.methods import METHODS, Method
from unseen.experiment.runner import PROTOCOLS, SOLVERS, SearchPlan
from unseen.taep import TAEP

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

CSV_FILES = ("table1", "table2", "rows", "labels", "search", "claims")
ROWS = tables.read_published()
ROUGH = TAEP(rank=3, tol=0.1, max_iter=5)
QUICK = tuple(
    replace(method, stages=(), model=method.model if method.name == "DMP" else ROUGH)
    for method in METHODS
    if method.name in ("DMP", "TAEP", "TAEP-H", "TAEP-C")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("files") / "data"
    write_files(place)
    return place


@pytest.fixture(scope="module")
def data(folder):
    return read_data("scenes", folder)


@pytest.fixture(scope="module")
def result(data, tmp_path_factory):
    return report.reproduce(
        data, tmp_path_factory.mktemp("out"), methods=QUICK, n_splits=2, search=False, command="unseen reproduce x"
    )


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_all_files_are_written_and_the_tables_agree(result):
    names = {path.name for path in result.folder.iterdir()}
    assert {f"{name}.csv" for name in CSV_FILES} <= names
    figures = {f"{name}.{kind}" for name in ("figure2", "solvers", "labels") for kind in ("png", "svg")}
    assert {"report.html", "results.md", "cells", *figures} <= names
    page, text = unescape((result.folder / "report.html").read_text()), (result.folder / "results.md").read_text()
    for row in rows_of(result.folder / "table1.csv"):
        for field in ("miap", "map", "micro_f1", "f1_at_5"):
            shown = f"{100 * float(row[field]):.2f}"
            assert shown in page
            assert shown in text
    for title in ("Tables 1 and 2", "Figure 2", "Solver and rank", "The paper's claims", "Unseen labels"):
        assert title in page
    assert re.findall(r"^\*\*(.*)\*\*$|^!\[(.*?):", text, re.MULTILINE) == [
        ("Table 1: zero-shot", ""), ("Table 2: generalized", "")
    ]  # fmt: skip  # the Markdown file is the short one
    assert "unseen reproduce x" in text
    assert not re.search(r"(src|href)=\"http", page)


def test_the_same_seed_writes_the_same_bytes(result, data, tmp_path):
    options = {"methods": QUICK, "n_splits": 2, "search": False, "command": "unseen reproduce x"}
    report.reproduce(data, tmp_path, n_jobs=2, **options)
    for name in (*(f"{name}.csv" for name in CSV_FILES), "figure2.svg", "results.md", "report.html"):
        assert (tmp_path / name).read_bytes() == (result.folder / name).read_bytes(), name


def test_intervals_are_those_of_the_rows(result):
    rows = rows_of(result.folder / "rows.csv")
    miap = [
        float(row["miap"])
        for row in rows
        if not row["study"]
        and row["method"] == "DMP"
        and row["protocol"] == "zero-shot"
        and row["split"] != "main split"
    ]
    found = tables.interval(result.figures("zero-shot", random=True).loc["DMP"].miap)
    assert found.mean == pytest.approx(np.mean(miap))
    assert found.half == pytest.approx(12.7062047 * abs(miap[0] - miap[1]) / 2)  # Student's t


def test_verdicts_follow_from_the_intervals(result):
    found = tables.differences(result)
    assert {part.claim for part in found} >= {"TAEP is better than the baselines", "Auxiliary information helps"}
    for part in found:
        low, high = part.splits.mean - part.splits.half, part.splits.mean + part.splits.half
        assert part.verdict == ("above" if low > 0 else "below" if high < 0 else "inconclusive")


def test_printed_figures_stand_beside_the_papers_data_set_and_split_only(result, monkeypatch):
    named = replace(result.experiment.data, name="voc2007")
    renamed = replace(result, experiment=replace(result.experiment, data=named))
    for other in (result, renamed):
        assert "(printed)" not in {getattr(row[0], "text", "") for row in tables.main_tables(other)[0].rows}
    assert tables.main_tables(result)[0].columns[1:5] == ("MiAP", "mAP", "F1@3", "F1@5")
    monkeypatch.setattr(tables, "VOC_CLASSES", named.labels)
    table = tables.main_tables(renamed)[0]
    names = [getattr(row[0], "text", row[0]) for row in table.rows]
    row = table.rows[names.index("TAEP") + 1]
    assert table.columns[:6] == ("method", "MiAP", "mAP", "micro-F1", "macro-F1", "Hamming")
    assert row[0].text == "(printed)"
    printed = [57.42, None, 38.48, 42.33, 24.98]
    ours = result.figures("zero-shot").loc[("TAEP", "main split"), list(tables.PAPERS.values())]
    shown = [
        "-" if value is None else f"{value:.2f} ({round(100 * own, 2) - value:+.2f})"
        for value, own in zip(printed, ours, strict=True)
    ]
    assert row[1:6] == shown
    assert "in brackets" in tables.main_tables(renamed)[1].note
    assert any("4,952 in the paper" in line for line in report.notes(renamed))


def test_random_methods_show_the_spread_over_runs_of_the_same_parameters(data, tmp_path):
    latem = Method("LatEm-M", "paper", LatEm(max_iter=2), ({"alpha": [0.0, 0.1]},))
    quick = (QUICK[0], latem)
    found = report.reproduce(data, tmp_path, methods=quick, n_splits=0, plan=SearchPlan(1, 60))
    rows = [row for row in rows_of(tmp_path / "rows.csv") if row["protocol"] == "zero-shot"]
    runs = {name: [float(row["map"]) for row in rows if row["method"] == name] for name in ("DMP", "LatEm-M")}
    assert {name: len(values) for name, values in runs.items()} == {"DMP": 1, "LatEm-M": 5}
    assert len({row["parameters"] for row in rows}) == 2
    shown = {getattr(row[0], "text", row[0]): getattr(row[2], "text", row[2]) for row in
             tables.main_tables(found)[0].rows}  # fmt: skip
    mean, spread = 100 * np.mean(runs["LatEm-M"]), 100 * np.std(runs["LatEm-M"], ddof=1)
    assert shown == {"DMP": f"{100 * runs['DMP'][0]:.2f}", "LatEm-M": f"{mean:.2f} ± {spread:.2f}"}
    (row,) = (row for row in rows_of(tmp_path / "table1.csv") if row["method"] == "LatEm-M")
    assert 100 * float(row["map_std"]) == pytest.approx(spread)


def test_the_solver_table_has_means_and_deviations_over_the_iterates(result):
    rows = [
        row for row in rows_of(result.folder / "rows.csv")
        if row["study"] == "solvers" and row["curve"] == "alternation" and row["at"] == "0.1"
    ]  # fmt: skip
    of_iterates = [[float(row["miap"]) for row in rows if row["protocol"] == name] for name in PROTOCOLS]
    assert [len(values) for values in of_iterates] == [10, 10]
    table = tables.solver_table(result)
    assert [row[1] for row in table.rows] == [*SOLVERS] * 4
    place = list(SOLVERS).index("alternation")
    for cell, values in zip(table.rows[place][-2:], of_iterates, strict=True):
        assert cell == f"{100 * np.mean(values):.2f} ± {100 * np.std(values, ddof=1):.2f}"
    assert "±" not in "".join(table.rows[0])


def test_results_of_several_data_sets_become_one_page(result, data, tmp_path):
    papers = replace(data, name="voc2007", features={"vgg19": data.features[data.main_features]}, logits={})
    report.reproduce(papers, tmp_path / "voc2007", methods=QUICK, n_splits=0, search=False)
    folders = {"voc2007": tmp_path / "voc2007", "other": result.folder}
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "results_reading.md").write_text("# Results\n\nRead this first.\n")
    text = collect(folders, tmp_path / "docs").read_text()
    assert text.startswith("# Results\n\nRead this first.\n\n## The paper, reproduced on voc2007, vgg19\n")
    assert text.count("\n**Table 1: zero-shot**\n") == 2
    assert text.count("\n**Solver and rank**\n") == 1  # on the paper's own data set and features
    assert re.findall(r"!\[.*\]\((.*)\)", text) == ["images/results/voc2007_figure2.png"]
    assert (tmp_path / "docs" / "images" / "results" / "voc2007_figure2.png").is_file()
    rows = rows_of(tmp_path / "docs" / "results.csv")
    assert len(rows) == 2 * 2 * len(QUICK)
    assert {row["run"] for row in rows} == set(folders)
    assert all(row["parameters"] == "" and float(row["miap"]) > 0 for row in rows)


def test_printed_rows_tell_the_protocol():
    """Hamming * L / (1 - F1) = k + a: the top 3 labels, and 1.0633 true ones per image of VOC2007's ZSL test."""
    for (protocol, data_set, method), row in tables.PRINTED.items():
        if (protocol, data_set) == ("zero-shot", "voc2007") and not method.startswith("TAEP"):
            assert row.hamming * 10 / (1 - row.micro_f1) == pytest.approx(4.0633, abs=0.02)
    assert tables.PRINTED["generalized", "voc2012", "TAEP-H"].hamming == pytest.approx(0.1294)
    assert len(tables.PRINTED) == 28


def test_without_hit_counts_taep_c_is_left_out_with_a_note(tmp_path):
    write_files(tmp_path / "bare", with_counts=False)
    data = read_data("scenes", tmp_path / "bare")
    found = report.reproduce(data, tmp_path / "out", methods=QUICK, n_splits=0, search=False)
    assert "TAEP-C is left out" in (found.folder / "results.md").read_text()
    assert "verdict" not in tables.claims_table(found).columns


def test_search_settings_are_in_the_table(data, tmp_path):
    searched = [replace(method, stages=({"alpha": [0.1, 10.0]},)) for method in QUICK if method.name == "DMP"]
    found = report.reproduce(data, tmp_path, methods=searched, n_splits=0, plan=SearchPlan(1, 60))
    choice = tables.choice_table(found)
    assert choice.rows[0][0] == "DMP"
    assert choice.rows[0][3] == "3"  # with the default
    assert "60 training images" in choice.note
    rows = rows_of(tmp_path / "search.csv")
    assert [row["params"] for row in rows] == ["{'alpha': 1.0}", "{'alpha': 0.1}", "{'alpha': 10.0}"]
    assert [row["default"] for row in rows] == ["True", "False", "False"]
    (chosen,) = (row for row in rows if row["chosen"] == "True")
    held_out = (f"{100 * float(chosen[name]):.2f}" for name in ("held_out", "held_out_error"))
    assert choice.rows[0][4] == " ± ".join(held_out)


def run_command(*arguments):
    return CliRunner().invoke(cli.app, ["reproduce", *map(str, arguments)])


def test_the_command_takes_named_labels_and_methods(folder, tmp_path, data):
    unseen = alternating_split(data.labels).seen_names[:3]
    done = run_command(
        "--data", folder / "scenes_labels.csv", "--unseen", ",".join(unseen), "--splits", 0, "--no-search",
        "--methods", "dmp, ESZSL", "--jobs", 1, "-o", tmp_path / "out",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = rows_of(tmp_path / "out" / "labels.csv")
    assert {row["name"] for row in rows} == set(unseen)
    assert {row["method"] for row in rows} == {"DMP", "ESZSL"}


def test_the_command_takes_a_published_split(folder, tmp_path, monkeypatch, data):
    seen, unseen = data.labels[:5], data.labels[5:9]
    monkeypatch.setitem(CLASS_SPLITS, "coco48/17", (seen, unseen))
    done = run_command(
        "scenes", "--data", folder, "--classes", "coco48/17", "--methods", "dmp", "--splits", 0, "--no-search",
        "--jobs", 1, "-o", tmp_path / "out",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert {row["name"] for row in rows_of(tmp_path / "out" / "labels.csv")} == set(unseen)
    text = (tmp_path / "out" / "results.md").read_text()
    assert "| DualCoOp | 50.3 |" in text
    assert "github.com/sunxm2357/DualCoOp" in text


def test_this_runs_figures_stand_beside_published_ones_of_as_many_labels(result, monkeypatch):
    assert tables.published_tables(result) == []
    split = result.experiment.split
    monkeypatch.setitem(CLASS_SPLITS, "coco48/17", (split.seen_names, split.unseen_names))
    first, second = tables.published_tables(result)
    assert "this run" not in {row[-1] for row in first.rows + second.rows}  # 17 and 80 labels were scored there
    monkeypatch.setattr(
        tables, "read_published", lambda: [row | {"labels": f"{len(split.unseen)} unseen"} for row in ROWS[:1]]
    )
    own = [row[:2] for row in tables.published_tables(result)[0].rows if row[-1] == "this run"]
    ours = result.figures("zero-shot").droplevel("split").micro_f1
    assert own == [[ours.idxmax(), tables.percent(ours.max())]]  # the best of the only track


def test_published_figures_are_complete_and_have_a_source():
    for row in ROWS:
        assert all(row.values())
        assert set(row["split"].split()) <= set(CLASS_SPLITS)
        assert row["protocol"] in PROTOCOLS
        assert row["metric"] in tables.PUBLISHED_METRICS
        assert 0 < float(row["value"]) < 100
        assert row["source"].startswith("https://")
    assert len({(row["split"], row["labels"], row["metric"], row["method"]) for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scenes", "--data", "nowhere"], "--data"),
        (["scenes", "--data", "{folder}", "--jobs", "0"], "--jobs"),
        (["scenes", "--data", "{folder}", "--unseen", "unicorn"], "unicorn"),
        (["scenes", "--data", "{folder}", "--unseen", "cow", "--classes", "coco48/17"], "--classes"),
        (["scenes", "--data", "{folder}", "--classes", "coco48/17"], "the data lack 50"),
        (["scenes", "--data", "{folder}", "--methods", "nonsense"], "--methods"),
        (["scenes", "--data", "{folder}", "--features", "{folder}/scenes_labels.csv"], "--features"),
    ],
)
def test_bad_input_fails_in_one_line(folder, tmp_path, arguments, message):
    done = run_command(*(part.format(folder=folder) for part in arguments), "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


def test_an_interrupted_run_says_how_to_continue(folder, tmp_path, monkeypatch):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "reproduce", stop)
    done = run_command("scenes", "--data", folder, "-o", tmp_path / "out")
    assert done.exit_code == 130
    assert "cells" in done.output
