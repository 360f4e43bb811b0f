"""The methods that TAEP is compared with; each keeps the same contract.

Of the paper: `ConSE`, `LatEm`, `DMP`, `Fast0Tag`. Beyond it: `ESZSL`, `DeViSE`, `COSTA`, `LabelPropagation` and
`Cosine`.
"""

from unseen.baselines.conse import ConSE
from unseen.baselines.cosine import Cosine
from unseen.baselines.costa import COSTA
from unseen.baselines.devise import DeViSE
from unseen.baselines.dmp import DMP
from unseen.baselines.eszsl import ESZSL
from unseen.baselines.fast0tag import Fast0Tag
from unseen.baselines.latem import LatEm
from unseen.baselines.propagation import LabelPropagation

__all__ = ["COSTA", "DMP", "ESZSL", "ConSE", "Cosine", "DeViSE", "Fast0Tag", "LabelPropagation", "LatEm"]
