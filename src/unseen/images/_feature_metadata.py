"""What made a folder of features: features of different backbones are not mixed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unseen import __version__
from unseen.images._backbone import Backbone
from unseen.images._feature_files import METADATA

__all__ = ["FORMAT", "check_same_backbone", "metadata_of"]

FORMAT = 1


def metadata_of(backbone: Backbone) -> dict[str, Any]:
    """Describe a backbone as the folder does."""
    return {
        "format": FORMAT,
        "unseen": __version__,
        "name": backbone.name,
        "fingerprint": backbone.fingerprint,
        "n_features": backbone.n_features,
        "preprocessing": json.loads(json.dumps(backbone.preprocessing.as_dict())),
        "class_names": None if backbone.class_names is None else list(backbone.class_names),
    }


def check_same_backbone(folder: Path, metadata: dict[str, Any]) -> None:
    """Refuse a folder that was begun with another backbone."""
    path = folder / METADATA
    if not path.exists():
        return
    try:
        begun = json.loads(path.read_text("utf-8"))
        name, fingerprint, preprocessing = begun["name"], begun["fingerprint"], begun["preprocessing"]
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"output: {str(path)!r} is damaged ({error}). Delete the folder.") from None
    if begun.get("format") != FORMAT:
        raise ValueError(
            f"output: {str(folder)!r} has format {begun.get('format')}, this version writes {FORMAT}. "
            f"Pass another folder."
        )
    if (fingerprint, preprocessing) == (metadata["fingerprint"], metadata["preprocessing"]):
        return
    what = (
        f"the backbone {name!r}" if name != metadata["name"] else f"another version or preprocessing of {name!r}"
    )
    raise ValueError(
        f"output: {str(folder)!r} was begun with {what}, not with {metadata['name']!r} as it is now; "
        f"their features cannot be mixed. Pass another folder, or delete this one."
    )
