"""Methods that combine others, or add evidence from a backbone with named classes."""

from unseen.ensembles.adapted import Adapted
from unseen.ensembles.backbone_knowledge import BackboneKnowledge
from unseen.ensembles.combination import Combination
from unseen.ensembles.stacked import Stacked

__all__ = ["Adapted", "BackboneKnowledge", "Combination", "Stacked"]
