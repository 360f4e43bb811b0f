"""The methods that TAEP is compared with; all share the same interface.

From the paper: `ConSE`, `LatEm`, `DMP`, `Fast0Tag`. Beyond it: `ESZSL`, `DeViSE`, `COSTA`, `LabelPropagation` and
`Cosine`. Methods without a threshold of their own subtract ``threshold_``, which has the best micro-F1 over the
known training entries.

>>> from unseen import make_tagged_scenes
>>> from unseen.baselines import ConSE
>>> data = make_tagged_scenes(n_train=300, n_test=5)
>>> model = ConSE(n_top=3).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
>>> model.decision_function(data.X_test, data.unseen_labels).shape
(5, 12)
"""

from unseen.baselines.conse import ConSE
from unseen.baselines.cosine import Cosine
from unseen.baselines.dmp import DMP
from unseen.baselines.eszsl import ESZSL
from unseen.baselines.fast0tag import Fast0Tag
from unseen.baselines.latem import DeViSE, LatEm
from unseen.baselines.transfer import COSTA, LabelPropagation

__all__ = ["COSTA", "DMP", "ESZSL", "ConSE", "Cosine", "DeViSE", "Fast0Tag", "LabelPropagation", "LatEm"]
