"""What a backbone with named classes knows of any label, ready to use."""

from __future__ import annotations

from typing import Any

from unseen.ensembles.backbone_knowledge import BackboneKnowledge
from unseen.images._backbone import Backbone
from unseen.images.imagenet import class_kinds, class_names
from unseen.labels.space import LabelSpace

__all__ = ["backbone_knowledge", "imagenet_knowledge"]


def imagenet_knowledge(vectors: Any = "use", **parameters: Any) -> BackboneKnowledge:
    """`BackboneKnowledge` of the 1,000 ImageNet classes and of all that they are kinds of.

    Parameters
    ----------
    vectors : str, path or TextEncoder, default="use"
        Source of the text vectors, as in `LabelSpace`; take those of the labels from the same one.
    **parameters
        Of `BackboneKnowledge`, such as ``sharpness`` and ``temperature``.

    Returns
    -------
    BackboneKnowledge
        Not fitted yet.

    Examples
    --------
    >>> from unseen import LabelSpace
    >>> from unseen.images.knowledge import imagenet_knowledge
    >>> labels = LabelSpace(["cow", "television", "vehicle"], "use")  # doctest: +SKIP
    >>> tagger = imagenet_knowledge().without_training(labels)  # doctest: +SKIP
    >>> tagger.tag(logits)  # doctest: +SKIP
    """
    kinds = class_kinds()
    return BackboneKnowledge(
        LabelSpace(class_names(), vectors, "mean"),
        kinds=LabelSpace(kinds.names, vectors, "mean"),
        membership=kinds.membership,
        **parameters,
    )


def backbone_knowledge(backbone: Backbone, vectors: Any = "use", **parameters: Any) -> BackboneKnowledge:
    """`BackboneKnowledge` of the classes of a backbone.

    Parameters
    ----------
    backbone : Backbone
        With named classes. Of those of ImageNet, what they are kinds of is known as well.
    vectors : str, path or TextEncoder, default="use"
        Source of the text vectors, as in `LabelSpace`; take those of the labels from the same one.
    **parameters
        Of `BackboneKnowledge`.

    Returns
    -------
    BackboneKnowledge
        Not fitted yet.
    """
    if backbone.class_names is None:
        raise ValueError(f"backbone: {backbone.name!r} has no named classes. Use its features alone.")
    if backbone.class_names == class_names():
        return imagenet_knowledge(vectors, **parameters)
    return BackboneKnowledge(LabelSpace(backbone.class_names, vectors, "mean"), **parameters)
