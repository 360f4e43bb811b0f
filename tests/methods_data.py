"""Small scenes and helpers for the tests of methods."""

from dataclasses import replace

import numpy as np

from unseen import make_tagged_scenes


def exact_scenes(n_train=150, n_test=20, **options):
    """Scenes in float64: the length of a float32 row is exact to 1e-8 only."""
    data = make_tagged_scenes(n_train, n_test, **{"n_features": 40, "n_dims": 16, "random_state": 0} | options)
    return replace(data, X_train=data.X_train.astype(float), X_test=data.X_test.astype(float))


def fitted(model, data, relations=None, **changed):
    given = {"X": data.X_train, "Y": data.Y_train[:, data.seen], "seen": data.seen_labels}
    return model.fit(**given | {"unseen": data.unseen_labels, "relations": relations} | changed)


def raw_scores(model, X, labels="all"):
    """Scores before the threshold is subtracted."""
    return model.decision_function(X, labels) + model.threshold(X)[:, None]


def unit(M):
    return M / np.linalg.norm(M, axis=-1, keepdims=True)


def parts_of(model, x, label):
    """Parts of the seen labels, in their order."""
    found = {part.name: part.value for part in model.explain(x, label).parts if part.kind == "label"}
    return np.array([found[name] for name in model.label_names_[: model.n_seen_]])
