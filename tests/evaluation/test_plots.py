"""Figures show the numbers they are given, and leave no trace behind."""

import re
import sys
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.text import Text

from unseen.evaluation import plots
from unseen.evaluation.metrics import reliability
from unseen.evaluation.plots import Curve, Panel
from unseen.explanation import Explanation, Part

ODD = ["b $^$ c", "a$b$c", "US$", r"back\slash"]
DRAW = {
    "grid": lambda names: plots.label_grid(np.eye(len(names)), names, names, "average precision"),
    "curves": lambda names: plots.curves([Panel("MiAP", "rank", ("1",), tuple(Curve(n, (1.0,)) for n in names))]),
    "relations": lambda names: plots.relation_map(np.ones((len(names),) * 2), names, 2),
    "map": lambda names: plots.label_map({names[0]: np.eye(len(names))}, names, np.arange(len(names)) < 2),
    "contributions": lambda names: plots.contributions(_explanation(dict.fromkeys(names, 0.25))),
    "traces": lambda names: plots.objective_traces({name: [2.0, 1.0] for name in names}, 0.5),
}


def _explanation(values, offset=0.0, kind="label"):
    parts = tuple(Part(kind, name, value) for name, value in values.items())
    return Explanation("woman", offset + sum(values.values()), offset, parts)


@pytest.mark.parametrize("bound", [4.2, 4.0, 0.0])
def test_traces_are_drawn_as_given_above_the_bound(bound):
    axes = plots.objective_traces({"cycles": [5.0, 7.0, 5.5], "one point": [4.2]}, lower_bound=bound).axes[0]
    assert [line.get_ydata().tolist() for line in axes.lines[:2]] == [[5.0, 7.0, 5.5], [4.2]]
    low, high = axes.get_ylim()
    assert low < bound < 7.0 < high


def test_map_writes_every_name_once_on_each_side_without_overlap():
    rng, names = np.random.default_rng(0), [f"label {i}" for i in range(24)]
    maps = {"a": rng.normal(size=(24, 10)), "b": rng.normal(size=(24, 4))}
    for axes in plots.label_map(maps, names, np.arange(24) < 12).axes:
        texts = [text for text in axes.texts if text.get_text() in names]
        assert sorted(text.get_text() for text in texts) == sorted(names)
        boxes = [text.get_window_extent() for text in texts]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_map_joins_each_unseen_label_to_the_nearest_seen_one_and_states_the_variance_shown():
    vectors = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.9, 0.2, 0.0], [0.1, 2.0, 0.3]])
    spectrum = np.linalg.eigvalsh(np.cov(vectors.T))[::-1]
    figure = plots.label_map({"a": vectors, "b": vectors[:, :2]}, list("abcd"), [True, True, False, False])
    flat = [np.diff(line.get_xydata(), axis=0) for line in figure.axes[1].lines]
    expected = [np.linalg.norm(vectors[2, :2] - vectors[0, :2]), np.linalg.norm(vectors[3, :2] - vectors[1, :2])]
    np.testing.assert_allclose(np.linalg.norm(flat, axis=2).ravel(), expected)
    assert (
        figure.axes[0].texts[0].get_text().endswith(f" {spectrum[:2].sum() / spectrum.sum():.0%} of the variance")
    )


def test_map_of_two_labels():
    for seen in ([True, False], [True, True], [False, False]):
        axes = plots.label_map({"a": np.array([[1.0], [2.0]]), "b": np.zeros((2, 1))}, ["a", "b"], seen).axes[0]
        assert sum(len(points.get_offsets()) for points in axes.collections) == 2
        assert len(axes.lines) == (seen == [True, False])


@pytest.mark.parametrize("values", [[0.5], [0.0, 0.0], list(np.linspace(-2, 3, 30)), [-1.0] * 8])
@pytest.mark.parametrize("offset", [0.0, -0.75])
def test_bars_sum_to_the_score_bar(values, offset):
    explanation = _explanation({f"label {i}": value for i, value in enumerate(values)}, offset)
    bars = [bar.get_width() for bar in plots.contributions(explanation, most=8).axes[0].patches]
    assert len(bars) == min(len(values), 8) + (len(values) > 8) + (offset != 0.0) + 1
    assert sum(bars[:-1]) == pytest.approx(bars[-1])
    assert bars[-1] == pytest.approx(sum(values) + offset)
    axes = plots.contributions(_explanation({"3": 2.0, "17": -1.0}, kind="image")).axes[0]
    assert axes.patches[0].get_facecolor() != axes.patches[1].get_facecolor()
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["image 3", "image 17", "score of 'woman'"]


def test_a_reliability_diagram_shows_the_shares_and_hollow_marks_where_there_are_few():
    found = reliability([[1, 0, 0, 1]], [[0.9, 0.1, 0.15, 0.95]])
    axes = plots.reliability_diagram({"seen": found}, few=3).axes[0]
    diagonal, curve, filled, hollow = axes.lines
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    np.testing.assert_allclose(curve.get_xydata()[[1, 9]], [[0.125, 0.0], [0.925, 1.0]])
    assert (len(filled.get_xdata()), len(hollow.get_xdata())) == (0, 2)


def test_relation_map_leaves_the_diagonal_blank_and_curves_show_their_intervals():
    R = np.array([[1.0, 0.2, 0.4], [0.2, 1.0, 0.1], [0.4, 0.1, 1.0]])
    axes = plots.relation_map(R, ["a", "b", "c"], 2).axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array().filled(np.nan), np.where(np.eye(3), np.nan, R))
    curve = Curve("TAEP", (1.0, 3.0), (0.5, np.nan), faint=True)
    axes = plots.curves([Panel("MiAP", "rank", ("1", "10"), (curve,))]).axes[0]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [1.0, 3.0])
    np.testing.assert_array_equal(np.array(axes.collections[0].get_segments())[:, :, 1], [[0.5, 1.5], [3.0, 3.0]])


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_names_are_drawn_as_they_are_and_not_as_formulas(draw, tmp_path):
    before, figure = dict(matplotlib.rcParams), draw(ODD)
    assert plots.save(figure, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "b $^$ c" in " ".join(text.get_text() for text in figure.findobj(Text))
    # What matplotlib draws stands in a comment before the outlines of the letters.
    assert "<!-- b $^$ c" in plots.save(figure, tmp_path / "a.SVG").read_text()
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("draw", [DRAW["map"], DRAW["relations"]])
def test_other_scripts_are_left_to_the_fonts_of_the_reader(draw, tmp_path, recwarn):
    figure = draw(["猫", "dog", "自行車"])
    plots.save(figure, tmp_path / "a.png")
    assert ">猫<" in plots.to_svg(figure)
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]
    assert "<text" not in plots.to_svg(draw(["a", "ü", "b"]))


def test_svg_is_wellformed_reproducible_and_its_identifiers_are_its_own():
    one, again, two = (plots.to_svg(DRAW["contributions"](["a"]), 'a "b" <c>', f"{i}-") for i in (1, 1, 2))
    assert ElementTree.fromstring(one).get("aria-label") == 'a "b" <c>'
    assert one == again
    names, others = (re.findall(r'\bid="([^"]+)"', text) for text in (one, two))
    assert len(names) == len({*names, *others}) / 2
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', one)) <= set(names)


def test_bad_arguments_are_refused_by_name_and_nothing_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"^maps: "):
        plots.label_map({"a": np.eye(2)}, list("abc"), [True, False, True])
    with pytest.raises(ValueError, match=r"^relations: "):
        plots.relation_map(np.eye(3), ["a", "b"], 1)
    with pytest.raises(ValueError, match=r"^path: "):
        plots.save(DRAW["contributions"](["a"]), tmp_path / "bars.doc")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"^matplotlib: "):
        plots.require_matplotlib()
