"""Experiments: blind to unseen labels, the same bits for the same seed, and nothing is computed twice."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from unseen import LabelSpace, make_tagged_scenes
from unseen.baselines import DMP, LatEm
from unseen.ensembles import BackboneKnowledge
from unseen.evaluation.metrics import Summary
from unseen.evaluation.protocol import alternating_split, named_split, training_view
from unseen.experiment import runner
from unseen.experiment.data import ExperimentData, SideBySide
from unseen.experiment.methods import METHODS, Method
from unseen.experiment.runner import (
    FACTORS,
    MAIN,
    SearchPlan,
    class_splits,
    frame,
    run_cell,
    run_cells,
    run_experiment,
    solver_cells,
    strength_cells,
)  # fmt: skip
from unseen.experiment.tables import interval
from unseen.taep import TAEP

PLAN = SearchPlan(halvings=1, most_images=80)


SMALL = (
    Method("DMP", "paper", DMP(), ({"alpha": [0.1, 10.0]}, {"center": [True, False]})),
    Method("TAEP", "paper", TAEP(tol=5e-2), ({"rank": [2, 4]}, {"gamma": [0.01, 1.0]})),
    Method("TAEP-H", "paper", TAEP(tol=5e-2), ({"lam": [0.1, 1.0]},), relations="hierarchy"),
)


@pytest.fixture(scope="module")
def data():
    scenes = make_tagged_scenes(n_train=200, n_test=80)
    order = np.concatenate([scenes.seen, scenes.unseen])
    relations = np.empty((len(order), len(order)))
    relations[np.ix_(order, order)] = scenes.relations("hierarchy")  # given seen first; wanted by column
    Y = np.vstack([scenes.Y_train, scenes.Y_test])
    is_train = np.arange(len(Y)) < 200
    return ExperimentData(
        "scenes",
        tuple(scenes.names),
        Y,
        is_train,
        {"simulated": np.vstack([scenes.X_train, scenes.X_test])},
        {"simulated": LabelSpace(scenes.names, scenes.labels.vectors)},
        relations={"hierarchy": relations},
    )


@pytest.fixture(scope="module")
def splits(data):
    return class_splits(alternating_split(data.labels), 1, seed=0)


@pytest.fixture(scope="module")
def done(data, splits):
    return run_experiment(data, splits, SMALL, plan=PLAN)


def contents(experiment):
    return [json.dumps(result, sort_keys=True) for result in experiment.results]


def test_every_method_has_a_row_on_every_split(done, splits):
    rows = [(cell.method.name, cell.split_name) for cell in done.cells]
    assert rows == [(method.name, name) for method in SMALL for name in splits]
    for result in done.results:
        assert 0 < result["held_out"] < 1
        assert 0 < result["held_out_error"] < 0.5


def test_stages_go_on_from_the_choice_before(done):
    for _, result in done.of("TAEP"):
        stages = [[row for row in result["searched"] if row["stage"] == stage] for stage in (1, 2)]
        assert [len(rows) for rows in stages] == [3, 3]  # two values each, and the default
        (rank,), (gamma,) = ([row for row in rows if row["chosen"]] for rows in stages)
        assert result["params"] == rank["params"] | gamma["params"]
        assert (result["held_out"], result["held_out_error"]) == (gamma["held_out"], gamma["held_out_error"])
        # The default of the second stage is the choice of the first: the same model on the same folds.
        (default,) = (row for row in stages[1] if row["default"])
        assert default["held_out"] == rank["held_out"]


def test_a_rank_searched_as_a_share_of_the_labels_is_refitted_as_that_share(data, splits, monkeypatch):
    fitted = []
    fit = TAEP.fit
    monkeypatch.setattr(TAEP, "fit", lambda self, *args: fitted.append(self.rank) or fit(self, *args))
    method = Method("TAEP", "paper", TAEP(rank=0.2, tol=0.1), ({"rank": [0.2, 1.0]},))
    (result,) = run_experiment(data, {MAIN: splits[MAIN]}, [method], plan=PLAN).results
    assert set(map(repr, fitted)) == {"0.2", "1.0"}
    assert repr(result["params"]["rank"]) == repr(fitted[-1])


def test_a_clear_gain_leaves_the_first_source_of_label_vectors_and_nothing_less_does(data, splits):
    (poor,), (X,) = data.vectors.values(), data.features.values()
    good = LabelSpace(poor.names, data.Y.T @ X / data.Y.sum(axis=0)[:, None])  # what the labels look like
    method = replace(SMALL[1], stages=({"gamma": [0.1]},), vectors=("first", "second"))
    for first, second, choice in ((poor, poor, "first"), (poor, good, "second"), (good, poor, "first")):
        given = replace(data, vectors={"first": first, "second": second})
        (result,) = run_experiment(given, {MAIN: splits[MAIN]}, [method], plan=SearchPlan(3, 100)).results
        assert result["vectors"] == choice


def test_repeats_run_random_methods_again_with_the_parameters_chosen_once(data, splits):
    rivals = (SMALL[0], Method("LatEm-M", "paper", LatEm(max_iter=2), ({"alpha": [0.0, 0.1]},)))
    found = run_experiment(data, splits, rivals, plan=PLAN, repeats=3)
    repeats = [(cell, result) for cell, result in zip(found.cells, found.results, strict=True) if cell.repeat]
    assert [(cell.method.name, cell.split_name, cell.seed) for cell, _ in repeats] == [
        ("LatEm-M", MAIN, 1),
        ("LatEm-M", MAIN, 2),
    ]
    (_, first), _ = found.of("LatEm-M")
    assert first["searched"]
    assert all(result["params"] == first["params"] and not result["searched"] for _, result in repeats)
    assert len({tuple(result["zero-shot"]) for result in (first, *(result for _, result in repeats))}) == 3


def test_same_seed_same_bits_whatever_the_number_of_jobs(data, splits, done):
    assert contents(run_experiment(data, splits, SMALL, plan=PLAN, n_jobs=2)) == contents(done)
    assert contents(run_experiment(data, splits, SMALL, plan=PLAN, seed=1)) != contents(done)


def searched(data, split, method):
    """Everything that the search saw or decided, and the test figures."""
    (result,) = run_experiment(data, {MAIN: split}, [method], plan=PLAN).results
    return {name: result[name] for name in ("params", "vectors", "held_out", "searched")}, result["zero-shot"]


@pytest.mark.parametrize("method", SMALL, ids=lambda method: method.name)
@pytest.mark.parametrize("kind", ["plain", "side by side"])
def test_nothing_about_an_unseen_label_reaches_the_search(data, splits, method, kind):
    """Other annotations, other vectors and other relations of unseen labels: the same search, bit for bit."""
    rng, split, space = np.random.default_rng(5), splits[MAIN], data.vectors["simulated"]
    unseen = np.array(split.unseen)
    Y, vectors, R = np.array(data.Y), space.vectors.copy(), data.relations["hierarchy"].copy()
    train = np.flatnonzero(data.is_train)
    Y[np.ix_(train, unseen)] = Y[np.ix_(rng.permutation(train), unseen)]
    vectors[unseen] = rng.normal(size=(len(unseen), vectors.shape[1]))
    R[unseen] = R[:, unseen] = rng.random()

    def with_vectors(matrix):
        one = LabelSpace(space.names, matrix)
        other = LabelSpace(space.names, matrix[:, ::-1])
        return {"vectors": {"simulated": one if kind == "plain" else SideBySide((one, other))}}

    before, figures = searched(replace(data, **with_vectors(space.vectors)), split, method)
    changed = replace(data, Y=Y, relations={"hierarchy": R}, **with_vectors(vectors))
    after, other_figures = searched(changed, split, method)
    assert before["searched"]
    assert after == before
    assert other_figures != figures


def test_one_seen_label_cannot_be_searched_on(data):
    split = named_split(data.labels, data.labels[:1])
    with pytest.raises(ValueError, match=r"^splits: "):
        run_experiment(data, {MAIN: split}, SMALL[:1], plan=PLAN)
    assert run_experiment(data, {MAIN: split}, SMALL[:1], search=False).results


def test_finished_parts_are_found_again_and_damaged_ones_computed_again(data, splits, done, tmp_path, monkeypatch):
    main = {MAIN: splits[MAIN]}
    first = run_experiment(data, main, SMALL[:1], plan=PLAN, store=tmp_path)
    (part,) = tmp_path.iterdir()
    calls = []
    real = runner.run_cell
    monkeypatch.setattr(runner, "run_cell", lambda *args: calls.append(args) or real(*args))
    again = run_experiment(data, main, SMALL[:1], plan=PLAN, store=tmp_path)
    assert contents(again) == contents(first)
    assert list(again.results[0]["labels"]) == list(first.results[0]["labels"])  # columns of a table
    assert not calls
    whole = part.read_text()
    changed = whole.replace(repr(first.results[0]["held_out"]), "0.5")
    for damage in (whole[: len(whole) // 2], changed, "[]", ""):
        part.write_text(damage)
        calls.clear()
        again = run_experiment(data, main, SMALL[:1], plan=PLAN, store=tmp_path)
        assert contents(again) == contents(first)
        assert len(calls) == 1
        assert part.read_text() == whole


def test_a_stopped_run_keeps_what_is_finished(data, splits, tmp_path, monkeypatch):
    real, calls = runner.run_cell, []

    def stopping(*args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(runner, "run_cell", stopping)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(data, splits, SMALL[:1], search=False, store=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    run_experiment(data, splits, SMALL[:1], search=False, store=tmp_path)
    assert len(calls) == 3


@pytest.mark.parametrize("change", ["seed", "data", "grid", "plan"])
def test_another_input_is_another_part(data, splits, tmp_path, change):
    main = {MAIN: splits[MAIN]}
    run_experiment(data, main, SMALL[:1], plan=PLAN, store=tmp_path)
    method, plan, seed, given = SMALL[0], PLAN, 0, data
    if change == "seed":
        seed = 1
    elif change == "data":
        given = replace(data, features={"simulated": data.features["simulated"] + 1e-6})
    elif change == "grid":
        method = replace(method, stages=({"alpha": [0.1, 1.0]},))
    else:
        plan = SearchPlan(halvings=1, most_images=60)
    run_experiment(given, main, [method], plan=plan, seed=seed, store=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_methods_without_their_inputs_are_left_out_and_named(data, splits):
    bare = replace(data, relations={})
    found = run_experiment(bare, {MAIN: splits[MAIN]}, (SMALL[0], SMALL[2], METHODS[-1]), search=False)
    assert {cell.method.name for cell in found.cells} == {"DMP"}
    assert "hierarchy" in found.left_out["TAEP-H"]
    assert "logits" in found.left_out[METHODS[-1].name]
    with pytest.raises(ValueError, match=r"^methods: "):
        run_experiment(bare, splits, SMALL[2:])


def test_random_splits_are_halves_and_more_of_them_begin_with_the_fewer(data):
    main = alternating_split(data.labels)
    few, many = class_splits(main, 2, seed=3), class_splits(main, 4, seed=3)
    assert list(many)[:3] == list(few)
    assert all(many[name] == few[name] for name in few)
    assert len({split.seen for split in many.values()}) == 5
    assert all(sorted(s.seen + s.unseen) == sorted(main.seen + main.unseen) for s in many.values())


@pytest.mark.parametrize(("n_labels", "n_others"), [(2, 1), (3, 2), (4, 5), (5, 7)])
def test_random_splits_are_all_different(n_labels, n_others):
    splits = class_splits(alternating_split([f"label {i}" for i in range(n_labels)]), 7, seed=0)
    assert len({split.seen for split in splits.values()}) == len(splits) == 1 + n_others
    assert list(splits) == [MAIN, *(f"random {i + 1}" for i in range(n_others))]


def test_interval_is_students():
    part = interval([1.0, 2.0, 3.0])
    assert part.mean == 2.0
    assert part.half == pytest.approx(4.302653 / np.sqrt(3), rel=1e-6)  # t of 2 degrees of freedom, s = 1
    assert np.isnan(interval([1.0]).half)


def test_label_figures_average_to_the_macro_f1(done):
    for result in done.results:
        if not np.isnan(result["labels"]["f1"]).any():
            assert np.mean(result["labels"]["f1"]) == pytest.approx(Summary(*result["zero-shot"]).macro_f1)


def test_studies_start_from_the_choice(data, done):
    cells = strength_cells(done)
    assert {cell.at for cell in cells} == set(FACTORS)
    _, chosen = done.of("TAEP")[0]
    same = next(c for c in cells if c.curve == "TAEP" and c.at == 1.0 and c.split_name == MAIN)
    assert run_cell(same, data, PLAN)["zero-shot"] == chosen["zero-shot"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_alternation_is_tested_at_each_of_its_last_iterates(data, done, monkeypatch):
    monkeypatch.setattr(runner, "RANKS", (0.3, 1.0))
    monkeypatch.setattr(runner, "ITERATES", 4)
    for options in runner.SOLVERS.values():
        monkeypatch.setitem(options, "beta", 0.3)  # with a strong regulariser there is nothing to cycle between
    for options in (options for options in runner.SOLVERS.values() if "max_iter" in options):
        monkeypatch.setitem(options, "max_iter", 7)
    cells = solver_cells(done)
    rows = frame(cells, run_cells(cells, data, PLAN), data)
    counts = rows.groupby(["curve", "at"]).size()
    assert (counts["alternation"] == 8).all()  # two protocols
    assert (counts[["convex", "rounded"]] == 2).all()
    bounds = rows[rows.curve == "convex"].groupby("at").lower_bound.max()
    assert (rows.objective >= rows["at"].map(bounds)).all()
    # One fit keeps the objective of every iteration: the last four of them were tested, in their order. They agree
    # to the tolerance of the inner problems.
    cell = next(cell for cell in cells if cell.curve == "alternation" and cell.at == 0.3)
    (X,) = data.features.values()
    train = training_view(X[data.is_train], data.Y[data.is_train], cell.split)
    space = data.vectors["simulated"]
    sides = space.select(cell.split.seen_names), space.select(cell.split.unseen_names)
    model = TAEP(**{"tol": 5e-2, **cell.params}).fit(train.X, train.Y, *sides)
    tested = rows[(rows.curve == "alternation") & (rows["at"] == 0.3) & (rows.protocol == "zero-shot")]
    assert len(model.objective_trace_) == 7
    assert tested.objective.tolist() == pytest.approx(model.objective_trace_[-4:].tolist(), rel=0.01)
    assert np.ptp(tested.objective) > 0.02 * tested.objective.max()  # so another order would not agree
    assert tested.iterate.tolist() == [-2, -1, 0, 1]


def test_features_that_are_not_finite_are_refused(data):
    X = data.features["simulated"].copy()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"^features: 'simulated'"):
        replace(data, features={"simulated": X})


def test_a_split_of_other_labels_is_refused(data):
    turned = alternating_split(tuple(reversed(data.labels)))
    with pytest.raises(ValueError, match=r"^splits: "):
        run_experiment(data, {"turned": turned}, SMALL[:1], search=False)


@pytest.fixture(scope="module")
def two_networks(data):
    """The second of them has classes with names."""
    rng = np.random.default_rng(0)
    (features,) = data.features.values()
    (space,) = data.vectors.values()
    classes = LabelSpace([f"class {k}" for k in range(15)], rng.normal(size=(15, space.vectors.shape[1])))
    return replace(
        data,
        features={"plain": 10.0 * features, "named": rng.gamma(1.0, size=(len(features), 7))},
        logits={"named": rng.normal(size=(len(features), 15))},
        classes={"simulated": BackboneKnowledge(classes)},
    )


def test_what_methods_of_the_open_track_are_given(two_networks):
    named = two_networks.features["named"]
    (logits,) = two_networks.logits.values()
    alone, with_taep, with_stacked = (method for method in METHODS if method.track == "open")
    assert {two_networks.backbone(method) for method in (alone, with_taep, with_stacked)} == {"named"}
    np.testing.assert_array_equal(two_networks.columns(alone, "named"), logits)
    np.testing.assert_array_equal(two_networks.columns(with_taep, "named"), np.hstack([named, logits]))
    np.testing.assert_array_equal(two_networks.columns(with_stacked, "named"), np.hstack([named, logits]))
