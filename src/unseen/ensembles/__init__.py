"""Methods of our own, made of others."""

from unseen.ensembles.backbone_knowledge import BackboneKnowledge
from unseen.ensembles.combination import Combination
from unseen.ensembles.consensus import Consensus
from unseen.ensembles.stacked import Stacked
from unseen.ensembles.transfer import LabelMeanTransfer

__all__ = ["BackboneKnowledge", "Combination", "Consensus", "LabelMeanTransfer", "Stacked"]
