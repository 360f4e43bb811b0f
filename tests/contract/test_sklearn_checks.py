from sklearn.utils.estimator_checks import parametrize_with_checks

from unseen import TAEP

from .estimators import ESTIMATORS

# test_taep.py asserts what these check.
BY_KEYWORD = "the check passes y by keyword, but fit calls annotations Y"
EXPECTED = {f"check_sample_weight_equivalence_on_{storage}_data": BY_KEYWORD for storage in ("dense", "sparse")}


def expected_failures(estimator):
    return EXPECTED if isinstance(estimator, TAEP) else {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)
