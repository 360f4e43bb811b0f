"""Every estimator that must keep the contract of `ZeroShotTagger`; a new method is added in one line."""

from unseen import TAEP
from unseen.tagger import ZeroShotTagger

ESTIMATORS: list[ZeroShotTagger] = [
    TAEP(beta=1.0, tol=1e-5),
    TAEP(gamma=0.0, normalize=False, center=False, tol=1e-5),
]
