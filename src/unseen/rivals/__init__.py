"""The methods that TAEP is compared with; each keeps the same contract.

Of the paper: `ConSE`, `LatEm`, `DMP`, `Fast0Tag`. Beyond it: `ESZSL`, `DeViSE`, `COSTA`, `LabelPropagation` and
`Cosine`. `LabelMeanTransfer` passes on what the mean images of the seen labels say, `Consensus` adds readings of
`ConSE` and `COSTA` and asks images that look alike, and `Stacked` puts that on one scale with TAEP for the seen
labels. `BackboneKnowledge` lets the classes that a backbone was trained on speak for any label, `Combination` adds
the evidence of two: both use supervision of other classes, among which may be the unseen labels.
"""

from unseen.rivals.backbone import BackboneKnowledge
from unseen.rivals.combination import Combination
from unseen.rivals.conse import ConSE
from unseen.rivals.consensus import Consensus
from unseen.rivals.cosine import Cosine
from unseen.rivals.costa import COSTA
from unseen.rivals.devise import DeViSE
from unseen.rivals.dmp import DMP
from unseen.rivals.eszsl import ESZSL
from unseen.rivals.fast0tag import Fast0Tag
from unseen.rivals.latem import LatEm
from unseen.rivals.propagation import LabelPropagation
from unseen.rivals.stacked import Stacked
from unseen.rivals.transfer import LabelMeanTransfer

__all__ = [
    "COSTA",
    "DMP",
    "ESZSL",
    "BackboneKnowledge",
    "Combination",
    "ConSE",
    "Consensus",
    "Cosine",
    "DeViSE",
    "Fast0Tag",
    "LabelMeanTransfer",
    "LabelPropagation",
    "LatEm",
    "Stacked",
]
