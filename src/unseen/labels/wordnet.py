"""Path lengths between labels in WordNet's is-a hierarchy, and the choice of the senses they are measured between.

The relations of TAEP-H are ``relations.from_path_lengths(path_lengths(labels))``: ``R[i, j] = 1 / (path + 1)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.labels.wordnet_synsets import Synset, WordNet, open_wordnet
from unseen.labels.wordnet_tables import TABLE_SOURCE, curated_sense, table_lengths
from unseen.validation import MOST_LISTED, check_choice, check_names, find_names, listed

__all__ = ["PathLengths", "Synset", "WordNet", "curated_sense", "open_wordnet", "path_lengths"]

# What a sense gains for each doubling of the kinds listed below it, and loses for each sense before it. Picked on
# COCO-80, where 6 of 79 senses then differ from those curated by hand (13 do if the first sense is taken).
HYPONYM_GAIN, RANK_LOSS = 0.06, 0.05
_MAX_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class PathLengths:
    """Path lengths between labels, and the senses that they are measured between.

    Attributes
    ----------
    labels : tuple of str
        The labels, in the order of the rows.
    lengths : ndarray of shape (n_labels, n_labels)
        Edges of the shortest is-a path; ``inf`` where there is none. `numpy.asarray` of this object gives it too.
    senses : dict of str to Synset or None
        The sense of each label; None for a label that WordNet does not know (``missing="isolate"``).
    chosen : dict of str to str
        How each sense was chosen, in words.
    source : str
        Where the paths come from.
    """

    labels: tuple[str, ...]
    lengths: NDArray[np.float64]
    senses: dict[str, Synset | None]
    chosen: dict[str, str]
    source: str

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.lengths, dtype=dtype) if copy else np.asarray(self.lengths, dtype=dtype)

    def report(self) -> str:
        """Source and chosen senses, a line a label."""
        lines = [f"{label}: {self.senses[label] or 'no sense'}; {self.chosen[label]}" for label in self.labels]
        return "\n".join([f"Paths from {self.source}.", *lines])


class _Candidates(NamedTuple):
    """Senses that a label may have, and why these; no reason is needed for the senses of its own name."""

    senses: tuple[Synset, ...]
    why: str


def path_lengths(
    labels: Iterable[str],
    senses: str | Mapping[str, str | Synset | None] | None = None,
    *,
    wordnet: str | Path | WordNet | None = None,
    missing: str = "error",
) -> PathLengths:
    """Lengths of the shortest is-a paths between labels.

    Parameters
    ----------
    labels : iterable of str
        Names of labels, or an object that has `names`, such as a LabelSpace.
    senses : None, "first", "agree" or mapping of label to sense, default=None
        Which sense a label has. None takes the senses curated by hand for the labels of VOC-20 and COCO-80, and
        for other labels the sense that agrees best with them and with each other (see Notes). ``"first"`` takes
        the most frequent sense, ``"agree"`` the one that agrees best; both turn to the curated ones only for names
        that WordNet does not have ("tvmonitor"). A mapping gives senses as ``"dog.n.01"``, ``"02084071-n"`` or
        ``"n02084071"``; labels that it leaves out are treated as with None.
    wordnet : str, Path or WordNet, default=None
        The WordNet to use, see `open_wordnet`. With None, and `senses` None, labels that are all of VOC-20 or
        COCO-80 are looked up in a table that ships with this package: nothing needs to be installed, and the
        answer is the same everywhere.
    missing : {"error", "head", "isolate"}, default="error"
        What to do with a name that WordNet does not have: raise an error; take the longest end of it that WordNet
        has ("red sports car" is a "sports car"); or leave it without any path to other labels. "head" raises an
        error if no end of the name is a noun.

    Returns
    -------
    PathLengths
        The matrix, the chosen senses and how they were chosen.

    Raises
    ------
    FileNotFoundError
        If a WordNet is needed and there is none; the message says how to get one.
    ValueError
        If a name or a sense is unknown, or if WordNet's files are damaged.

    Notes
    -----
    A sense s agrees with the other labels by

    ``1 / (1 + length of the path from s to the nearest sense of another label)
    + 0.06 log2(1 + kinds listed directly below s) - 0.05 (senses before s)``.

    The second term is there because the taxonomy alone does not know that a plant beside sofas and chairs is no
    factory: a factory is nearer to them. What people photograph is what WordNet has many kinds of. Senses that are
    single individuals (Crane, the writer) count only if there is no other. All labels start at their first sense;
    each then takes its best one in turn, in alphabetical order, until none changes (at most 20 rounds), so the
    order of `labels` is irrelevant.

    Examples
    --------
    >>> paths = path_lengths(["dog", "sofa", "diningtable"])
    >>> paths.lengths
    array([[ 0., 11., 11.],
           [11.,  0.,  4.],
           [11.,  4.,  0.]])
    >>> paths.senses["diningtable"].name
    'dining_table.n.01'
    """
    names = check_names(getattr(labels, "names", labels), "labels")
    check_choice(missing, "missing", ("error", "head", "isolate"))
    if senses is not None and not isinstance(senses, Mapping):
        check_choice(senses, "senses", ("first", "agree"))
    if senses is None and wordnet is None:
        curated = [curated_sense(name) for name in names]
        known = [sense for sense in curated if sense is not None]
        if len(known) == len(names):
            chosen = dict.fromkeys(names, "curated")
            return PathLengths(
                names, table_lengths(known), dict(zip(names, curated, strict=True)), chosen, TABLE_SOURCE
            )
    net = _open(wordnet, names, senses)
    return _measure(net, names, _all_candidates(net, names, senses, missing))


def _open(wordnet: str | Path | WordNet | None, names: tuple[str, ...], senses: Any) -> WordNet:
    try:
        return open_wordnet(wordnet)
    except FileNotFoundError as error:
        unlisted = [name for name in names if curated_sense(name) is None]
        if wordnet is not None or senses is not None or not unlisted:
            raise
        raise FileNotFoundError(
            f"labels: {listed(unlisted)} not in the table of VOC-20 and COCO-80 that ships with unseen. {error}"
        ) from None


def _measure(net: WordNet, names: tuple[str, ...], candidates: dict[str, _Candidates]) -> PathLengths:
    picks = _most_agreeing(net, {name: found.senses for name, found in candidates.items()})
    lengths = np.full((len(names), len(names)), np.inf)
    np.fill_diagonal(lengths, 0.0)
    rows = [row for row, name in enumerate(names) if name in picks]
    lengths[np.ix_(rows, rows)] = net.pairwise([picks[names[row]] for row in rows])
    chosen = dict.fromkeys(names, "not in WordNet: no path to other labels")
    for name in picks:
        n_senses, why = len(candidates[name].senses), candidates[name].why
        chosen[name] = (
            f"agrees best of {n_senses} senses{why and ', '}{why}" if n_senses > 1 else why or "only sense"
        )
    return PathLengths(names, lengths, {name: picks.get(name) for name in names}, chosen, net.name)


def _all_candidates(
    net: WordNet, names: tuple[str, ...], senses: str | Mapping[str, str | Synset | None] | None, missing: str
) -> dict[str, _Candidates]:
    """Candidates of every label that has any; the others raise an error unless they are to be isolated."""
    given = _given_senses(net, names, senses)
    curated_first = senses is None or isinstance(senses, Mapping)
    found: dict[str, _Candidates] = {}
    for name in names:
        if name in given:
            found[name] = _Candidates((given[name],), "given")
        elif senses == "first" and (own := net.senses(name)):
            found[name] = _Candidates(own[:1], f"first of {len(own)} senses" if len(own) > 1 else "")
        elif options := _candidates(net, name, curated_first, missing == "head"):
            found[name] = options
    unknown = [name for name in names if name not in found]
    if unknown and missing != "isolate":
        hints = [
            f"{name!r} (nearest: {listed(near)})" if (near := net.nearest_lemmas(name)) else repr(name)
            for name in unknown[:MOST_LISTED]
        ]
        more = f"; and {len(unknown) - MOST_LISTED} more" if len(unknown) > MOST_LISTED else ""
        raise ValueError(
            f"labels: {len(unknown)} {'name is' if len(unknown) == 1 else 'names are'} no noun of {net.name}: "
            f"{'; '.join(hints)}{more}. Give a sense in senses, or pass missing='head' or missing='isolate'."
        )
    return found


def _given_senses(net: WordNet, names: tuple[str, ...], senses: Any) -> dict[str, Synset]:
    if not isinstance(senses, Mapping):
        return {}
    find_names(senses, {name: row for row, name in enumerate(names)}, "senses", "Give senses of `labels` only.")
    given = {}
    for name, sense in senses.items():
        if sense is None:
            continue
        if not isinstance(sense, str | Synset):
            raise ValueError(f"senses[{name!r}]: {sense!r} was given. Pass a sense such as 'dog.n.01'.")
        try:
            given[name] = net.synset(sense)
        except ValueError as error:
            raise ValueError(f"senses[{name!r}]: {str(error).partition(': ')[2]}") from None
    return given


def _candidates(net: WordNet, name: str, curated_first: bool, use_head: bool) -> _Candidates | None:
    curated = _curated(net, name)
    if curated and curated_first:
        return curated
    if found := _kinds(net, net.senses(name)):
        return _Candidates(found, "")
    if curated or not use_head:
        return curated
    words = name.replace("_", " ").split()
    for start in range(1, len(words)):
        head = " ".join(words[start:])
        if found := _kinds(net, net.senses(head)):
            return _Candidates(found, f"as a kind of {head!r}")
    return None


def _kinds(net: WordNet, senses: tuple[Synset, ...]) -> tuple[Synset, ...]:
    """Senses that are kinds of things; all of them if each is one individual."""
    return tuple(sense for sense in senses if not net.is_instance(sense)) or senses


def _curated(net: WordNet, name: str) -> _Candidates | None:
    """Curated sense of a label, found by its definition: other versions of WordNet number senses otherwise."""
    wanted = curated_sense(name)
    senses = net.senses(wanted.lemmas[0]) if wanted else ()
    if wanted is None or not senses:
        return None
    alike = [SequenceMatcher(None, _definition(sense), _definition(wanted)).ratio() for sense in senses]
    return _Candidates((senses[int(np.argmax(alike))],), "curated")


def _definition(synset: Synset) -> str:
    return synset.gloss.partition(";")[0]


def _most_agreeing(net: WordNet, candidates: dict[str, tuple[Synset, ...]]) -> dict[str, Synset]:
    """The sense of each label, by the rule in the notes of `path_lengths`."""
    names = sorted(candidates)
    flat = [sense for name in names for sense in candidates[name]]
    ends = np.cumsum([len(candidates[name]) for name in names])
    starts = ends - [len(candidates[name]) for name in names]
    picks = starts.copy()
    if len(flat) > len(names) > 1:
        closeness = 1.0 / (1.0 + net.pairwise(flat))
        merit = np.array([HYPONYM_GAIN * np.log2(1 + net.n_hyponyms(sense)) for sense in flat])
        merit -= RANK_LOSS * (np.arange(len(flat)) - np.repeat(starts, ends - starts))
        for _ in range(_MAX_ROUNDS):
            before = picks.copy()
            for row in np.flatnonzero(ends - starts > 1):
                others = np.delete(picks, row)
                own = slice(starts[row], ends[row])
                picks[row] = starts[row] + np.argmax(closeness[own][:, others].max(axis=1) + merit[own])
            if np.array_equal(picks, before):
                break
    return {name: flat[pick] for name, pick in zip(names, picks, strict=True)}
