"""Pages are well-formed, load nothing from elsewhere, and nothing put into them becomes markup."""

import itertools
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError

from unseen.base import Tag
from unseen.labels.knowable import Doubt
from unseen.photos.tagger import card_rows
from unseen.templates import Mark, Table, _environment, data_uri, numeric_columns, render

HOSTILE = "</title><script>alert('x')</script> & \"quoted\" <img src=x onerror=y>"
IMPORT = '{% from "macros.html.j2" import table, figure, facts, photo_card %}'
CONTENT = """{% block content %}<h2>{{ text }}</h2>{{ facts([(text, text)]) }}{{ table(*rows) }}
{{ figure(photo, text) }}{{ photo_card(photo, text, [(text, text, 0.5, "sure", text)], text) }}{% endblock %}"""


class Page(HTMLParser):
    """A parsed page; fails on tags that do not match."""

    def __init__(self, template: str, **context) -> None:
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts = [], [], []
        self.source = _environment().from_string(template).render(context)
        self.feed(self.source)
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

    def values(self, tag: str, attribute: str) -> list[str | None]:
        return [attrs.get(attribute) for name, attrs in self.tags if name == tag]


@pytest.mark.parametrize("text", [HOSTILE, "Grüße"])
def test_a_page_shows_its_text_as_text_and_loads_nothing(text):
    rows = Table(text, (text, "n"), ((text, "1.5"), ((Mark(text, "good"), Mark(text)), "2")), text)
    context = {"title": text, "subtitle": text, "text": text, "rows": rows, "photo": data_uri(b"jpeg")}
    page = Page('{% extends "base.html.j2" %}' + IMPORT + CONTENT, **context)
    assert page.source.startswith("<!DOCTYPE html>")
    assert page.values("img", "src") == ["data:image/jpeg;base64,anBlZw=="] * 2
    assert {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object"} == set()
    tags = {tag for tag, shown in page.texts if shown == text}
    assert tags >= {"title", "h1", "h2", "h3", "figcaption", "dt", "dd", "th", "span"}


def test_a_value_that_the_template_needs_must_be_given():
    assert "<h1>t</h1>" in render("base.html.j2", title="t")
    with pytest.raises(UndefinedError, match="title"):
        render("base.html.j2")


def test_cells_are_in_order_with_numbers_aligned_right_and_emphasis():
    rows = ((Mark("chance", "muted"), "21.0"), ("TAEP", Mark("59.2", "strong")))
    page = Page(IMPORT + "{{ table(*t) }}", t=Table("t", ("method", "MiAP"), rows, "Bold: best."))
    expected = ["t", "method", "MiAP", "chance", "21.0", "TAEP", "59.2", "Bold: best."]
    assert [text for _, text in page.texts] == expected
    assert page.values("td", "class") == ["number", "number"]
    assert page.values("tr", "class") == [None, "muted", None]
    assert page.values("span", "class") == ["muted", "strong"]


def test_a_table_may_be_empty_but_not_ragged():
    assert Page(IMPORT + "{{ table('t', ('a', 'b'), ()) }}").texts[1:] == [("th", "a"), ("th", "b")]
    with pytest.raises(ValueError, match="shorter"):
        Page(IMPORT + "{{ table('t', ('a', 'b'), (('1', '2'), ('3',))) }}")


@pytest.mark.parametrize(
    ("tags", "styles", "tones"),
    [
        ([("cat", 4.0, None), ("dog", 1.0, None), ("sofa", -1.0, None)], ["100", "25"], ["sure", "sure", "muted"]),
        ([("cat", -1.0, 0.97), ("dog", 1.0, 0.8), ("red", 9.0, 0.3), ("sofa", 9.0, 0.29)], ["97", "80", "30"],
         ["sure", "sure", "maybe", "muted"]),
    ],
)  # fmt: skip
def test_bars_are_in_proportion_to_p_or_else_the_score(tags, styles, tones):
    rows = card_rows(itertools.starmap(Tag, tags), {"red": Doubt("colour", "")})
    page = Page(IMPORT + "{{ photo_card('data:,', 'p', rows) }}", rows=rows)
    assert [style for style in page.values("div", "style") if style] == [f"width:{width}%" for width in styles]
    assert page.values("li", "class") == tones
    assert [text for tag, text in page.texts if tag == "em"] == ["colour"] * (len(tags) == 4)


def test_an_svg_is_part_of_the_page():
    page = Page(IMPORT + "{{ figure('<svg role=\"img\"><g></g></svg>', 'c') }}")
    assert [tag for tag, _ in page.tags] == ["figure", "div", "svg", "g", "figcaption"]


def test_numbers_are_told_from_text():
    assert all(
        numeric_columns([["1", "-2.5", "+0.31", "1,234.5", "42.3 %", "0.12 s", "1e-05", "-", "", Mark("1")]])
    )
    assert not any(numeric_columns([["TAEP", "1 boat", "12 of 24", "--", "1.", (Mark("1"), Mark("true"))]]))
    assert numeric_columns([["1", "2"], ["3", "x"]]) == [True, False]


def test_a_table_as_markdown():
    rows = (("a|b & c", "1"), (Mark("d", "strong"), "2"))
    template = '{% from "macros.md.j2" import table %}{{ table("T", ("x", "n"), rows, "Note.") }}'
    text = _environment().overlay(autoescape=False).from_string(template).render(rows=rows)
    assert text == "**T**\n\n| x | n |\n| --- | ---: |\n| a\\|b & c | 1 |\n| **d** | 2 |\n\nNote.\n"
