"""Simulated scenes as the files of a user."""

import csv

import numpy as np

from unseen import make_tagged_scenes


def write_files(folder, *, with_counts=True):
    """Write features, annotations, label vectors, hit counts and path lengths; return the names of the labels."""
    scenes = make_tagged_scenes(n_train=80, n_test=40)
    folder.mkdir(exist_ok=True)
    Y = np.vstack([scenes.Y_train, scenes.Y_test])
    images = [f"photo{i:04d}" for i in range(len(Y))]
    names = [name.replace(" ", "-") for name in scenes.names]
    with (folder / "scenes_labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image_id", "split", *names])
        writer.writerows([images[i], "train" if i < 80 else "test", *row] for i, row in enumerate(Y))
    X = np.vstack([scenes.X_train, scenes.X_test]).astype(np.float32)
    backwards = np.arange(len(X))[::-1]  # the order of the features is not that of the annotations
    np.savez(folder / "scenes_net.npz", features=X[backwards], image_id=np.array(images)[backwards])
    _write_matrix(folder / "scenes_glove.csv", names, scenes.labels.vectors, header=False)
    if with_counts:
        _write_matrix(folder / "scenes_hitcounts.csv", names, Y.T.astype(int) @ Y)
    lengths = np.abs(np.subtract.outer(np.arange(len(names)), np.arange(len(names))))
    _write_matrix(folder / "scenes_wordnet_path_length.csv", names, lengths)
    return names


def _write_matrix(path, names, matrix, header=True):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        if header:
            writer.writerow(["", *names])
        writer.writerows([name, *row] for name, row in zip(names, matrix, strict=True))
