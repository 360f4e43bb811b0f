"""Pages are well-formed, load nothing from elsewhere, and nothing put into them becomes markup."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError

from unseen.templates import Mark, Table, _environment, data_uri, numeric_columns, render

HOSTILE = "</title><script>alert('x')</script> & \"quoted\" <img src=x onerror=y>"
IMPORT = '{% from "macros.html.j2" import table, figure, facts, photo_card %}'
PAGE = f"""{{% extends "base.html.j2" %}}{IMPORT}
{{% block content %}}<section><h2>{{{{ text }}}}</h2>
{{{{ facts([(text, text)]) }}}}{{{{ table(*rows) }}}}{{{{ figure(photo, text) }}}}
{{{{ photo_card(photo, text, [(text, 1.5), (text, -0.5)], text) }}}}</section>{{% endblock %}}"""


class Page(HTMLParser):
    """A parsed page; fails on tags that do not match."""

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
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.open[-1], data.strip()))

    def of(self, tag: str) -> list[str]:
        return [text for parent, text in self.texts if parent == tag]

    def classes(self, tag: str) -> list[str | None]:
        return [attrs.get("class") for name, attrs in self.tags if name == tag]


def _macro(call: str, **context) -> Page:
    return Page(_environment().from_string(IMPORT + "{{ " + call + " }}").render(context))


def _page(text: str) -> str:
    rows = Table(text, (text, "n"), ((text, "1.5"), ((Mark(text, "good"), Mark(text)), "2")), text)
    context = {"title": text, "subtitle": text, "text": text, "rows": rows, "photo": data_uri(b"jpeg")}
    return _environment().from_string(PAGE).render(context)


def test_hostile_text_stays_text():
    page = Page(_page(HOSTILE))
    assert "script" not in {tag for tag, _ in page.tags}
    assert [attrs["src"] for tag, attrs in page.tags if tag == "img"] == ["data:image/jpeg;base64,anBlZw=="] * 2
    for tag in ("title", "h1", "h2", "h3", "figcaption", "dt", "dd", "th", "span"):
        assert HOSTILE in page.of(tag)


def test_a_page_begins_with_its_type_and_loads_nothing():
    text = _page("plain")
    assert text.startswith("<!DOCTYPE html>")
    assert "http" not in text.replace("http-equiv", "")
    assert {tag for tag, _ in Page(text).tags} & {"script", "link", "iframe", "object"} == set()


def test_a_page_without_content_has_its_heading():
    assert Page(render("base.html.j2", title="Grüße")).of("h1") == ["Grüße"]


def test_a_value_that_the_template_needs_must_be_given():
    with pytest.raises(UndefinedError, match="title"):
        render("base.html.j2")


def test_cells_are_in_order_with_numbers_aligned_right_and_emphasis():
    rows = ((Mark("chance", "muted"), "21.0"), ("TAEP", Mark("59.2", "strong")))
    page = _macro("table(*t)", t=Table("t", ("method", "MiAP"), rows, "Bold: best."))
    assert [text for _, text in page.texts] == [
        "t",
        "method",
        "MiAP",
        "chance",
        "21.0",
        "TAEP",
        "59.2",
        "Bold: best.",
    ]
    assert page.classes("td") == ["number", "number"]
    assert page.classes("tr") == [None, "muted", None]
    assert page.classes("span") == ["muted", "strong"]


def test_a_table_may_have_no_rows():
    assert _macro("table('t', ('a', 'b'), ())").of("th") == ["a", "b"]


def test_a_ragged_table_is_refused():
    with pytest.raises(ValueError, match="shorter"):
        _macro("table('t', ('a', 'b'), (('1', '2'), ('3',)))")


def test_bars_are_in_proportion_and_only_for_tags_above_zero():
    page = _macro("photo_card('data:,', 'p', [('cat', 4.0), ('dog', 1.0), ('sofa', -1.0)])")
    assert [attrs["style"] for _, attrs in page.tags if "style" in attrs] == ["width:100%", "width:25%"]
    assert page.classes("li") == [None, None, "muted"]


def test_an_svg_becomes_part_of_the_page():
    page = _macro("figure('<svg role=\"img\"><g></g></svg>', 'c')")
    assert [tag for tag, _ in page.tags] == ["figure", "div", "svg", "g", "figcaption"]


@pytest.mark.parametrize(
    "cell", ["1", "-2.5", "+0.31", "1,234.5", "42.3 %", "0.12 s", "1e-05", "-", "", Mark("1")]
)
def test_numbers_are_recognised(cell):
    assert numeric_columns([[cell], ["1"]]) == [True]


@pytest.mark.parametrize("cell", ["TAEP", "1 boat", "12 of 24", "--", "1.", (Mark("1"), Mark("true"))])
def test_other_cells_are_not_numbers(cell):
    assert numeric_columns([[cell], ["1"]]) == [False]


def test_a_table_as_markdown():
    rows = (("a|b & c", "1"), (Mark("d", "strong"), "2"))
    template = '{% from "macros.md.j2" import table %}{{ table("T", ("x", "n"), rows, "Note.") }}'
    expected = "**T**\n\n| x | n |\n| --- | ---: |\n| a\\|b & c | 1 |\n| **d** | 2 |\n\nNote.\n"
    environment = _environment().overlay(autoescape=False)
    assert environment.from_string(template).render(rows=rows) == expected
