"""Imports between packages point one way."""

from graphlib import TopologicalSorter

import pytest
from scripts.draw_packages import LAYERS, LAZY, imports, modules, top

LEVEL = {name: level for level, layer in enumerate(LAYERS) for name in layer}
BETWEEN = [item for item in imports() if top(item.importer) != top(item.imported)]


def test_every_package_has_its_place():
    assert {top(name) for name in modules()} - {"unseen", "__main__"} == {*LEVEL, LAZY}


@pytest.mark.parametrize("name", LEVEL)
def test_packages_import_those_below(name):
    upward = [
        item
        for item in BETWEEN
        if top(item.importer) == name and top(item.imported) in LEVEL and LEVEL[top(item.imported)] < LEVEL[name]
    ]
    assert not upward


def test_there_is_no_cycle_between_packages():
    graph = {name: set() for name in LEVEL}
    for item in BETWEEN:
        if {top(item.importer), top(item.imported)} <= LEVEL.keys():
            graph[top(item.importer)].add(top(item.imported))
    assert list(TopologicalSorter(graph).static_order())


def test_there_is_no_cycle_between_modules():
    graph = {name: set() for name in modules()}
    for item in imports():
        if not item.lazy:
            graph[item.importer].add(item.imported)
    assert list(TopologicalSorter(graph).static_order())


def test_dask_is_reached_only_where_it_is_used():
    importers = [item for item in BETWEEN if top(item.imported) == LAZY]
    assert all(item.lazy for item in importers)
    assert {top(item.importer) for item in importers} <= {"base", "taep", "images", "photos"}


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("unseen.solvers", {"solvers", "validation"}),
        ("unseen.evaluation.metrics", {"validation"}),
        ("unseen.templates", {"templates"}),
        ("unseen.base", {"explanation", "model_file", "validation", "cluster"}),
    ],
)
def test_what_a_package_knows_nothing_of(module, allowed):
    known = {top(item.imported) for item in imports() if f"{item.importer}.".startswith(f"{module}.")}
    assert known <= allowed
