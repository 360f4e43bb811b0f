import numpy as np
import pytest
from sklearn.base import clone

from unseen import ZeroShotTagger, make_tagged_scenes

from .estimators import ESTIMATORS, WITH_VECTORS


@pytest.fixture(scope="session")
def data():
    return make_tagged_scenes(120, 30, n_features=16, n_dims=16, random_state=1)


@pytest.fixture(scope="session", name="Y")
def annotations(data) -> np.ndarray:
    return data.Y_train[:, data.seen]


@pytest.fixture(scope="session", params=[*ESTIMATORS, *WITH_VECTORS], ids=lambda model: type(model).__name__)
def estimator(request: pytest.FixtureRequest) -> ZeroShotTagger:
    """Unfitted; a test fits a clone of it."""
    return request.param


@pytest.fixture(scope="session")
def model(estimator, data, Y) -> ZeroShotTagger:
    """Fitted on named labels, seen and unseen; not to be changed."""
    return clone(estimator).fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
