"""A report is one well-formed page that says what it was given, and nothing it was given can become markup."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from unseen import Explanation
from unseen.evaluation import plots
from unseen.explanation import Part
from unseen.templates.report import Card, Mark, Report, Table, is_number

HOSTILE = "</title><script>alert('x')</script> & \"quoted\" <img src=x onerror=y>"
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """A page, parsed; refuses tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data.strip()))

    def of(self, tag: str) -> list[str]:
        return [text for parent, text in self.texts if parent == tag]

    def attributes(self, name: str) -> list[str]:
        return [attrs[name] or "" for _, attrs in self.tags if name in attrs]


def _figure():
    return plots.contributions(
        Explanation.of("woman", 0.5, [Part("label", "boy", 0.8), Part("label", "car", -0.3)])
    )


def _full(text: str) -> Report:
    table = Table(text, (text, "n"), ((text, "1.5"), ((Mark(text, "good"),), "2")), text, strong_means=text)
    report = Report(text, text).note(text).facts([("1 %", text)]).section(text, text).text(text).code(text)
    return report.table(table).figure(_figure(), text, text).cards([Card(text, text, table, _figure(), text)])


def test_hostile_text_stays_text():
    page = Page(_full(HOSTILE).html())
    assert {tag for tag, _ in page.tags} & {"script", "img"} == set()
    assert page.of("title") == [HOSTILE]
    for tag in ("h1", "h2", "h3", "figcaption", "dt", "pre", "code", "th", "span"):
        assert HOSTILE in page.of(tag) or tag == "pre"


def test_nothing_is_loaded_from_elsewhere_and_nothing_is_run():
    page = Page(_full("plain").html())
    assert not {"src", "onload", "onclick", "action"} & {name for _, attrs in page.tags for name in attrs}
    assert all(link.startswith("#") for name in ("href", "xlink:href") for link in page.attributes(name))
    assert {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "image"} == set()


def test_figures_are_described_and_identifiers_are_unique():
    page = Page(_full("plain").html())
    pictures = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert [(p["role"], p["aria-label"]) for p in pictures] == [("img", "plain")] * 2
    names = page.attributes("id")
    assert len(names) == len(set(names))
    assert set(page.attributes("aria-labelledby")) <= set(names)


def test_headings_go_down_by_one():
    page = Page(Report("a").section("b").cards([Card("c")]).section("d").html())
    headings = [tag for tag, _ in page.tags if tag in ("h1", "h2", "h3")]
    assert headings == ["h1", "h2", "h3", "h2"]


def test_cells_are_in_order_with_numbers_flush_right_and_rows_marked():
    table = Table(
        "t",
        ("method", "MiAP"),
        (("chance", "21.0"), ("TAEP", "59.2")),
        strong=frozenset({(1, 1)}),
        muted=frozenset({0}),
        strong_means="the best",
        muted_means="no method",
    )
    html = Report("r").table(table).html()
    page = Page(html)
    assert page.of("td") == ["21.0"]
    assert page.of("strong") == ["59.2"]
    assert page.of("th") == ["method", "MiAP", "chance", "TAEP"]
    assert [attrs.get("class") for tag, attrs in page.tags if tag == "td"] == ["number", "number"]
    assert [attrs.get("class") for tag, attrs in page.tags if tag == "tr"] == [None, "muted", None]
    assert "Bold: the best. Italic: no method." in page.of("p")


@pytest.mark.parametrize("cell", ["1", "-2.5", "+0.31", "1,234.5", "42.3 %", "0.12 s", "1e-05", "-", ""])
def test_numbers_are_recognised(cell):
    assert is_number(cell)


@pytest.mark.parametrize("cell", ["TAEP", "1 boat", "12 of 24", "--", "1.", (Mark("1"),)])
def test_other_cells_are_not_numbers(cell):
    assert not is_number(cell)


def test_a_ragged_table_is_refused():
    with pytest.raises(ValueError, match="row 1 has 1 cells for 2 columns"):
        Table("t", ("a", "b"), (("1", "2"), ("3",)))


def test_an_empty_report_and_an_empty_table_are_pages():
    assert Page(Report("nothing").html()).of("h1") == ["nothing"]
    assert Page(Report("r").table(Table("t", ("a", "b"), ())).html()).of("th") == ["a", "b"]


def test_save_writes_the_page_alone(tmp_path):
    path = Report("Grüße", "50 % € done").save(tmp_path / "new" / "page.html")
    assert path.read_text(encoding="utf-8") == Report("Grüße", "50 % € done").html()
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_save_leaves_the_old_page(tmp_path, monkeypatch):
    path = Report("old").save(tmp_path / "page.html")
    old = path.read_text()

    def disk_full(self, other):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", disk_full)
    with pytest.raises(OSError, match="disk full"):
        Report("new").save(path)
    assert path.read_text() == old
    assert list(tmp_path.iterdir()) == [path]
