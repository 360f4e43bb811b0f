"""Figures show the numbers they are given, and leave no trace behind."""

from __future__ import annotations

import builtins
import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.text import Text

from unseen.evaluation import plots
from unseen.evaluation.plots import Curve, Panel
from unseen.explanation import Explanation, Part

ODD = ["b $^$ c", "a$b$c", "US$", r"back\slash"]
DRAW = {
    "grid": lambda names: plots.label_grid(np.eye(len(names)), names, names, "average precision"),
    "intervals": lambda names: plots.intervals(dict.fromkeys(names, (1.0, 0.5)), "MiAP", names[:1]),
    "curves": lambda names: plots.curves([Panel("MiAP", "rank", ("1",), tuple(Curve(n, (1.0,)) for n in names))]),
    "relations": lambda names: plots.relation_map(np.ones((len(names),) * 2), names, 2),
    "map": lambda names: plots.label_map({names[0]: np.eye(len(names))}, names, np.arange(len(names)) < 2),
    "contributions": lambda names: plots.contributions(_explanation(dict.fromkeys(names, 0.25))),
    "traces": lambda names: plots.objective_traces({name: [2.0, 1.0] for name in names}, 0.5),
}


def _explanation(values, offset=0.0, kind="label"):
    parts = [Part(kind, name, value) for name, value in values.items()]
    return Explanation(
        "woman", offset + sum(values.values()), offset, tuple(sorted(parts, key=lambda p: -abs(p.value)))
    )


def test_traces_are_drawn_as_given_above_the_bound():
    axes = plots.objective_traces({"cycles": [5.0, 7.0, 5.5], "converges": [6.0, 4.2]}, lower_bound=4.0).axes[0]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [5.0, 7.0, 5.5])
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), [6.0, 4.2])
    low, high = axes.get_ylim()
    assert low < 4.0 < 7.0 < high


@pytest.mark.parametrize("bound", [5.0, 4.0, 0.0])
def test_a_trace_of_one_point_is_drawn(bound):
    low, high = plots.objective_traces({"only": [5.0]}, lower_bound=bound).axes[0].get_ylim()
    assert low < bound <= 5.0 < high


def test_map_writes_every_name_once_on_each_side_without_overlap():
    rng, names = np.random.default_rng(0), [f"label {i}" for i in range(24)]
    maps = {"a": rng.normal(size=(24, 10)), "b": rng.normal(size=(24, 4))}
    for axes in plots.label_map(maps, names, np.arange(24) < 12).axes:
        texts = [text for text in axes.texts if text.get_text() in names]
        assert sorted(text.get_text() for text in texts) == sorted(names)
        boxes = [text.get_window_extent() for text in texts]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_map_states_the_share_of_variance_it_shows():
    before = np.diag([4.0, 3.0, 0.0, 0.0])
    spectrum = np.linalg.eigvalsh(np.cov(before.T))[::-1]
    figure = plots.label_map({"before": before}, list("abcd"), [True, True, False, False])
    stated = [text.get_text() for text in figure.axes[0].texts if "variance" in text.get_text()]
    assert stated == [f"two of the directions: {spectrum[:2].sum() / spectrum.sum():.0%} of the variance"]


def test_map_joins_each_unseen_label_to_the_nearest_seen_one():
    vectors = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.9, 0.2, 0.0], [0.1, 2.0, 0.0]])
    figure = plots.label_map({"a": vectors, "b": vectors}, list("abcd"), [True, True, False, False])
    expected = [np.linalg.norm(vectors[2] - vectors[0]), np.linalg.norm(vectors[3] - vectors[1])]
    for axes in figure.axes:
        lengths = [np.linalg.norm(np.diff(line.get_xydata(), axis=0)) for line in axes.lines]
        np.testing.assert_allclose(lengths, expected)


@pytest.mark.parametrize("seen", [[True, False], [True, True], [False, False]])
@pytest.mark.parametrize("n_dims", [1, 5])
def test_map_of_two_labels(seen, n_dims):
    vectors = np.arange(2.0 * n_dims).reshape(2, n_dims)
    axes = plots.label_map({"a": vectors, "b": np.zeros((2, 1))}, ["a", "b"], seen).axes[0]
    assert sum(len(points.get_offsets()) for points in axes.collections) == 2
    assert len(axes.lines) == (seen == [True, False])


@pytest.mark.parametrize("values", [[0.5], [-1.0, 0.25], [0.0, 0.0], list(np.linspace(-2, 3, 30)), [-1.0] * 8])
@pytest.mark.parametrize("offset", [0.0, -0.75])
def test_bars_sum_to_the_score_bar(values, offset):
    explanation = _explanation({f"label {i}": value for i, value in enumerate(values)}, offset)
    bars = [bar.get_width() for bar in plots.contributions(explanation, most=8).axes[0].patches]
    assert len(bars) == min(len(values), 8) + (len(values) > 8) + (offset != 0.0) + 1
    assert sum(bars[:-1]) == pytest.approx(bars[-1])
    assert bars[-1] == pytest.approx(sum(values) + offset)


def test_signs_of_contributions_have_two_colours_and_images_are_named_as_such():
    axes = plots.contributions(_explanation({"3": 2.0, "17": -1.0}, kind="image")).axes[0]
    assert axes.patches[0].get_facecolor() != axes.patches[1].get_facecolor()
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["image 3", "image 17", "score of 'woman'"]


@pytest.mark.parametrize("n_seen", [0, 2, 3])
def test_relation_map_shows_every_pair_and_leaves_the_diagonal_blank(n_seen):
    R = np.array([[1.0, 0.2, 0.4], [0.2, 1.0, 0.1], [0.4, 0.1, 1.0]])
    axes = plots.relation_map(R, ["a", "b", "c"], n_seen).axes[0]
    shown = np.ma.filled(axes.images[0].get_array(), np.nan)
    np.testing.assert_array_equal(shown, np.where(np.eye(3), np.nan, R))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
    assert len(axes.lines) == (2 if n_seen == 2 else 0)


def test_curves_show_heights_with_their_intervals():
    curve = Curve("TAEP", (1.0, 3.0), (0.5, np.nan), faint=True)
    axes = plots.curves([Panel("MiAP", "rank", ("1", "10"), (curve,))]).axes[0]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [1.0, 3.0])
    np.testing.assert_array_equal(np.array(axes.collections[0].get_segments())[:, :, 1], [[0.5, 1.5], [3.0, 3.0]])


def test_a_name_or_row_too_many_is_refused():
    with pytest.raises(ValueError, match=r"^maps: "):
        plots.label_map({"a": np.eye(2)}, list("abc"), [True, False, True])
    with pytest.raises(ValueError, match=r"^relations: "):
        plots.relation_map(np.eye(3), ["a", "b"], 1)


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_names_are_drawn_as_they_are_and_not_as_formulas(draw, tmp_path):
    before, figure = dict(matplotlib.rcParams), draw(ODD)
    plots.save(figure, tmp_path / "a.png")
    svg = plots.to_svg(figure)
    assert "b $^$ c" in " ".join(text.get_text() for text in figure.findobj(Text))
    assert "<!-- b $^$ c" in svg  # what matplotlib draws, in a comment before the outlines of the letters
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("draw", [DRAW["map"], DRAW["relations"]])
def test_other_scripts_are_left_to_the_fonts_of_the_reader(draw, tmp_path, recwarn):
    figure = draw(["猫", "dog", "自行車"])
    plots.save(figure, tmp_path / "a.png")
    text = plots.to_svg(figure)
    assert ">猫<" in text
    assert ElementTree.fromstring(text) is not None
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]
    assert "<text" not in plots.to_svg(draw(["a", "ü", "b"]))


def test_svg_is_wellformed_reproducible_and_its_identifiers_are_its_own():
    def draw(prefix):
        return plots.to_svg(plots.contributions(_explanation({"a": 1.0, "b": -2.0})), 'a "b" <c>', prefix)

    text = draw("one-")
    assert ElementTree.fromstring(text).get("aria-label") == 'a "b" <c>'
    assert text == draw("one-")
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names))
    assert not set(names) & set(re.findall(r'\bid="([^"]+)"', draw("two-")))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', text)) <= set(names)


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".SVG", b"<?xml")])
def test_save_writes_one_file_of_its_kind(tmp_path, suffix, start):
    path = plots.save(DRAW["contributions"](["a"]), tmp_path / f"bars{suffix}")
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_save_refuses_other_kinds_and_writes_nothing(tmp_path):
    with pytest.raises(ValueError, match=r"^path: "):
        plots.save(DRAW["contributions"](["a"]), tmp_path / "bars.doc")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    true_import = builtins.__import__

    def no_matplotlib(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return true_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    with pytest.raises(ImportError, match=r"^matplotlib: "):
        DRAW["contributions"](["a"])
