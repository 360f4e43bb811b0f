"""What the page shows of the words: neighbours, words that nothing supports, and a map."""

from typing import Any

import numpy as np
from scipy.linalg import orthogonal_procrustes
from sklearn.metrics.pairwise import cosine_similarity

from unseen.app.engine import Engine
from unseen.evaluation.plots import principal_plane
from unseen.labels.diagnosis import FEW, comparable, diagnose
from unseen.labels.names import label_key
from unseen.labels.space import LabelSpace
from unseen.photos.tagger import Query
from unseen.validation import Matrix

N_NEIGHBOURS = 3
ORPHAN = "No annotated label is nearer to it than chance: its tags rest on the classes of the network alone."


def describe_words(engine: Engine) -> dict[str, Any]:
    """Rows for all words of the vocabulary, and how far the count of their photos is."""
    query, text = engine.query(), engine.words_text
    space, is_seen = _space(engine, query)
    near = _neighbours(space.vectors if len(space) < FEW else comparable(space), min(N_NEIGHBOURS, len(space) - 1))
    others = [name for name, known in zip(space.names, is_seen, strict=True) if not known]
    annotated = LabelSpace(engine.model.tagger.label_names_, engine.model.tagger.label_vectors_)
    orphans = set(diagnose(annotated, space.select(others)).orphans) if others and len(annotated) >= FEW else set()
    hits, counting = None, None
    if engine.library is not None:
        scan = engine.scan()
        counting = None if scan.is_done else {"done": scan.done, "total": scan.total}  # before its tags are read
        hits = scan.hits() if counting is None or scan.tags else None
    tags = {tag.name: tag for tag in query.vocabulary.tags} if query.vocabulary else {}
    rows = []
    for place, name in enumerate(space.names):
        tag, doubt = tags.get(name), query.doubts.get(name)
        sure, maybe = (None, None) if hits is None else hits.get(name, (0, 0))
        rows.append({
            "word": name,
            "parents": list(tag.parents) if tag else [],
            "synonyms": list(tag.words[1:]) if tag else [],
            "annotated": is_seen[place],
            "neighbours": [space.names[j] for j in near[place]],
            "doubt": None if doubt is None else doubt.sentence,
            "orphan": ORPHAN if name in orphans else None,
            "sure": sure,
            "maybe": maybe,
        })  # fmt: skip
    return {"words": rows, "text": text, "is_default": not text, "counting": counting}


def label_map(engine: Engine) -> dict[str, Any]:
    """The words on a plane by their vectors, and in the space where the model compares them."""
    query = engine.query()
    space, is_seen = _space(engine, query)
    vectors = comparable(space) if len(space) >= FEW else space.vectors
    before, after = _plane(vectors), None
    tagger = engine.model.tagger
    embedded = tagger._label_space(tagger._embed(space.vectors, "words"))
    if embedded.shape[1] > 1 and np.isfinite(embedded).all():
        after = _plane(embedded)
        after = after @ orthogonal_procrustes(after, before)[0]  # axes have no meaning: turned to match
    near = _neighbours(vectors, min(2, len(space) - 1))
    edges = {
        (min(i, j), max(i, j)): float(vectors[i] @ vectors[j]) for i, row in enumerate(near) for j in row.tolist()
    }
    points = [
        {"word": name, "seen": bool(is_seen[i]), "before": before[i].tolist(),
         "after": None if after is None else after[i].tolist()}
        for i, name in enumerate(space.names)
    ]  # fmt: skip
    return {"points": points, "edges": [[i, j, round(weight, 4)] for (i, j), weight in edges.items()]}


def _space(engine: Engine, query: Query) -> tuple[LabelSpace, list[bool]]:
    """Vectors of the tags, and which of them are annotated."""
    vectors = engine.model.label_vectors(list(query.names))
    tagger = engine.model.tagger
    annotated = set(map(label_key, tagger.label_names_[: tagger.n_seen_]))
    names = list(vectors)
    return LabelSpace(names, np.array(list(vectors.values()))), [label_key(name) in annotated for name in names]


def _neighbours(vectors: Matrix, n: int) -> Any:
    """Places of the n nearest other rows, by cosine."""
    cosines = cosine_similarity(vectors)
    np.fill_diagonal(cosines, -np.inf)
    return np.argsort(-cosines, axis=1)[:, :n]


def _plane(vectors: Matrix) -> Matrix:
    """First two principal components, at most 1 in size."""
    points, _ = principal_plane(vectors)
    return np.asarray(points / (np.abs(points).max() or 1.0))
