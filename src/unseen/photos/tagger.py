"""PhotoTagger: photos in, tags out. A backbone, a tagger on its outputs, and a source of word vectors."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from unseen import model_file
from unseen.base import MAYBE, SURE, Tag, ZeroShotTagger, best_tags
from unseen.explanation import Explanation, settle
from unseen.files import expanded
from unseen.hub import PAIRS, find_pair, is_hub_id
from unseen.images.backbones import Backbone, open_backbone
from unseen.images.features import describe_each, open_features
from unseen.images.imagenet import are_kinds
from unseen.images.reading import find_images, read_image
from unseen.labels.encoders import split_prompt, with_absolute_path
from unseen.labels.knowable import Doubt, doubts
from unseen.labels.names import Vocabulary, everyday_labels, label_key, merge_names
from unseen.labels.space import LabelSpace
from unseen.solvers import one_thread
from unseen.templates import data_uri
from unseen.validation import Matrix, check_choice, check_count, check_names, check_number, listed

__all__ = ["MAYBE", "SURE", "PhotoTagger", "PhotoTags", "Query"]

PACKAGED = Path(__file__).with_name("data") / "model.safetensors"
_PROBED = 20  # labels whose vectors are compared with those of the fit
_AT_ONCE = 64  # photos scored together

Words = str | Sequence[str] | Mapping[str, Any]


class PhotoTags(NamedTuple):
    """The tags of a photo, the best first; ``problem`` explains why there are none.

    ``guess`` is the best word of a photo on which no word is probable enough.
    """

    path: str
    tags: tuple[Tag, ...]
    problem: str | None = None
    guess: Tag | None = None


class Query:
    """Words to score photos for: what depends on the words alone is computed once. See `PhotoTagger.query`.

    Attributes
    ----------
    names : tuple of str
        The words, or the tags of the vocabulary.
    vocabulary : Vocabulary or None
        Their synonyms, parents and exclusions, if there are any.
    doubts : dict of str to Doubt
        Words that the model cannot know. Negations are not among the names.
    gives_p : bool
        Whether there are probabilities.
    needs_classes : bool
        Whether the model needs the logits of the backbone's classes.
    """

    def __init__(
        self,
        model: PhotoTagger,
        vectors: Mapping[str, Any],
        doubts: Mapping[str, Doubt] | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self.model, self.doubts, self.vocabulary = model, dict(doubts or {}), vocabulary
        negated = {name for name, doubt in self.doubts.items() if doubt.kind == "negation"}
        if vectors and negated.issuperset(vectors):
            raise ValueError("words: only negations were given. Ask for the things themselves.")
        if vocabulary is not None and negated:
            raise ValueError(f"words: {listed(sorted(negated))} cannot be known. Remove negations.")
        tagger = model.tagger
        words, self.raw_vectors = tagger._resolve({name: vectors[name] for name in vectors if name not in negated})
        self.vectors = tagger._embed(self.raw_vectors, "words", words)
        self.names = words if vocabulary is None else tuple(tag.name for tag in vocabulary.tags)
        self.gives_p = hasattr(tagger, "predict_proba")
        self.needs_classes = tagger.n_features_in_ != model.backbone.n_features
        self._scorer = tagger._scorer(self.vectors)
        columns = {label_key(word): column for column, word in enumerate(words)}
        self._place = {name: columns[label_key(name)] for name in self.names}
        annotated = set(map(label_key, tagger.label_names_[: tagger.n_seen_]))
        self._annotated = {name for name in self.names if label_key(name) in annotated}
        tags = () if vocabulary is None else vocabulary.tags
        self._above = {(tag.name, parent) for tag in tags for parent in tag.parents}

    def columns(self, features: NDArray[Any], classes: NDArray[Any] | None) -> tuple[Matrix, Matrix | None]:
        """Scores and probabilities of photos by their features and logits; see `score`."""
        return self.score(self.model.columns(features, classes))

    def score(self, X: NDArray[Any]) -> tuple[Matrix, Matrix | None]:
        """Scores and probabilities (None if there are none) of photos, one row each and one column per name."""
        scores, p = self._scorer(self.model.tagger._check_images(X))
        return (scores, p) if self.vocabulary is None else self.vocabulary.combine(scores, p)

    def tags(
        self, X: NDArray[Any], top: int | None, min_p: float, known: NDArray[Any] | None = None
    ) -> Iterator[tuple[tuple[Tag, ...], Tag | None]]:
        """Tags of photos, given by their columns, as in `PhotoTagger.tag`; the best word if there are none.

        ``known`` are probabilities that replace those of the model, NaN where they do not.
        """
        scores, p = self.score(X)
        if p is not None and known is not None:
            p = np.where(np.isnan(known), p, known)
        if p is None or min_p == 0.0:
            yield from ((tuple(tags), None) for tags in best_tags(self.names, scores, p, top))
            return
        n_likely = (p >= min_p).sum(axis=1)
        found = best_tags(self.names, scores, p, max(1, n_likely.max()))
        likely = [tags[:n] for tags, n in zip(found, n_likely, strict=True)]
        for tags, best in zip(self._settled(X, likely), found, strict=True):
            yield tuple(tags[:top]), None if tags else best[0]

    def _settled(self, X: NDArray[Any], found: list[list[Tag]]) -> list[list[Tag]]:
        """Tags of photos, without those that a better one of the photo explains."""
        names, settled = [[tag.name for tag in tags] for tags in found], list(found)
        contested = [row for row, few in enumerate(names) if len(few) > 1 and not self._annotated.issuperset(few)]
        if not contested:
            return settled
        rows, columns = np.array([(row, self._place[name]) for row in contested for name in names[row]]).T
        try:
            _, values = self.model.tagger._part_table(X, self.vectors, rows, columns)
        except ValueError:  # its scores have no parts
            return settled
        for row in contested:
            is_annotated = [tag.p == 1.0 or tag.name in self._annotated for tag in found[row]]
            left = settle(values[rows == row], is_annotated, partial(self._kinds, names[row]))
            settled[row] = [found[row][c] for c in left]
        return settled

    def _kinds(self, names: Sequence[str], i: int, j: int) -> bool:
        one, other = names[i], names[j]
        return (one, other) in self._above or (other, one) in self._above or names_a_kind(one, other)


class PhotoTagger:
    """Tags for photos: ``score(photo, word) = tagger(backbone(photo), vector(word))``.

    Parameters
    ----------
    tagger : ZeroShotTagger
        Fitted on the features of the backbone, or on its features and logits side by side.
    backbone : Backbone or str
        The network that computes the features; see `unseen.images.backbones.open_backbone`.
    vectors : str, default="use"
        Source of word vectors used to fit the tagger; see `unseen.LabelSpace`.
    training : str or Path, optional
        The training features, for explanations by training images.
    training_rows : sequence of int, optional
        Rows of these features that the tagger was fitted on; None for all.

    Examples
    --------
    The packaged model, with any words: ``PhotoTagger.load().tag("photo.jpg", ["sofa", "birthday cake"])``.
    """

    def __init__(
        self,
        tagger: ZeroShotTagger,
        backbone: Backbone | str,
        vectors: str = "use",
        *,
        training: str | Path | None = None,
        training_rows: Sequence[int] | NDArray[np.intp] | None = None,
    ) -> None:
        self.tagger = tagger
        self.backbone = open_backbone(backbone, n_threads=1) if isinstance(backbone, str) else backbone
        self.vectors = with_absolute_path(vectors)
        self.training = None if training is None else Path(training).absolute()
        self.training_rows = None if training_rows is None else np.asarray(training_rows, dtype=np.intp)
        n_features, n_classes = self.backbone.n_features, len(self.backbone.class_names or ())
        if tagger.n_features_in_ not in (n_features, n_features + n_classes):
            raise ValueError(
                f"tagger: fitted on {tagger.n_features_in_} columns, but {self.backbone.name} has {n_features} "
                f"features and {n_classes} classes. Pass the backbone that made its features."
            )

    def __repr__(self) -> str:
        n_seen = self.tagger.n_seen_
        return f"<PhotoTagger: {n_seen} annotated labels, {self.backbone.name}, vectors {self.vectors!r}>"

    @classmethod
    def load(cls, path: str | Path | None = None, backbone: Backbone | str | None = None) -> PhotoTagger:
        """Read a model written by `save` or ``unseen fit``; by default the packaged one.

        A model that another user or machine has written cannot choose which local files are opened: if its
        backbone is a file, name it as ``backbone``; its training images and tables of vectors are left alone.
        """
        if path is None:
            return cls._load(PACKAGED, None, is_trusted=True)
        return cls._load(path, backbone, is_trusted=model_file.is_own(path))

    @classmethod
    def _load(cls, path: str | Path, backbone: Backbone | str | None, *, is_trusted: bool) -> PhotoTagger:
        tagger: ZeroShotTagger = model_file.load(path, ZeroShotTagger, is_trusted=is_trusted)  # type: ignore[type-abstract]
        notes = model_file.read_notes(path).get("photos")
        if not isinstance(notes, dict):
            raise ValueError(f"path: {str(path)!r} does not tag photos. Pass a model from unseen fit.")
        try:
            if not is_trusted:
                notes = _without_files(notes, backbone, path)
            opened = open_backbone(notes["backbone"], n_threads=1) if backbone is None else backbone
            network = open_backbone(opened, n_threads=1) if isinstance(opened, str) else opened
            fingerprint = notes["fingerprint"]
            where = {name: notes[name] for name in ("training", "training_rows")}
            model = cls(tagger, network, notes["vectors"], **where)
        except (LookupError, TypeError) as error:
            raise ValueError(
                f"path: {str(path)!r} is from another version of unseen, or damaged ({error!r}). Fit it again."
            ) from error
        if network.fingerprint != fingerprint:
            raise ValueError(
                f"path: {str(path)!r} was fitted on features of a {network.name!r} with other weights or "
                f"preprocessing. Fit it again on features of this one."
            )
        return model

    @classmethod
    def from_pair(cls, source: str) -> PhotoTagger:
        """Tag by an image-text model alone, without annotations; see `Cosine.without_annotations`.

        Parameters
        ----------
        source : str
            A name of `unseen.hub.PAIRS`, a model of the hub (downloaded on first use) or a folder; with a prompt
            after a colon, ``"siglip2:a picture of a {}"``, if it is not to be "a photo of a {}".
        """
        from unseen.baselines import Cosine

        name = split_prompt(source)[0]
        pair = find_pair(name)
        if pair is None:
            raise ValueError(
                f"backbone: {name!r} has no text encoder. Fit a model on its features with unseen features and "
                f"unseen fit, or choose {listed([*PAIRS])}, or the folder or hub id of an image-text pair."
            )
        backbone = open_backbone(name, n_threads=1)
        words = LabelSpace(everyday_labels(), source)
        return cls(Cosine.without_annotations(words, pair.scale, pair.bias), backbone, source)

    def save(self, path: str | Path) -> None:
        """Write one self-contained file, atomically; ``ZeroShotTagger.load`` reads the tagger alone."""
        notes = {
            "backbone": self.backbone.name,
            "fingerprint": self.backbone.fingerprint,
            "vectors": self.vectors,
            "training": None if self.training is None else str(self.training),
            "training_rows": None if self.training_rows is None else self.training_rows.tolist(),
        }
        model_file.save(self.tagger, path, notes={"photos": notes})

    def tag(
        self,
        photos: str | Path | Iterable[str | Path],
        words: Words | Vocabulary | Query = "everyday",
        top: int | None = 5,
        *,
        min_p: float = 0.0,
    ) -> Iterator[PhotoTags]:
        """Find the best words for photos, one photo at a time.

        Parameters
        ----------
        photos : path or iterable of paths
            Image files, folders or lists of them; see `unseen.images.reading.find_images`.
        words : "everyday", sequence of str, mapping, Vocabulary or Query, default="everyday"
            Candidates: the labels of the model with `everyday_labels`, or any words that the source of
            vectors knows (a text encoder accepts any text, even non-words). See `query`.
        top : int or None, default=5
            Number of tags per photo at most, the best first; by probability, if the model has them.
        min_p : float, default=0.0
            If above 0, only tags with at least this probability, such as `SURE` or `MAYBE`, and without those that
            a better tag of the photo explains: see `unseen.explanation.settle`.

        Yields
        ------
        PhotoTags
            In the order given, folders that cannot be read first. A file that cannot be read has no tags, and
            the reason as its ``problem``.
        """
        top = None if top is None else check_count(top, "top")
        min_p = check_number(min_p, "min_p", high=1.0)
        query, found = words if isinstance(words, Query) else self.query(words), find_images(photos)
        if query.model is not self:
            raise ValueError("words: a query of another model was given. Pass the words, or a query of this one.")
        if min_p > 0.0 and not query.gives_p:
            raise ValueError("min_p: this model gives scores, not probabilities. Leave it out.")

        def results() -> Iterator[PhotoTags]:
            for path, reason in found.problems:
                yield PhotoTags(path, (), reason)
            described, threads = describe_each(found.paths, self.backbone), ThreadpoolController()
            while block := list(islice(described, _AT_ONCE)):
                rows = [self.columns(*outputs) for _, outputs, _ in block if outputs is not None]
                with threads.limit(limits=1, user_api="blas"):  # the backbone needs the cores
                    tags = iter(list(query.tags(np.vstack(rows), top, min_p)) if rows else ())
                for path, outputs, problem in block:
                    shown, guess = ((), None) if outputs is None else next(tags)
                    yield PhotoTags(path, shown, problem, guess)

        return results()  # arguments are checked at once, photos are read block by block

    def query(self, words: Words | Vocabulary = "everyday") -> Query:
        """Prepare words to score photos for, and find those that the model cannot know.

        Parameters
        ----------
        words : "everyday", sequence of str, mapping of names to vectors, or Vocabulary, default="everyday"
            As in `tag`. Negations such as "no bus", whose vectors are much like that of "bus", are not scored;
            everyday words are not in doubt. See `unseen.labels.knowable`.
        """
        vocabulary = words if isinstance(words, Vocabulary) else None
        words = words.words if isinstance(words, Vocabulary) else words
        asked = self.label_vectors(words)
        with one_thread():  # small products
            if isinstance(words, str):
                return Query(self, asked)
            self.tagger._embed(self.tagger._resolve(asked)[1], "words")  # their length
            known = dict(zip(self.tagger.label_names_, self.tagger.label_vectors_, strict=True))
            found = doubts(asked, known, None if isinstance(words, Mapping) else self.vectors)
            return Query(self, asked, found, vocabulary)

    def explain(self, photo: str | Path, word: str, by: str = "labels") -> Explanation:
        """Split the score of a photo for a word into exact parts.

        Parameters
        ----------
        photo : str or Path
            An image file.
        word : str
            Any word that the source of vectors knows.
        by : {"labels", "images"}, default="labels"
            How to split the learned part of the score: over the annotated labels, or the training images, named
            by their paths. The backbone's classes, if the model uses them, have parts of their own.
        """
        check_choice(by, "by", ["labels", "images"])
        ((path, outputs, problem),) = describe_each([str(photo)], self.backbone)
        if outputs is None:
            raise ValueError(f"photo: {path!r} cannot be read: {problem}. Pass an image file.")
        x, label = self.columns(*outputs), self.label_vectors([word])
        if by == "labels":
            return self.tagger.explain(x, label)
        if self.training is None or not self.training.exists():
            where = "not part of this model" if self.training is None else f"no longer in {str(self.training)!r}"
            raise ValueError(f"by: the training images are {where}. Explain by labels instead.")
        if "X_train" not in signature(self.tagger.explain).parameters:
            method = type(self.tagger).__name__
            raise ValueError(f"by: {method} does not keep its images. Explain by labels instead.")
        features = open_features(self.training)
        rows = np.arange(len(features)) if self.training_rows is None else self.training_rows
        # `explain` checks that these are still the training images: the parts must sum to the score.
        tagger: Any = self.tagger
        why = tagger.explain(x, label, features.X[rows[rows < len(features)]])
        parts = [
            part._replace(name=features.paths[rows[int(part.name)]]) if part.kind == "image" else part
            for part in why.parts
        ]
        return Explanation.of(why.label, why.score, parts)

    def label_vectors(self, words: Words = "everyday") -> dict[str, Any]:
        """Vectors of words, as in `tag`: those of `fit` for the labels of the model, else those of the source.

        Different spellings of one word are merged, with a warning.
        """
        if isinstance(words, Mapping):
            return dict(words)
        names = self.tagger.label_names_
        fitted = dict(zip(map(label_key, names), self.tagger.label_vectors_, strict=True))
        if isinstance(words, str) and words == "everyday":
            asked: Sequence[str] = [*names, *(word for word in everyday_labels() if label_key(word) not in fitted)]
        else:
            asked, notes = merge_names(check_names(words, "words", unique=False))
            for note in notes:
                warnings.warn(f"words: {note}", stacklevel=2)
        others = [word for word in asked if label_key(word) not in fitted]
        found = self._look_up(others, "skip" if words == "everyday" else "error")
        vectors = {word: found.get(word, fitted.get(label_key(word))) for word in asked}
        return {word: vector for word, vector in vectors.items() if vector is not None}

    def columns(self, features: NDArray[Any], logits: NDArray[Any] | None) -> NDArray[Any]:
        """Return the columns that the tagger was fitted on: features, and logits if it uses them."""
        if features.shape[1] == self.tagger.n_features_in_:
            return features
        if logits is None:
            raise ValueError("features: no logits, which the model needs. Make them with unseen features.")
        return np.hstack([features, logits])

    def _look_up(self, words: Sequence[str], missing: str) -> dict[str, Any]:
        """Vectors of words from the source, which must still reproduce the model's label vectors."""
        if not words:
            return {}
        probed, fitted = self.tagger.label_names_[:_PROBED], self.tagger.label_vectors_[:_PROBED]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a small table lacks some everyday words
            space = LabelSpace([*probed, *words], self.vectors, missing=missing)
        now = space.vectors[: len(probed)]
        if now.shape != fitted.shape or np.linalg.norm(now - fitted) > 1e-3 * np.linalg.norm(fitted):
            raise ValueError(f"model: {self.vectors!r} gives different vectors than at fit time. Fit it again.")
        return dict(zip(space.names[len(probed) :], space.vectors[len(probed) :], strict=True))


def _without_files(notes: dict[str, Any], backbone: Any, path: str | Path) -> dict[str, Any]:
    """Notes of a model of others, without the names of local files."""
    names = {"backbone": notes["backbone"], "vectors": split_prompt(str(notes["vectors"]))[0]}
    for what, name in names.items():
        is_there = expanded(name).exists() or name.endswith(".onnx")
        is_file = is_there or (os.sep in name and not is_hub_id(name))
        if is_file and not (what == "backbone" and backbone is not None):
            found = (
                f"{str(path)!r} was not saved by you on this machine, and names the file {name!r} as its {what}"
            )
            advice = "Pass the backbone yourself" if what == "backbone" else "Fit a model of your own"
            raise ValueError(f"path: {found}. {advice}.")
    return notes | {"training": None, "training_rows": None}


def names_a_kind(one: str, other: str) -> bool:
    """Whether one of two names is a kind of the other: "cat" and "animal", "rocking chair" and "chair"."""
    keys = label_key(one), label_key(other)
    return keys[0].endswith(f" {keys[1]}") or keys[1].endswith(f" {keys[0]}") or are_kinds(*keys)


def card_rows(tags: Iterable[Tag], doubts: Mapping[str, Doubt] | None = None) -> list[tuple[Any, ...]]:
    """Tags as rows of a page: name, p or score, width of the bar (0 for none), tone, and kind of doubt."""
    tags = list(tags)
    largest, rows = max([1.0, *(tag.score for tag in tags)]), []
    for name, score, p in tags:
        tone = (
            ("sure" if score > 0 else "muted")
            if p is None
            else "sure"
            if p >= SURE
            else "maybe"
            if p >= MAYBE
            else "muted"
        )
        value, width = (f"{score:+.2f}", score / largest) if p is None else (f"{100 * p:.0f} %", p)
        doubt = doubts[name].kind if doubts and name in doubts else ""
        rows.append((name, value, 0.0 if tone == "muted" else width, tone, doubt))
    return rows


def thumbnail(path: str | Path, size: int = 480) -> str:
    """Return a small copy of a photo for a page, as a data URI."""
    image, jpeg = read_image(path), io.BytesIO()
    image.thumbnail((size, size))
    image.save(jpeg, "JPEG", quality=80)
    return data_uri(jpeg.getvalue())
