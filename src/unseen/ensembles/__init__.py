"""Methods of this library that are made of others: see docs/paper_track.md and docs/open_track.md."""

from unseen.ensembles.backbone_knowledge import BackboneKnowledge
from unseen.ensembles.combination import Combination
from unseen.ensembles.consensus import Consensus, LabelMeanTransfer
from unseen.ensembles.stacked import Stacked

__all__ = ["BackboneKnowledge", "Combination", "Consensus", "LabelMeanTransfer", "Stacked"]
