"""Models that are not in the package: their names, one download at a pinned revision, and what their files say.

Two layouts of image-text pairs are read, from the Hugging Face hub or a folder: OpenCLIP's as Immich exports it
(``visual/model.onnx``, ``textual/model.onnx``) and transformers' (``onnx/vision_model.onnx``,
``onnx/text_model.onnx``); and text encoders as sentence-transformers exports them (``onnx/model.onnx``).
"""

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from unseen.files import cache_dir, expanded, write_atomically
from unseen.validation import listed

PAIRS = {
    "clip-b32": "immich-app/ViT-B-32__openai",
    "clip-b16": "immich-app/ViT-B-16__openai",
    "siglip2": "immich-app/ViT-B-16-SigLIP2__webli",
    "clip-multilingual": "immich-app/XLM-Roberta-Base-ViT-B-32__laion5b_s13b_b90k",
}
OPENCLIP, TRANSFORMERS = "visual/model.onnx", "onnx/vision_model.onnx"
# The file that tells a layout, and the others that it needs.
LAYOUTS = {
    OPENCLIP: ("textual/model.onnx", "textual/tokenizer.json", "textual/tokenizer_config.json",
               "visual/preprocess_cfg.json", "config.json"),
    TRANSFORMERS: ("onnx/text_model.onnx", "tokenizer.json", "preprocessor_config.json", "config.json"),
    "onnx/model.onnx": ("tokenizer.json",),
    "model.onnx": ("tokenizer.json",),
}  # fmt: skip
_FOR_OTHER_ENGINES = ["*.rknn", "*.armnn"]
_FILTERS = ("nearest", "lanczos", "bilinear", "bicubic")  # numbered as in Pillow


class PairFiles(NamedTuple):
    """An image-text pair in a folder: its graphs, and what the files beside them say.

    ``scale`` and ``bias`` turn a cosine into the model's own log-odds; None unless its weights are in the folder.
    """

    folder: Path
    image: Path
    text: Path
    image_settings: dict[str, Any]  # of `unseen.images.backbones.OnnxBackbone`
    text_settings: dict[str, Any]  # of `unseen.labels.encoders.OnnxEncoder`
    scale: float | None
    bias: float | None
    n_dims: int | None


def import_extra(module: str, extra: str) -> Any:
    """A module from an optional extra; if missing, the error gives the command to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f'{package}: not installed. Run: pip install "unseen[{extra}]"') from error


def is_hub_id(name: str) -> bool:
    """Whether this may be a model of the hub: ``owner/name``, or ``owner/name@revision``."""
    return re.fullmatch(r"[\w.-]+/[\w.-]+(@[\w.-]+)?", name) is not None


def find_pair(source: str | Path, argument: str = "backbone") -> PairFiles | None:
    """Image-text pair of a name in `PAIRS`, a folder or a model of the hub; None if it is something else."""
    name = str(source)
    folder = expanded(name)
    if name in PAIRS or (is_hub_id(name) and not is_there(name)):
        folder = fetch(PAIRS.get(name, name), argument)
    elif not is_there(name) or not folder.is_dir():
        return None
    return read_pair(folder.absolute())


def fetch(name: str, argument: str = "backbone") -> Path:
    """Folder of a model of the hub.

    The first use downloads it and records its revision; every later use reads the same files, offline.
    ``owner/name@revision`` asks for another revision.
    """
    record = _record(name)
    last = Path(record.read_bytes().decode("utf-8", "replace")) if record.is_file() else None
    if last is not None and _is_complete(last):
        return last
    repo, _, branch = name.partition("@")
    asked = {"repo_id": repo, "revision": last.name if last else branch or None}
    hub = import_extra("huggingface_hub", "hub")
    try:
        files = {item.rfilename for item in hub.HfApi().model_info(**asked).siblings}
        folder = Path(hub.snapshot_download(**asked, **_patterns(_layout(files.__contains__))))
    except Exception as error:  # the hub's, httpx's and the system's errors
        found = _in_cache_of_hub(hub, asked)
        if found is None:
            pinned = f" at the revision in {str(record)!r}" if last else ""
            what = f"{name!r} cannot be loaded from the Hugging Face hub{pinned} ({error})"
            raise FileNotFoundError(f"{argument}: {what}. Check it, or pass a folder of its files.") from error
        folder = found
    with suppress(OSError):  # the cache cannot be written: looked up again next time
        write_atomically(record, lambda part: part.write_text(str(folder), encoding="utf-8"))
    return folder


def downloaded() -> dict[str, Path]:
    """Folders of the models of the hub that are on this machine, by name; nothing is contacted."""
    records = {path.stem.replace("--", "/", 1): path for path in sorted(cache_dir("hub").glob("*--*.txt"))}
    folders = {name: Path(path.read_bytes().decode("utf-8", "replace")) for name, path in records.items()}
    return {name: folder for name, folder in folders.items() if _is_complete(folder)}


def read_pair(folder: Path) -> PairFiles | None:
    """Image-text pair in a folder, in either layout; None if there is none."""
    layout = next((name for name in (OPENCLIP, TRANSFORMERS) if (folder / name).is_file()), None)
    if layout is None:
        return None
    try:
        _layout(lambda name: (folder / name).is_file())
        config = read_json(folder / "config.json")
        read = _read_openclip if layout == OPENCLIP else _read_transformers
        image, text, n_dims = read(folder, config)
        logits = _logits(folder)
    except Exception as error:  # whatever a wrong file leads to
        raise ValueError(f"backbone: the files in {str(folder)!r} are not understood ({error!r}).") from error
    return PairFiles(folder, folder / layout, folder / LAYOUTS[layout][0], image, text, *logits, n_dims)


def read_card(folder: Path) -> dict[str, Any]:
    """Front matter of the model card in a folder: licence, base model; empty if there is none, or not valid."""
    with suppress(Exception):
        card = import_extra("huggingface_hub", "hub").ModelCard.load(folder / "README.md")
        return dict(card.data.to_dict())
    return {}


def read_json(path: Path) -> Any:
    """Content of a JSON file; an empty dictionary if there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def is_there(text: str) -> bool:
    """Whether this is the path of something."""
    try:
        return expanded(text).exists()
    except (OSError, ValueError):  # too long for a path, or not a path at all
        return False


def _read_openclip(folder: Path, config: Any) -> tuple[dict[str, Any], dict[str, Any], int | None]:
    how = read_json(folder / "visual" / "preprocess_cfg.json")
    image = {
        "size": _side(how["size"]),
        # Immich crops always; SigLIP was trained on squashed images, and its settings say so.
        "resize": {"shortest": "center-crop", "squash": "squash"}[how.get("resize_mode", "shortest")],
        "crop_fraction": 1.0,
        "interpolation": how["interpolation"],
        "mean": how["mean"],
        "std": how["std"],
        "value_range": 1.0,
    }
    text = {
        "max_tokens": config["text_cfg"].get("context_length", 77),
        "pad_token": _pad_token(folder / "textual"),
        "canonicalize": (config["text_cfg"].get("tokenizer_kwargs") or {}).get("clean") == "canonicalize",
    }
    return image, text, config.get("embed_dim")


def _read_transformers(folder: Path, config: Any) -> tuple[dict[str, Any], dict[str, Any], int | None]:
    how = read_json(folder / "preprocessor_config.json")
    crops, normalizes = how.get("do_center_crop", "crop_size" in how), how.get("do_normalize", True)
    side = _side(how["crop_size"] if crops else how["size"])
    resized = how["size"]["shortest_edge"] if crops and isinstance(how["size"], dict) else _side(how["size"])
    image = {
        "size": side,
        "resize": "center-crop" if crops else "squash",
        "crop_fraction": side / resized,
        "interpolation": _FILTERS[how.get("resample", 3)],
        "mean": how["image_mean"] if normalizes else [0.0, 0.0, 0.0],
        "std": how["image_std"] if normalizes else [1.0, 1.0, 1.0],
        "value_range": 255.0 * how.get("rescale_factor", 1 / 255) if how.get("do_rescale", True) else 255.0,
    }
    texts, is_siglip = config.get("text_config") or {}, str(config["model_type"]).startswith("siglip")
    # Left out of the file where they are the defaults of transformers.
    text: dict[str, Any] = {"max_tokens": texts.get("max_position_embeddings", 64 if is_siglip else 77)}
    if is_siglip:  # trained on padded texts in lower case, without punctuation
        text |= {"pad_token": _pad_token(folder), "canonicalize": True}
    return image, text, config.get("projection_dim") or (config.get("vision_config") or {}).get("hidden_size")


def _side(size: Any) -> int:
    """Side of a square that is given as a number, as [height, width] or by these names."""
    size = [size["height"], size["width"]] if isinstance(size, dict) else size
    sides = [size] if isinstance(size, int) else size
    if len(set(sides)) != 1:
        raise ValueError("its images are not square")
    return int(sides[0])


def _pad_token(folder: Path) -> str:
    token = read_json(folder / "tokenizer_config.json")["pad_token"]
    return str(token["content"] if isinstance(token, dict) else token)


def _logits(folder: Path) -> tuple[float | None, float | None]:
    """Learned scale and bias of the logits, from the weights; configurations have only their initial values."""
    from safetensors import safe_open

    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="numpy") as file:
            if {"logit_scale", "logit_bias"} <= set(file.keys()):
                scale, bias = (file.get_tensor(name).item() for name in ("logit_scale", "logit_bias"))
                return math.exp(scale), bias
    return None, None


def _layout(has: Callable[[str], bool]) -> str:
    """First file of the layout of a model."""
    layout = next((name for name in LAYOUTS if has(name)), None)
    if layout is None:
        raise ValueError(f"it has none of {listed(list(LAYOUTS))}")
    if missing := [name for name in LAYOUTS[layout] if not has(name)]:
        raise ValueError(f"it lacks {listed(missing)}")
    return layout


def _is_complete(folder: Path) -> bool:
    with suppress(ValueError):
        return bool(_layout(lambda name: (folder / name).is_file()))
    return False


def _patterns(layout: str) -> dict[str, list[str]]:
    """Files to download. Weights of a large graph are in files of any name beside it."""
    beside = ["visual/*", "textual/*"] if layout == OPENCLIP else []
    files = [f"{name}*" for name in (layout, *LAYOUTS[layout]) if name.endswith(".onnx")]
    others = ["tokenizer.json", "modules.json", "*config.json", "README.md"]
    return {"allow_patterns": [*files, *beside, *others], "ignore_patterns": _FOR_OTHER_ENGINES}


def _in_cache_of_hub(hub: Any, asked: dict[str, str | None]) -> Path | None:
    """Folder of a model that another program, or another machine, has put into the cache of the hub."""
    for layout in LAYOUTS:
        with suppress(Exception):
            folder = Path(hub.snapshot_download(**asked, local_files_only=True, **_patterns(layout)))
            if _is_complete(folder):
                return folder
    return None


def _record(name: str) -> Path:
    """File with the folder of a model; the last part of its path is the revision."""
    return cache_dir("hub") / f"{name.replace('/', '--')}.txt"
