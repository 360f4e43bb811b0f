"""`unseen backbones` and `unseen model show`: networks that can be had, and what a model file holds."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from typer import Argument, Option

from unseen.cli.terminal import one_line_errors, print_table, printable
from unseen.files import expanded
from unseen.templates import Table

model_app = typer.Typer(no_args_is_help=True, help="Look into model files.")
_COLUMNS = ("name", "dimensions", "input", "size", "licence", "state")


def backbones(
    name: Annotated[str | None, Argument(help="All about one of them, a hub id or a folder.")] = None,
    download: Annotated[bool, Option("--download", help="Download it now, to use it offline later.")] = False,
) -> None:
    """List backbones: networks that compute features, and image-text models that tag photos without a fit."""
    with one_line_errors("backbones"):
        from unseen import hub
        from unseen.images.backbones import NAMES

        if download and (name is None or hub.find_pair(name) is None):
            raise ValueError(f"--download: {name!r} was given. Name a pair: unseen backbones siglip2 --download.")
        if name is not None:
            facts = [(key, str(value)) for key, value in _facts(name, alone=True).items() if value]
            return print_table(Table(name, ("fact", "value"), facts))
        others = [one for one in hub.downloaded() if one not in hub.PAIRS.values() and hub.find_pair(one)]
        found = [_facts(one, alone=False) for one in (*NAMES, *others)]
        rows = [[str(facts.get(column) or "-") for column in _COLUMNS] for facts in found]
        return print_table(Table("Backbones", _COLUMNS, rows, "A dash: its files do not say, or are not here."))


@model_app.command("show")
def _show_model(
    path: Annotated[Path | None, Argument(help="A model from unseen fit; by default the packaged one.")] = None,
) -> None:
    """Check a model file; print what it is, its digest and what it was trained on. No other file is opened."""
    with one_line_errors("model show"):
        from unseen import ZeroShotTagger, model_file
        from unseen.photos.tagger import PACKAGED
        from unseen.validation import listed

        saved_by = "us: it is in the package"
        if path is not None:
            saved_by = "you, on this machine" if model_file.is_own(path) else "someone else, or without notes"
        path = path or PACKAGED
        header, tagger = model_file.read_header(path), ZeroShotTagger.load(path)
        labels, others = tagger.label_names_[: tagger.n_seen_], tagger.label_names_[tagger.n_seen_ :]
        gives_p = "yes" if hasattr(tagger, "predict_proba") else "no"
        facts = {
            "model": type(tagger).__name__,
            "digest": header["digest"],
            "format": header["version"],
            "saved by": saved_by,
            "annotated labels": f"{len(labels):,}: {listed(labels)}",
            "other labels": f"{len(others):,}: {listed(others)}" if others else "none; any can be asked for",
            "columns": tagger.n_features_in_,
            "probabilities": gives_p,
        }
        notes = model_file.read_notes(path).get("photos", {})
        if not isinstance(notes, dict):
            raise ValueError(f"path: {str(path)!r} has notes on photos that make no sense. Fit the model again.")
        for name, value in notes.items():
            if value is not None and name != "training_rows":
                facts[name] = value
        shown = [(name, printable(str(value))) for name, value in facts.items()]
        print_table(Table(printable(str(path)), ("fact", "value"), shown))


def _facts(name: str, *, alone: bool) -> dict[str, Any]:
    """What the files of a backbone say. In a list, its graph is not opened."""
    from unseen import hub
    from unseen.images.backbones import DEFAULT, VGG19, open_backbone
    from unseen.images.imagenet import DATA

    facts: dict[str, Any] = {"name": name}
    if name == "vgg19":
        state = "from torchvision" if find_spec("torchvision") else 'needs "unseen[torch]"'
        return facts | {"dimensions": VGG19.n_features, "state": state}
    model = hub.PAIRS.get(name, name)
    path = expanded(name) if model == name and hub.is_there(name) else hub.downloaded().get(model)
    if name == DEFAULT:
        path = DATA / f"{DEFAULT}.onnx"
        notice = re.search(
            r"Licensed under the (.+);", path.with_suffix(".NOTICE.txt").read_text(encoding="utf-8")
        )
        facts |= {"licence": notice and notice[1], "state": "in the package"}
    elif path is None and hub.is_hub_id(model):
        return facts | {"model": f"https://huggingface.co/{model}", "state": "not downloaded"}
    elif path is not None:
        card = hub.read_card(path)
        facts |= {"model": model, "licence": card.get("license_name") or card.get("license"), "state": "here"}
        revision = path.name if path.parent.name == "snapshots" else None  # in the cache of the hub
        facts |= {"made from": card.get("base_model"), "revision": revision, "folder": path}
    pair = hub.read_pair(path) if path else None
    if pair:
        facts |= {"dimensions": pair.n_dims, "input": pair.image_settings["size"]}
        facts["probabilities"] = "share of the evidence" if pair.bias is None else "the model's own"
    if alone or not pair:  # an unknown name is an error
        network = open_backbone(name, n_threads=1)
        facts |= {"dimensions": network.n_features, "input": network.preprocessing.size}
    files = [] if path is None else [path, *path.rglob("*")]
    return facts | {"size": decimal(sum(file.stat().st_size for file in files if file.is_file()))}
