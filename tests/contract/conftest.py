import pytest

from unseen.testing import Trial

from .estimators import ESTIMATORS, WITH_VECTORS, LeastSquares


@pytest.fixture(scope="session", params=[*ESTIMATORS, *WITH_VECTORS], ids=lambda model: type(model).__name__)
def trial(request: pytest.FixtureRequest) -> Trial:
    """An estimator with the simulated images; its model is not to be changed."""
    return Trial(request.param)


@pytest.fixture(scope="session")
def data():
    return Trial(LeastSquares()).data


@pytest.fixture(scope="session", name="Y")
def annotations(data):
    return data.Y_train[:, data.seen]
