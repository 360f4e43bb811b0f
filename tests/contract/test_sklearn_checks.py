from sklearn.utils.estimator_checks import parametrize_with_checks

from unseen import TAEP
from unseen.baselines import ESZSL
from unseen.ensembles import Adapted

from .estimators import ESTIMATORS

REASON = "the check passes y by keyword, but fit calls annotations Y; test_taep.py asserts what it checks"
FAILURES = {f"check_sample_weight_equivalence_on_{storage}_data": REASON for storage in ("dense", "sparse")}


@parametrize_with_checks(
    [*ESTIMATORS, Adapted(ESZSL())], expected_failed_checks=lambda e: FAILURES if isinstance(e, TAEP) else {}
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)
