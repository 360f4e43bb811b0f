"""Figures show the numbers they are given, whatever their number, and leave no trace behind."""

from __future__ import annotations

import builtins
import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from unseen import Explanation
from unseen.evaluation import figures, label_figures
from unseen.experiment import study_figures
from unseen.experiment.study_figures import Curve, Panel
from unseen.explanation import Part


def _explanation(values: list[float], label: str = "woman") -> Explanation:
    parts = [Part("label", f"label {i}", v) for i, v in enumerate(values)]
    return Explanation(label, sum(values), 0.0, tuple(sorted(parts, key=lambda part: -abs(part.value))))


def _line(figure: Figure, label: str) -> np.ndarray:
    return next(line.get_ydata() for line in figure.axes[0].lines if line.get_label() == label)


def test_traces_are_drawn_as_given_above_the_bound():
    figure = figures.objective_traces({"cycles": [5.0, 7.0, 5.5], "converges": [6.0, 4.2]}, lower_bound=4.0)
    np.testing.assert_array_equal(_line(figure, "cycles"), [5.0, 7.0, 5.5])
    np.testing.assert_array_equal(_line(figure, "converges"), [6.0, 4.2])
    low, high = figure.axes[0].get_ylim()
    assert low < 4.0
    assert high > 7.0


@pytest.mark.parametrize("bound", [5.0, 4.0, 0.0])
def test_a_trace_of_one_point_is_drawn(bound):
    figure = figures.objective_traces({"only": [5.0]}, lower_bound=bound)
    low, high = figure.axes[0].get_ylim()
    assert low < bound <= 5.0 < high
    assert figures.to_svg(figure).endswith("</svg>")


@pytest.mark.parametrize("traces", [{}, {"empty": []}])
def test_an_empty_trace_is_refused(traces):
    with pytest.raises(ValueError, match="traces"):
        figures.objective_traces(traces, 1.0)


@pytest.mark.parametrize("n", [1, 9, 30, 1000])
def test_iterations_are_marked_by_few_integers(n):
    ticks = figures.objective_traces({"a": np.linspace(2, 1, n)}, 1.0).axes[0].get_xticks()
    assert len(ticks) <= 12
    assert all(tick == int(tick) for tick in ticks)


def test_end_labels_of_equal_traces_do_not_cover_each_other():
    figure = figures.objective_traces({"a": [3.0, 2.0], "b": [4.0, 2.0], "c": [5.0, 2.0]}, 2.0)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts[1:]]
    assert len(boxes) == 3
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_map_writes_every_name_once_on_each_side_without_overlap():
    rng = np.random.default_rng(0)
    names = [f"label {i}" for i in range(24)]
    figure = label_figures.label_map(
        {"a": rng.normal(size=(24, 10)), "b": rng.normal(size=(24, 4))}, names, np.arange(24) < 12
    )
    for axes in figure.axes:
        texts = [text for text in axes.texts if text.get_text() in names]
        assert sorted(text.get_text() for text in texts) == sorted(names)
        boxes = [text.get_window_extent() for text in texts]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_map_states_the_share_of_variance_it_shows():
    before = np.diag([4.0, 3.0, 0.0, 0.0]) @ np.eye(4)
    centred = before - before.mean(axis=0)
    spectrum = np.linalg.eigvalsh(centred.T @ centred)[::-1]
    figure = label_figures.label_map({"before": before}, list("abcd"), [True, True, False, False])
    stated = [text.get_text() for text in figure.axes[0].texts if "variance" in text.get_text()]
    assert stated == [f"two of the directions: {spectrum[:2].sum() / spectrum.sum():.0%} of the variance"]


def test_map_joins_each_unseen_label_to_the_nearest_seen_one():
    vectors = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.9, 0.2, 0.0], [0.1, 2.0, 0.0]])
    figure = label_figures.label_map({"a": vectors, "b": vectors}, list("abcd"), [True, True, False, False])
    centred = vectors - vectors.mean(axis=0)
    lengths = [np.linalg.norm(np.diff(line.get_xydata(), axis=0)) for line in figure.axes[0].lines]
    np.testing.assert_allclose(
        lengths, [np.linalg.norm(centred[2] - centred[0]), np.linalg.norm(centred[3] - centred[1])]
    )


@pytest.mark.parametrize("seen", [[True, False], [True, True], [False, False]])
@pytest.mark.parametrize("n_dims", [1, 5])
def test_map_of_two_labels(seen, n_dims):
    vectors = np.arange(2.0 * n_dims).reshape(2, n_dims)
    figure = label_figures.label_map({"a": vectors, "b": np.zeros((2, 1))}, ["a", "b"], seen)
    assert sum(len(points.get_offsets()) for points in figure.axes[0].collections) == 2
    assert len(figure.axes[0].lines) == (seen == [True, False])


def test_map_refuses_a_name_too_many():
    with pytest.raises(ValueError, match="names: 3 names"):
        label_figures.label_map({"a": np.eye(2)}, list("abc"), [True, False])


@pytest.mark.parametrize(
    "values", [[0.5], [-1.0, 0.25], [0.0, 0.0], list(np.linspace(-2, 3, 30)), [1.0] * 9, [-1.0] * 8]
)
def test_bars_sum_to_the_score_bar(values):
    bars = [bar.get_width() for bar in figures.contributions(_explanation(values), most=8).axes[0].patches]
    assert len(bars) == min(len(values), 8) + (len(values) > 8) + 1
    assert sum(bars[:-1]) == pytest.approx(bars[-1])
    assert bars[-1] == pytest.approx(sum(values))


def test_signs_of_contributions_have_two_colours():
    bars = figures.contributions(_explanation([2.0, -1.0, 0.5])).axes[0].patches
    colours = {bar.get_width() > 0: bar.get_facecolor() for bar in bars[:-1]}
    assert colours[True] != colours[False]


def test_svg_is_wellformed_reproducible_and_its_identifiers_are_its_own():
    def draw(prefix):
        return figures.to_svg(figures.contributions(_explanation([1.0, -2.0])), 'a "b" <c>', prefix)

    text = draw("one-")
    root = ElementTree.fromstring(text)
    assert root.get("aria-label") == 'a "b" <c>'
    assert text == draw("one-")
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names))
    assert not set(names) & set(re.findall(r'\bid="([^"]+)"', draw("two-")))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', text)) <= set(names)


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".SVG", b"<?xml")])
def test_save_writes_one_file_of_its_kind(tmp_path, suffix, start):
    path = figures.save(figures.contributions(_explanation([1.0])), tmp_path / f"bars{suffix}")
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_save_refuses_other_kinds_and_writes_nothing(tmp_path):
    with pytest.raises(ValueError, match=r"\.png"):
        figures.save(figures.contributions(_explanation([1.0])), tmp_path / "bars.doc")
    assert list(tmp_path.iterdir()) == []


def test_global_settings_stay_as_they_are():
    before = dict(matplotlib.rcParams)
    figures.to_svg(label_figures.label_map({"a": np.eye(3)}, list("abc"), [True, False, True]))
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    true_import = builtins.__import__

    def no_matplotlib(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return true_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    with pytest.raises(ImportError, match=r'Install the extra: pip install "unseen\[plots\]"'):
        figures.contributions(_explanation([1.0]))


@pytest.mark.parametrize("n_seen", [0, 2, 3])
def test_relation_map_shows_every_pair_and_leaves_the_diagonal_blank(n_seen):
    R = np.array([[1.0, 0.2, 0.4], [0.2, 1.0, 0.1], [0.4, 0.1, 1.0]])
    axes = label_figures.relation_map(R, ["a", "b", "c"], n_seen).axes[0]
    shown = np.ma.filled(axes.images[0].get_array(), np.nan)
    np.testing.assert_array_equal(np.isnan(shown), np.eye(3, dtype=bool))
    assert shown[0, 2] == 0.4
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
    assert len(axes.lines) == (2 if n_seen == 2 else 0)


def test_relation_map_refuses_a_name_too_few():
    with pytest.raises(ValueError, match=r"relations: shape \(3, 3\) for 2 names"):
        label_figures.relation_map(np.eye(3), ["a", "b"], 1)


ODD = ["b $^$ c", "a$b$c", "US$", r"back\slash"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: study_figures.label_grid(np.eye(4), ODD, ODD, "average precision"),
        lambda: study_figures.intervals(dict.fromkeys(ODD, (1.0, 0.5)), "MiAP"),
        lambda: study_figures.curves([Panel("MiAP", "rank", ("1",), tuple(Curve(name, (1.0,)) for name in ODD))]),
        lambda: label_figures.relation_map(np.ones((4, 4)), ODD, 2),
        lambda: label_figures.label_map({ODD[0]: np.eye(4)}, ODD, [True, True, False, False]),
        lambda: figures.contributions(Explanation.of(ODD[0], 1.0, [Part("label", name, 0.25) for name in ODD])),
        lambda: figures.objective_traces({name: [2.0, 1.0] for name in ODD}, 0.5),
    ],
    ids=["grid", "intervals", "curves", "relations", "map", "contributions", "traces"],
)
def test_names_are_drawn_as_they_are_and_not_as_formulas(draw, tmp_path):
    figure = draw()
    figures.save(figure, tmp_path / "a.png")
    drawn = " ".join(text.get_text() for text in figure.findobj(Text))
    assert r"b \$^\$ c" in drawn
    assert "<!-- b $^$ c" in figures.to_svg(figure)  # what matplotlib makes of it, before it draws the letters


def test_other_scripts_are_left_to_the_fonts_of_the_reader(tmp_path, recwarn):
    names = ["猫", "dog", "自行車"]
    for figure in (
        label_figures.label_map({"vectors": np.eye(3)}, names, [True, False, False]),
        label_figures.relation_map(np.ones((3, 3)), names, 1),
    ):
        figures.save(figure, tmp_path / "a.png")
        text = figures.to_svg(figure)
        assert ">猫<" in text
        assert ElementTree.fromstring(text) is not None
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]
    assert "<text" not in figures.to_svg(label_figures.relation_map(np.ones((2, 2)), ["a", "ü"], 1))
