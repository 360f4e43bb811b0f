"""`unseen demo`: the figures of the result, on the terminal and on the page."""

import pytest
from typer.testing import CliRunner

from unseen.base import SURE
from unseen.cli import app
from unseen.demo import run_demo

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    path = tmp_path_factory.mktemp("demo") / "page.html"
    return run_demo(path, quick=True), path.read_text(encoding="utf-8")


def test_the_page_holds_the_figures_of_the_result(demo):
    result, page = demo
    assert "simulated" in page
    assert page.count("<svg") == 2
    assert page.count("data:image/jpeg") == len(result.photos)
    assert result.problem or [tags[0].name for _, _, tags in result.photos] == [
        "cat",
        "coffee",
        "rocket",
        "person",
    ]
    # Sure tags, or else the best guess alone.
    assert all(len(tags) == 1 or all(tag.p >= SURE for tag in tags) for _, _, tags in result.photos)
    for method in result.methods:
        assert f"{100 * method.zero_shot.miap:.1f}" in page
    for fit in result.certificates:
        assert f"{fit.objective:.1f}" in page


def test_certificates_hold_and_zero_shot_lies_between_chance_and_ceiling(demo):
    result, _ = demo
    assert all(fit.lower_bound <= fit.objective for fit in result.certificates)
    scores = {method.name: method.zero_shot.miap for method in result.methods}
    best = max(method.zero_shot.miap for method in result.methods if method.fair)
    assert scores["chance"] + 0.1 < best < scores["ceiling: all labels annotated"]
    assert [method.name for method in result.methods if method.fair] == ["TAEP", "TAEP-H", "TAEP-C"]


def test_the_command_prints_the_tables(demo, tmp_path):
    done = CliRunner().invoke(app, ["demo", "--quick", "-o", str(tmp_path / "page.html")])
    assert done.exit_code == 0, done.output
    result, _ = demo
    rows = {line.split("  ")[0].strip("()"): line.split() for line in done.stdout.splitlines()}
    for fit in result.certificates:
        assert f"{fit.objective:.1f}" in rows[fit.name]
    assert f"Page: {tmp_path / 'page.html'}" in done.stdout
    assert "\x1b" not in done.stdout
