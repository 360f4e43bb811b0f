"""Draw which package imports which: ``python -m scripts.draw_packages`` writes docs/images/packages.svg."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parents[1] / "src" / "unseen"
# Each package or module of the top level may import those below it, and neighbours as long as there is no cycle.
LAYERS = (
    ("cli",),
    ("app",),
    ("demo", "experiment", "photos"),
    ("evaluation", "images", "labels", "datasets", "testing"),
    ("ensembles",),
    ("taep", "baselines", "calibration"),
    ("base",),
    ("solvers", "explanation", "model_file", "templates"),
    ("hub",),
    ("files", "validation"),
)
LAZY = "cluster"  # only imported inside functions, and only where Dask is used


class Import(NamedTuple):
    """One import: the importing module, the imported one, and whether it happens inside a function."""

    importer: str
    imported: str
    lazy: bool


def top(module: str) -> str:
    """Package or module of the top level, ``labels`` for ``unseen.labels.space``."""
    return module.split(".")[1] if "." in module else "unseen"


def modules() -> dict[str, Path]:
    """All modules of the package by name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("unseen", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports() -> list[Import]:
    """Every import of one module of the package by another, without those for type checkers alone."""
    known = modules()
    found = []
    for name, path in known.items():
        for node, lazy in _statements(ast.parse(path.read_text()), lazy=False):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative import"
                for alias in node.names:
                    module = f"{node.module}.{alias.name}"
                    found.append(Import(name, module if module in known else str(node.module), lazy))
            else:
                found += [Import(name, alias.name, lazy) for alias in node.names]
    return [item for item in found if item.imported in known and item.imported != item.importer]


def _statements(tree: ast.AST, *, lazy: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, lazy
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield from _statements(node, lazy=lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _is_implied(start: str, end: str, edges: Collection[tuple[str, str]]) -> bool:
    """Whether there is a longer way from one package to another."""
    waiting = [b for a, b in edges if a == start and b not in (end, LAZY)]
    while waiting:
        node = waiting.pop()
        if node == end:
            return True
        waiting += [b for a, b in edges if a == node and b != LAZY]
    return False


def draw(path: Path) -> None:
    """Write the picture: one row per layer, arrows point down, dashed ones are imports inside functions.

    Imports that follow from others are left out: a package that imports `photos` may use all that is below it.
    """
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "unseen"
    from matplotlib import pyplot

    layers = [*LAYERS[:4], (*LAYERS[4], LAZY), *LAYERS[5:]]
    places = {
        name: ((column + 0.5) / len(layer), -float(row))
        for row, layer in enumerate(layers)
        for column, name in enumerate(layer)
    }
    edges: dict[tuple[str, str], bool] = {}
    for item in imports():
        pair = top(item.importer), top(item.imported)
        if pair[0] != pair[1] and set(pair) <= places.keys():
            edges[pair] = edges.get(pair, True) and item.lazy
    figure, axes = pyplot.subplots(figsize=(8, 7))
    for (start, end), lazy in sorted(edges.items()):
        if LAZY not in (start, end) and _is_implied(start, end, edges):
            continue
        axes.annotate(
            "", places[end], places[start],
            arrowprops={"arrowstyle": "->", "color": "#94a3b8", "linestyle": "--" if lazy else "-",
                        "linewidth": 0.8, "shrinkA": 14, "shrinkB": 14, "connectionstyle": "arc3,rad=0.06"},
        )  # fmt: skip
    for name, (x, y) in places.items():
        axes.text(x, y, name, ha="center", va="center", fontsize=11, zorder=3,
                  bbox={"boxstyle": "round,pad=0.4", "facecolor": "#eff6ff", "edgecolor": "#2563eb"})  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0.5 - len(layers), 0.5))
    axes.axis("off")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    draw(SOURCE.parents[1] / "docs" / "images" / "packages.svg")
