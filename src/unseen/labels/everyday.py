"""Labels as people write them: everyday words, and when two names are the same label."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from unseen.labels._spelling import VOC_WORDS
from unseen.labels.names import as_phrase

__all__ = ["everyday_labels", "label_key", "refuse_twins"]


def everyday_labels() -> tuple[str, ...]:
    """Names of things, animals, people, food and places that are often seen on photos.

    Returns
    -------
    tuple of str
    """
    text = files("unseen.labels").joinpath("data/everyday.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def label_key(name: str) -> str:
    """What makes two names the same label: "Sofa" and "sofa", "diningtable" and "dining table".

    Parameters
    ----------
    name : str
        Name of a label. Those of PASCAL VOC are brought to what people write ("aeroplane" is an airplane).

    Returns
    -------
    str
    """
    phrase = as_phrase(name).casefold()
    return VOC_WORDS.get(name.casefold(), VOC_WORDS.get(phrase.replace(" ", ""), phrase))


def refuse_twins(names: Sequence[str]) -> None:
    """Raise a ValueError if two names are the same label."""
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(label_key(name), name)
        if other != name:
            raise ValueError(f"labels: {other!r} and {name!r} are the same label. Pass one of them.")
