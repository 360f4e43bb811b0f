from sklearn.utils.estimator_checks import parametrize_with_checks

from .estimators import ESTIMATORS


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)
