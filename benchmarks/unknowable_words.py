"""Which words that a photo tagger cannot know are found, and how many others are doubted by mistake?

    python -m benchmarks.unknowable_words [--part develop] [--data DIR] [--vectors use]

Reads the words of each kind in ``tests/labels/unknowable_words.csv``: the part ``develop`` was used to choose
probes and thresholds; the part ``test`` was written before these were last changed, and looked at afterwards.
Words that are probes are left out. Known are the classes of ImageNet and their kinds, no annotated label. Words of
languages that the encoder does not read come with their meaning: a word is misread if its meaning is not among its
three nearest everyday words. With ``--data``, a folder that has ``compact/clip_vitb32_text.npz``, the names of
COCO, LVIS, Objects365 and Open Images are checked too. Needs the extra ``words``.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._timing import show
from unseen import LabelSpace
from unseen.images.imagenet import class_kinds, class_names
from unseen.labels.knowable import KINDS, doubts, read_probes
from unseen.labels.names import everyday_labels

WORDS = Path(__file__).parents[1] / "tests" / "labels" / "unknowable_words.csv"


class Word(NamedTuple):
    """A word of the list: its kind ("thing" if it can be known), language and, for some, its meaning."""

    kind: str
    language: str
    text: str
    meaning: str


def read_words(part: str) -> list[Word]:
    """Words of a part of the list."""
    with WORDS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["part"] == part]
    pairs = [(row, word.partition("=")) for row in rows for word in row["words"].split("; ")]
    return [Word(row["kind"], row["language"], text, meaning) for row, (text, _, meaning) in pairs]


def misread(words: list[Word], vectors: str) -> set[str]:
    """Texts whose meaning is not among their three nearest everyday words."""
    everyday = LabelSpace(everyday_labels(), vectors).normalized()
    cosines = LabelSpace([word.text for word in words], vectors).vectors @ everyday.vectors.T
    nearest = np.argsort(-cosines, axis=1)[:, :3]
    return {
        word.text
        for word, rows in zip(words, nearest, strict=True)
        if word.meaning and word.meaning not in {everyday.names[row] for row in rows}
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("develop", "test"), default="test")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--vectors", default="use", help="a text encoder")
    args = parser.parse_args()
    known = LabelSpace(dict.fromkeys([*class_names(), *class_kinds().names]), args.vectors)
    probes = {word.partition("=")[0] for group in read_probes().values() for word in group}
    words = [word for word in read_words(args.part) if word.text not in probes]
    labels = LabelSpace([word.text for word in words], args.vectors)
    found = doubts(labels, known, args.vectors)
    start = time.process_time()
    doubts(labels, known, args.vectors)
    seconds = time.process_time() - start
    rows, garbage = [], misread(words, args.vectors)
    for kind in (*KINDS, "thing"):
        of_kind = [word.text for word in words if word.kind == kind]
        named = [text for text, doubt in found.items() if doubt.kind == kind]
        right = len(set(of_kind) & set(named))
        if of_kind:
            doubted = np.mean([text in found for text in of_kind])
            judged = (right / len(of_kind), right / max(len(named), 1)) if kind != "thing" else ("", "")
            columns = ("kind", "words", "doubted", "recall", "precision")
            rows.append(dict(zip(columns, (kind, len(of_kind), doubted, *judged), strict=True)))
            wrong = [text for text in of_kind if (text in found) == (kind == "thing")]
            if kind == "language":
                wrong = [text for text in wrong if text in garbage]
            print(f"{'doubted' if kind == 'thing' else 'missed'} ({kind}): {', '.join(wrong)}")
    show(f"{args.part}: doubted at all; recall and precision of the kind ({1000 * seconds:.0f} ms)", rows)
    rows = []
    for language in dict.fromkeys(word.language for word in words if word.kind == "language"):
        texts = [word.text for word in words if word.language == language]
        bad = [text for text in texts if text in garbage]
        doubted = np.mean([text in found for text in bad]) if bad else ""
        rows.append({"language": language, "words": len(texts), "misread": len(bad), "doubted of these": doubted})
    show("languages that the encoder does not read", rows)
    lists = {"everyday": everyday_labels()}
    if args.data is not None:
        with np.load(args.data / "compact" / "clip_vitb32_text.npz") as archive:
            lists |= {name: archive[f"{name}_names"] for name in ("coco", "lvis", "objects365", "openimages")}
    rows = []
    for name, texts in lists.items():
        names = list(dict.fromkeys(map(str, texts)))
        wrong = doubts(LabelSpace(names, args.vectors), known, args.vectors)
        share = 100 * len(wrong) / len(names)
        rows.append({"names of": name, "names": len(names), "doubted": len(wrong), "%": share})
        print(f"doubted ({name}): {', '.join(f'{text} ({doubt.kind})' for text, doubt in wrong.items())}")
    show("names of things that are doubted", rows)


if __name__ == "__main__":
    main()
