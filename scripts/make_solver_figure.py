"""Draw docs/images/solvers.png: the objective of both solvers on the simulated scenes of `unseen demo`."""

import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from unseen import TAEP, make_tagged_scenes
from unseen.evaluation import plots
from unseen.evaluation.protocol import alternating_split, training_view

scenes = make_tagged_scenes()
train = training_view(scenes.X_train, scenes.Y_train, alternating_split(scenes.names))
labels = scenes.seen_labels, scenes.unseen_labels, scenes.relations("hit counts")
convex = TAEP(rank=4, beta=1.0, gamma=0.1, lam=1.0, loss="max").fit(train.X, train.Y, *labels)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    paper = TAEP(rank=4, beta=1.0, gamma=0.1, lam=1.0, loss="max", solver="alternating", max_iter=30).fit(
        train.X, train.Y, *labels
    )
traces = {"the paper's alternation": paper.objective_trace_, "convex solver": convex.objective_trace_}
figure = plots.objective_traces(traces, convex.lower_bound_)
plots.save(figure, Path(__file__).parents[1] / "docs" / "images" / "solvers.png")
