"""Does the same label rank photos similarly in five languages? Rank correlations over the 200 sample images.

    python -m benchmarks.label_languages --data DIR

Needs the folder of `benchmarks.voc2007` with ``voc2007_efficientnet_lite0.npz`` and ``VOCdevkit-sample``, and the
extra ``words``. TAEP learns the ten seen classes of VOC2007 trainval (sample images left out) under their English
names, label vectors from the multilingual Universal Sentence Encoder; then the sample images are ranked by labels
in Spanish, German, French and Chinese that it has never seen.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from benchmarks.voc2007 import read_labels
from unseen import TAEP, LabelSpace
from unseen.evaluation.protocol import alternating_split, training_view

WORDS = {
    "aeroplane": ("avión", "Flugzeug", "avion", "飞机"),
    "bicycle": ("bicicleta", "Fahrrad", "vélo", "自行车"),
    "bird": ("pájaro", "Vogel", "oiseau", "鸟"),
    "boat": ("barco", "Boot", "bateau", "船"),
    "bus": ("autobús", "Bus", "autobus", "公共汽车"),
    "car": ("coche", "Auto", "voiture", "汽车"),
    "cat": ("gato", "Katze", "chat", "猫"),
    "cow": ("vaca", "Kuh", "vache", "牛"),
    "dog": ("perro", "Hund", "chien", "狗"),
    "horse": ("caballo", "Pferd", "cheval", "马"),
    "motorbike": ("motocicleta", "Motorrad", "moto", "摩托车"),
    "sofa": ("sofá", "Sofa", "canapé", "沙发"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    args = parser.parse_args()
    names, Y, train, identifiers = read_labels(args.data)
    with np.load(args.data / "voc2007_efficientnet_lite0.npz") as archive:
        X = archive["features"].astype(np.float32)
    photos = {path.stem for path in (args.data / "VOCdevkit-sample").rglob("*.jpg")}
    sample = np.array([identifier in photos for identifier in identifiers])
    split = alternating_split(names)
    view = training_view(X[train & ~sample], Y[train & ~sample], split)
    labels = LabelSpace(names, "use")
    seen, unseen = labels.select(split.seen_names), labels.select(split.unseen_names)
    model = TAEP(tol=1e-2).fit(view.X, view.Y, seen, unseen)
    table = Table(title=f"Spearman correlation with the English label, {sample.sum()} images")
    for column in ("label", "", "es", "de", "fr", "zh"):
        table.add_column(column, justify="left" if column in ("label", "") else "right")
    correlations = []
    for english, words in WORDS.items():
        scores = model.decision_function(X[sample], LabelSpace([english, *words], "use"))
        row = [spearmanr(scores[:, 0], scores[:, k]).statistic for k in range(1, 5)]
        correlations.append(row)
        kind = "seen" if english in split.seen_names else "unseen"
        table.add_row(english, kind, *(f"{value:.2f}" for value in row))
    table.add_row("mean", "", *(f"{value:.2f}" for value in np.mean(correlations, axis=0)))
    Console(width=80).print(table)
    print(f"mean over all {np.size(correlations)} pairs: {np.mean(correlations):.3f}")


if __name__ == "__main__":
    main()
