"""Every estimator that must keep the contract of `ZeroShotTagger`; a new method is added in one line."""

from importlib.util import find_spec

from unseen import TAEP
from unseen.base import ZeroShotTagger
from unseen.baselines import COSTA, DMP, ESZSL, ConSE, DeViSE, Fast0Tag, LabelPropagation, LatEm
from unseen.ensembles import Consensus, LabelMeanTransfer, Stacked

ESTIMATORS: list[ZeroShotTagger] = [
    TAEP(beta=1.0, tol=1e-5),
    TAEP(gamma=0.0, normalize=False, center=False, tol=1e-5),
    ConSE(),
    ConSE(n_top=3, normalize=False, center=False),
    LatEm(n_maps=3),
    LatEm("auto", normalize=False, center=False),
    DMP(),
    DMP(alpha=0.1, normalize=False, center=False),
    Fast0Tag(),
    Fast0Tag(normalize=False, center=False),
    ESZSL(),
    ESZSL(gamma=0.1, lam=10.0, normalize=False, center=False),
    DeViSE(),
    DeViSE(pairs="worst", normalize=False, center=False),
    COSTA(),
    COSTA(normalize=False, center=False),
    LabelMeanTransfer(),
    LabelMeanTransfer(normalize=False, center=False),
    Consensus(),
    Consensus(neighborhood=1.0),  # there are too few images for the neighbours of the default
    Consensus(neighborhood=1.0, power=1.0, normalize=False, center=False),
    LabelPropagation(),
    LabelPropagation(alpha=0.9, normalize=False, center=False),
    Stacked(beta=10.0, n_splits=3, tol=1e-5),
    Stacked(beta=100.0, n_splits=2, normalize=False, center=False, tol=1e-5),  # features of length 10
]
if find_spec("torch") is not None:
    ESTIMATORS.append(Fast0Tag("network", n_hidden=64, learning_rate=3e-3, n_epochs=10))
