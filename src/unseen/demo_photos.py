"""The photos of the demonstration: a few that come with the package, tagged by the model that does."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files

from unseen.images.backbones import open_backbone
from unseen.labels.encoders import open_encoder
from unseen.photos.pages import picture
from unseen.photos.tagger import PhotoTagger
from unseen.templates.report import Picture, Table

# What the labels are compared with, for the reader: nobody told the model.
_PHOTOS = {
    "cat": "Chelsea the cat",
    "coffee": "A cup of coffee",
    "rocket": "A rocket at night",
    "astronaut": "Eileen Collins, astronaut",
}
TOP = 4


@dataclass(frozen=True)
class TaggedPhotos:
    """Photos with their tags, or why there are none.

    Attributes
    ----------
    pictures : tuple of Picture
        For the page.
    seen : tuple of str
        Labels that the model has learned from annotations.
    n_labels : int
        How many words it chose from.
    missing : str
        Why there are no photos: what to install.
    """

    pictures: tuple[Picture, ...] = ()
    seen: tuple[str, ...] = ()
    n_labels: int = 0
    missing: str = ""

    def table(self) -> Table:
        """Photos and their tags, a row a photo."""
        rows = tuple(
            (one.title, ", ".join(f"{name} {score}" for name, score, predicted in one.tags if predicted) or "-",
             ", ".join(f"{name} {score}" for name, score, predicted in one.tags if not predicted) or "-")
            for one in self.pictures
        )  # fmt: skip
        return Table("Photos, tagged with any words", ("photo", "tags", "below the threshold"), rows)


def tag_photos() -> TaggedPhotos:
    """Tag the packaged photos with everyday words by the model in the box.

    Returns
    -------
    TaggedPhotos
    """
    try:
        open_backbone()
        open_encoder("use")
    except ImportError as error:  # a package of an extra
        return TaggedPhotos(missing=str(error))
    model = PhotoTagger.load()
    labels = model.label_vectors()
    pictures = []
    for name, title in _PHOTOS.items():
        with as_file(files("unseen.images").joinpath(f"data/photos/{name}.jpg")) as path:
            (tagged,) = model.tag(path, labels, TOP)
            pictures.append(picture(tagged, title))
    return TaggedPhotos(tuple(pictures), model.tagger.label_names_[: model.tagger.n_seen_], len(labels))
