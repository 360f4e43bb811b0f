"""The page as a person uses it, in a real browser: every view, on a desk and on a phone, light and dark."""

import json
import re
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
from tests.app.conftest import painted, server_of
from tests.photos.world import calibrated, paint

from unseen.photos.library import PhotoLibrary
from unseen.photos.storage import DATABASE, THUMBNAILS, connect, encode_rows

pytest.importorskip("selenium")
from selenium.common.exceptions import TimeoutException, WebDriverException
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
MIXED = [
    ("red", "red", "blue"),
    ("red", "blue", "blue"),
    ("red", "yellow", "yellow"),
    ("green", "yellow"),
]  # in doubt
N_PHOTOS = 12 + len(MIXED)
DESK, PHONE = (1440, 900), (390, 844)
SCREENS = [pytest.param(size, theme, id=f"{'desk' if size is DESK else 'phone'}-{theme}")
           for size in (DESK, PHONE) for theme in ("light", "dark")]  # fmt: skip
PATIENCE = 90.0  # seconds, for a machine that is busy with other things


class Page:
    """A browser on an app, in the words of somebody who uses it."""

    def __init__(self, driver, base):
        self.driver, self.base, self.provoked = driver, base, []

    def look(self, size=DESK, theme="light", motion="no-preference"):
        """Set the size of the window and what the system prefers."""
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 820}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        wanted = {"prefers-color-scheme": theme, "prefers-reduced-motion": motion}
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def open(self, address=""):
        self.driver.get("about:blank")
        self.driver.get(f"{self.base}/{address}")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, check, what):
        """Wait until a check gives something true, and return it; elements may be replaced meanwhile."""
        try:
            return WebDriverWait(self.driver, PATIENCE, 0.03, [WebDriverException]).until(lambda _: check())
        except TimeoutException:
            shown = self.driver.find_element(By.TAG_NAME, "body").text
            raise AssertionError(f"not seen: {what}, but {shown[:1500]!r}") from None

    def all(self, css, text=""):
        found = self.driver.find_elements(By.CSS_SELECTOR, css)
        return [one for one in found if one.is_displayed() and text in " ".join(one.text.split())]

    def see(self, css, text=""):
        return self.until(lambda: next(iter(self.all(css, text)), None), f"{css} {text!r}")

    def gone(self, css, text=""):
        self.until(lambda: not self.all(css, text), f"no {css} {text!r}")

    def click(self, css, text=""):
        def act():
            one = self.see(css, text)
            self.run("arguments[0].scrollIntoView({ block: 'nearest' })", one)
            return one.click() is None

        self.until(act, f"click on {css} {text!r}")

    def write(self, css, text):
        """Replace the text of a field."""
        self.see(css).send_keys(Keys.CONTROL, "a")
        self.see(css).send_keys(text or Keys.DELETE)

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def text(self, css):
        return self.until(lambda: " ".join(self.see(css).text.split()), css)

    def is_at(self, part):
        self.until(lambda: part in self.driver.current_url, f"address with {part!r}")

    def count(self, text):
        """Wait for the line above the results."""
        return self.see(".count", text)

    def likely(self, word, at=30, **more):
        """Number of photos with a probability of at least so many per cent, as the server says."""
        found = httpx.get(f"{self.base}/v1/search", params={"q": word, **more}).json()
        return f"{found['counts'][at]} likely, {found['exact'] - found['counts'][at]} doubtful"

    def names(self, n):
        """File names of the first photos of the results, when they are there."""
        labels = "return [...document.querySelectorAll('.cell a')].sort((a, b) => a.dataset.i - b.dataset.i)"
        labels += ".map((link) => link.ariaLabel ?? '')"
        self.until(lambda: all(self.run(labels)[:n]), "names of photos")
        return [label.split(",")[0] for label in self.run(labels)[:n]]

    def focused(self, script):
        return self.run(f"const at = document.activeElement; return {script}")

    def severe(self):
        log = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        return [message for message in log if not any(part in message for part in self.provoked)]


@contextmanager
def page_of(driver, *arguments, **options):
    """A page, whose console is empty at the end but for what was provoked."""
    with server_of(*arguments, **options) as base:
        page = Page(driver, base)
        page.look()
        driver.get_log("browser")
        try:
            yield page
            assert page.severe() == []
        finally:
            driver.get("about:blank")


@pytest.fixture
def library(tmp_path):
    return painted(tmp_path, *MIXED)


@pytest.fixture
def page(browser, library):
    with page_of(browser, library, calibrated()) as page:
        yield page


@pytest.fixture
def alone(browser):
    """The page of a server without a library."""
    with page_of(browser, model=calibrated()) as page:
        yield page


@pytest.mark.parametrize(("size", "theme"), SCREENS)
def test_search_look_and_ask_why(page, size, theme):
    page.look(size, theme)
    page.provoked = ["422"]  # words that are not finished have no vector in this small world
    page.open()
    page.count(f"{N_PHOTOS} photos, newest first")
    assert page.run("return getComputedStyle(document.body).backgroundColor") == {
        "light": "rgb(251, 251, 249)", "dark": "rgb(20, 21, 20)"}[theme]  # fmt: skip
    assert len(page.all("header.top nav a")) == (7 if size is DESK else 5)
    page.write("#query", "red")
    page.count(likely := page.likely("red"))
    page.see(".line", "Likely above, doubtful below 30 %")
    assert set(page.names(3)) == {"00.jpg", "04.jpg", "08.jpg"}
    page.is_at("#/search?q=red")

    page.click(".cell a")
    first = page.text(".panel h2")
    page.see(".panel header", f"1 of {N_PHOTOS}")
    assert page.all(".panel h3", "Sure")
    page.click(".tag-name", "red")
    assert page.text(".why .sentence").endswith(".")
    page.click(".why .link", "Show all")
    page.see(".why .link", "Fold")
    values = [
        float(cell.text.replace("\N{MINUS SIGN}", "-").lstrip("= ")) for cell in page.all(".why .parts .num")
    ]
    assert len(values) == 1 + 8 + 1  # the base, a part per annotated label, the score
    assert sum(values[:-1]) == pytest.approx(values[-1], abs=0.06)  # each is rounded
    page.press(Keys.ARROW_RIGHT)
    page.see(".panel header", f"2 of {N_PHOTOS}")
    assert page.text(".panel h2") != first
    page.press(Keys.ESCAPE)
    page.gone("dialog")
    page.until(lambda: page.focused("at.dataset.i") == "1", "focus on the photo that was closed")
    page.count(likely)


def test_words_are_combined_and_the_address_keeps_everything(page):
    page.open("#/search?q=red")
    page.count(page.likely("red"))
    page.until(lambda: page.see(".meter input").send_keys(Keys.END) is None, "slider")
    page.see(".line", "No photo is likely to show this (100 % or more)")
    page.count("0 likely")
    page.see(".meter input").send_keys(Keys.HOME)
    page.count(f"{N_PHOTOS} likely, 0 doubtful")
    page.is_at("min=0")
    page.see(".meter input").send_keys(Keys.ARROW_RIGHT * 60)
    page.count(page.likely("red", 60))
    page.write("#query", "red, warm not crimson")
    page.see(".chip", "not crimson")
    page.count(neither := page.likely("red", 60, **{"and": "warm", "not": "crimson"}))
    page.click(".chip button[aria-label='Remove crimson']")
    page.count(both := page.likely("red", 60, **{"and": "warm"}))
    assert neither != both
    assert [" ".join(chip.text.split()) for chip in page.all(".search-bar .chip")] == ["red", "and warm"]
    page.driver.refresh()
    page.count(both)
    assert page.see("#query").get_property("value") == "red and warm"
    assert page.text(".meter output") == "60 %"
    page.driver.back()
    page.see(".chip", "not crimson")
    page.count(neither)
    page.driver.forward()
    page.gone(".chip", "not crimson")
    page.see("#query").send_keys(Keys.CONTROL, "a", Keys.DELETE)
    page.count(f"{N_PHOTOS} photos, newest first")
    page.run("location.hash = '#/search?since=2030'")
    page.see(".empty", "No photos here")
    page.click(".button", "Show all photos")
    page.count(f"{N_PHOTOS} photos")
    page.provoked = ["422"]
    page.write("#query", "zebra")
    page.see("[role=alert]", "zebra")


def test_photos_like_one_and_answers_show_at_once(page):
    page.open("#/search?q=green")
    page.count(before := page.likely("green"))
    page.click(".cell[aria-posinset='8'] a")
    page.click("button[aria-label='Accept green']")
    page.see(".p", "yes, you")
    name = page.text(".panel h2")
    page.press(Keys.ESCAPE)
    page.count(after := page.likely("green"))
    assert after != before
    page.until(lambda: page.names(1) == [name], "the accepted photo first")
    page.see(".badge.sure", "100 %")
    page.until(lambda: page.focused("at.ariaLabel")[: len(name)] == name, "focus on that photo")
    page.press(Keys.END)
    page.until(lambda: page.focused("at.dataset.i") == str(N_PHOTOS - 1), "focus on the last photo")
    page.press(Keys.HOME, Keys.ENTER)
    page.see(".p", "yes, you")
    page.write(".ask input", "cold")
    page.click(".ask button")
    page.see(".tag", "cold")
    page.click(".panel a", "Photos like this")
    page.count(f"{N_PHOTOS} photos, most alike first")
    assert page.names(1) == [name]
    page.click(".chip button")
    page.gone(".chip img")


@pytest.fixture
def many(tmp_path):
    """A library of 4,000 generated photos with one small picture."""
    library = PhotoLibrary.open(tmp_path / "many", create=True, backbone=str(calibrated().backbone.name))
    n, rng = 4000, np.random.default_rng(0)
    (library.path / "features.1.bin").write_bytes(encode_rows(rng.normal(0, 1.5, (n, 3))).tobytes())
    (library.path / "classes.1.bin").write_bytes(encode_rows(rng.normal(size=(n, 2))).tobytes())
    picture = paint(tmp_path / "picture.jpg", ["red"]).read_bytes()
    digests = [(i * 2**200 + 1).to_bytes(32) for i in range(n)]
    with closing(connect(library.path / DATABASE, write=True)) as db:
        db.execute("BEGIN")
        db.execute("INSERT INTO roots (id, path) VALUES (1, '/photos')")
        rows = ((i, digests[i], i, 48, 32, f"{2000 + i % 20}-05-01 12:00:00") for i in range(n))
        db.executemany("INSERT INTO images VALUES (?, ?, ?, ?, ?, ?, NULL)", rows)
        files = ((f"{i:05d}.jpg", i) for i in range(n))
        db.executemany("INSERT INTO files (root, path, size, changed, image) VALUES (1, ?, 1, 1, ?)", files)
        db.execute("UPDATE settings SET value = ? WHERE key = 'n_rows'", (n,))
        db.execute("COMMIT")
    with closing(connect(library.path / THUMBNAILS, write=True)) as db:
        db.executemany("INSERT INTO thumbnails VALUES (?, ?)", ((digest, picture) for digest in digests))
        db.commit()
    return library


SCROLL = """
const done = arguments[0], n = [];
const step = () => {
  n.push(document.querySelectorAll("*").length);
  if (scrollY + innerHeight >= document.documentElement.scrollHeight - 2) return done(n);
  scrollBy(0, 4000);
  requestAnimationFrame(() => requestAnimationFrame(step));
};
step();
"""


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_large_library_scrolls_to_its_end_with_few_elements(browser, many, size):
    with page_of(browser, many, calibrated()) as page:
        page.look(size)
        page.open("#/search?q=red")
        page.count("3,000 others")
        page.see(".cell img.there")
        n = page.driver.execute_async_script(SCROLL)
        assert len(n) > 10
        assert max(n) < 900
        page.see(".cell[aria-posinset='4000'] img.there")
        page.press("/")
        page.until(lambda: page.focused("at.id") == "query", "focus on the search")


@pytest.mark.parametrize(("size", "theme"), SCREENS[::3])
def test_words_are_counted_edited_checked_and_reset(page, size, theme):
    page.look(size, theme)
    page.open("#/words")
    page.see(".words li", "magenta")
    page.see(".hits", "sure,")  # counted in the background
    n_words = len(page.all(".words li"))
    page.see("main .muted", f"{n_words} words, the default vocabulary")
    page.write("input[aria-label='Filter words']", "magen")
    page.until(lambda: len(page.all(".words li")) == 1, "one word")
    page.click(".tabs a", "Edit")
    page.write("#vocabulary", "red\n> blue")
    page.provoked = ["422"]
    page.click("button", "Save")
    page.see("[role=alert]", "ine 2")
    assert page.focused("at.value.slice(at.selectionStart, at.selectionEnd)") == "> blue"
    page.click(".tabs a", "List")
    page.click(".tabs a", "Edit")  # a draft is kept
    assert page.see("#vocabulary").get_property("value") == "red\n> blue"
    page.write("#vocabulary", "red: crimson\ncold > blue\n")
    page.click("button", "Save")
    page.see(".toast", "Saved: 2 words.")
    page.see(".words .word .muted", "cold")
    page.see(".words li", "also: crimson")
    page.click(".tabs a", "Edit")
    page.click("button", "Reset to default")
    page.click("dialog button", "Cancel")
    page.gone("dialog")
    page.click("button", "Reset to default")
    page.click("dialog button", "Use the default")
    page.see("main .muted", f"{n_words} words, the default vocabulary")


FRAMES = """
const [side, seconds, done] = arguments, canvas = document.querySelector("canvas"), pictures = [];
const look = (end) => (now) => {
  pictures.push(canvas.toDataURL());
  if (now < end || pictures.length < 4) requestAnimationFrame(look(end));
  else done([new Set(pictures).size, pictures.at(-1)]);
};
const start = (n) => {
  if (n) return requestAnimationFrame(() => start(n - 1)); // what was to be drawn is drawn
  if (side !== null) document.querySelectorAll(".switch button")[side].click();
  requestAnimationFrame(look(performance.now() + 1000 * seconds));
};
start(3);
"""


def draws(page, side=None, seconds=0.0):
    """Number of different pictures of the map in some seconds after a switch, and the last one."""
    return page.driver.execute_async_script(FRAMES, side, seconds)


def test_the_map_of_words_is_used_by_keyboard(page):
    page.look(motion="reduce")
    page.open("#/words/map")
    page.see(".switch [aria-pressed=true]", "After")
    page.see("canvas").click()
    page.press("0")
    _, start = draws(page)
    page.press("+", "+")
    assert draws(page)[1] != start
    page.press("0")
    assert draws(page)[1] == start
    page.press(Keys.SPACE)
    page.see(".switch [aria-pressed=true]", "Before")
    assert draws(page)[1] != start
    page.press(Keys.ARROW_RIGHT)
    word = page.text(".map-card strong")
    page.press(Keys.ARROW_LEFT, Keys.ARROW_UP, Keys.ARROW_DOWN, Keys.ENTER)
    page.is_at("#/search?q=")
    page.driver.back()
    page.see("canvas")
    page.write("input[list]", word + Keys.ENTER)
    page.see(".map-card strong", word)


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_map_moves_only_where_motion_is_wanted(page, motion):
    page.look(motion=motion)
    page.open("#/words/map")
    page.see(".switch [aria-pressed=true]", "After")
    n_pictures, _ = draws(page, 0, 1.5)
    assert n_pictures <= 2 if motion == "reduce" else n_pictures > 2


@pytest.mark.parametrize(("size", "theme"), SCREENS[::3])
def test_tags_are_corrected_by_keys_and_buttons(page, library, size, theme):
    page.look(size, theme)
    page.open("#/correct")
    answers = lambda: {(one.word, one.verdict) for one in library.corrections()}  # noqa: E731
    asked = page.text(".big-question strong")
    page.press("y")
    page.see("main .muted", "1 answer on this visit")
    page.until(lambda: answers() == {(asked, True)}, "an answer that is kept")
    page.press("u")
    page.see("main .muted", "0 answers on this visit")
    page.until(lambda: not answers(), "an answer that is taken back")
    page.see(".big-question", asked)
    page.press("n")
    page.until(lambda: answers() == {(asked, False)}, "a tag that is rejected")
    second = page.text(".big-question")
    page.press("s")
    page.until(lambda: page.text(".question") != second, "the next question")
    page.click(".answers button", "Undo")
    page.see(".big-question", second)
    page.click(".answers button", "Yes")
    page.until(lambda: len(library.corrections()) == 2, "a second answer")


def test_many_tags_are_accepted_learned_and_forgotten(page, library):
    page.open("#/correct?word=red")
    page.see(".bulk .slider input").send_keys(Keys.HOME)
    n = page.likely("red", 50).split()[0]
    page.click(".bulk button", f"Accept {n} photos")
    page.press(Keys.ESCAPE)
    page.gone("dialog")
    page.click(".bulk button", f"Accept {n} photos")
    page.click("dialog .primary")
    page.click(".toast button", "Undo")
    page.see(".toast", f"{n} answers taken back.")
    page.click(".bulk button", f"Accept {n} photos")
    page.click("dialog .primary")
    page.see(".learn button", f"Learn from {n} corrections")
    with httpx.Client(base_url=page.base) as client:
        for hit in client.get("/v1/search", params={"q": "green", "limit": 3}).json()["hits"]:
            client.post("/v1/corrections", json={"id": hit["id"], "word": "red", "verdict": False})
    page.driver.refresh()
    page.click(".learn button", f"Learn from {int(n) + 3} corrections")
    page.see(".learn", "The model has learned from your answers.")
    page.see(".learn table", "after")
    assert len(list(library.path.glob("model.*.safetensors"))) == 1
    page.click(".learn button", "Undo learning")
    page.click("dialog .primary")
    page.see(".learn", "Learning carries them over")
    page.gone(".learn button", "Undo learning")
    assert not list(library.path.glob("model.*.safetensors"))


SPY = """
window.uploads = 0;
const ask = window.fetch;
window.fetch = (path, options) => ((uploads += options?.body instanceof FormData), ask(path, options));
"""


@pytest.mark.parametrize(("size", "theme"), SCREENS[::3])
def test_photos_are_tried_without_a_library(alone, tmp_path, size, theme):
    alone.look(size, theme)
    alone.open()
    alone.see("h1", "Tag photos with any words")
    alone.run(SPY)
    paths = [paint(tmp_path / f"{name}.jpg", [name]) for name in ("red", "blue")]
    (tmp_path / "broken.jpg").write_bytes(b"not a photo")
    files = "\n".join(map(str, [*paths, tmp_path / "broken.jpg"]))
    alone.driver.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(files)
    alone.see("[aria-label='red.jpg'] .tag", "red")
    alone.see("[aria-label='blue.jpg'] .tag", "blue")
    alone.see("[aria-label='broken.jpg'] .note", "image")
    assert alone.run("return uploads") == 3
    alone.provoked = ["422"]
    alone.write("#try-words", "warm, cold")
    alone.until(lambda: alone.text("[aria-label='red.jpg'] .tag").startswith("warm"), "new tags")
    alone.until(lambda: alone.text("[aria-label='blue.jpg'] .tag").startswith("cold"), "new tags")
    assert len(alone.all("[aria-label='red.jpg'] .tag")) == 2
    assert alone.run("return uploads") == 3
    alone.click("[aria-label='red.jpg'] .tag-name", "warm")
    alone.see(".why .sentence")
    alone.click("button[aria-label='Remove broken.jpg']")
    alone.click("button", "Remove all")
    alone.click(".strip .button", "All 4")
    alone.see("[aria-label='cat.jpg'] .tag", "warm")
    assert alone.run("return uploads") == 3
    alone.click("header nav a", "Search")
    alone.see(".empty", "No library yet")
    alone.provoked = ["404", "422"]


def test_tags_are_exported_and_taken_back(page, library):
    sidecars = lambda: list(library.path.parent.glob("photos/**/*.xmp"))  # noqa: E731
    page.open("#/export")
    page.click("button", "Preview")
    page.see(".outcome", "would be written.")
    assert page.all(".outcome td", ".xmp")
    assert not sidecars()
    page.click(".outcome .primary")
    page.click("dialog .primary", "Write")
    page.see(".toast", "written.")
    n = len(sidecars())
    assert n >= 12
    page.click("button", "Undo what was written…")
    page.click(".outcome .primary", "Take back")
    page.click("dialog .primary", "Take back")
    page.see(".toast", "taken back.")
    assert not sidecars()
    page.see(".slider input").send_keys(Keys.HOME)
    links = {link.text: link.get_attribute("href") for link in page.all("a[download]")}
    assert all(link.endswith("?min_p=0.3") for link in links.values())
    assert httpx.get(links["CSV"]).text.startswith("path,tag,p,score\n")
    assert len([json.loads(line) for line in httpx.get(links["JSON"]).text.splitlines()]) >= n


def test_results_and_the_api_are_shown(browser, library, tmp_path):
    from PIL import Image

    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.md").write_text(
        "**Table 1**\n\n| method | MiAP |\n| --- | ---: |\n| TAEP | **50.0** |\n"
    )
    Image.new("RGB", (40, 30), "white").save(tmp_path / "run" / "figure.png")
    with page_of(browser, library, calibrated(), reports=[tmp_path / "run"]) as page:
        page.open("#/results")
        page.see(".tabs a", "run")
        page.see("table", "Table 1 method MiAP TAEP 50.0")
        page.until(
            lambda: page.run("return document.querySelector('.figures img').naturalWidth") == 40, "a figure"
        )
        page.open("#/api")
        page.click(".operation summary", "/v1/search")
        page.see(".operation td", "since")
        command = page.text(".operation[open] pre")
        assert re.fullmatch(r"curl '(http://127\.0\.0\.1:\d+/v1/search)'", command)
        page.open("#/nowhere")
        page.see(".empty", "No such page")


def test_dialogs_keep_the_focus_and_it_can_be_seen(page):
    page.open("#/search?q=red")
    page.count(" likely")
    outline = "[at.tagName, parseFloat(getComputedStyle(at).outlineWidth), getComputedStyle(at).outlineStyle]"
    for _ in range(12):
        page.press(Keys.TAB)
        tag, width, style = page.focused(outline)
        assert tag == "BODY" or (width >= 2 and style != "none"), page.focused("at.outerHTML")
    page.run("document.activeElement.blur()")
    page.press("?")
    page.see("dialog", "Keys")
    stops = set()
    for _ in range(8):
        page.press(Keys.TAB)
        stops.add(page.focused("at.tagName"))
        assert page.focused("at === document.body || at.closest('dialog') !== null")
    assert {"BUTTON", "INPUT"} <= stops
    page.press(Keys.ESCAPE)
    page.gone("dialog")
    page.click("button[aria-label='Light or dark']")
    assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(20, 21, 20)"
    page.driver.refresh()
    page.count(" likely")
    assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(20, 21, 20)"


def arrive(page, name):
    """Go to a view, and wait for what it shows."""
    views = {
        "search": ("#/search?q=red", ".cell img.there"), "start": ("", ".suggest .chip"),
        "words": ("#/words", ".hits b"), "edit": ("#/words/edit", "#vocabulary"), "map": ("#/words/map", "canvas"),
        "correct": ("#/correct", ".big-question"), "try": ("#/try", ".sample img"),
        "export": ("#/export", ".slider"), "results": ("#/results", "td"), "api": ("#/api", ".operation"),
        "more": ("#/more", ".card"), "photo": ("#/search?q=red", ".cell a"), "keys": ("#/search", ".cell a"),
        "nothing": ("#/search?since=2030", ".empty"),
    }  # fmt: skip
    address, shown = views[name]
    page.open(address)
    page.see(shown)
    if name == "photo":
        page.click(".cell a")
        page.click(".tag-name", "red")
        page.see(".why .parts")
    elif name == "keys":
        page.click("button[aria-label=Keys]")
        page.see("dialog", "Everywhere")
    elif name == "try":
        page.click(".sample")
        page.see(".try-card .tag")
    elif name == "export":
        page.click("button", "Preview")
        page.see(".outcome td")
    elif name == "api":
        page.click(".operation summary", "/v1/tag")


VIEWS = ["start", "search", "photo", "words", "edit", "map", "correct", "try", "export", "results", "api", "more",
         "keys", "nothing"]  # fmt: skip
CHECK = """
const done = arguments[0];
axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => done(violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .map(({ id, nodes }) => [id, nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`)])));
"""


@pytest.fixture(scope="module")
def shown(browser, tmp_path_factory):
    """The page of a server that no test changes."""
    folder = tmp_path_factory.mktemp("shown")
    (folder / "run").mkdir()
    (folder / "run" / "results.md").write_text(
        "**Table 1**\n\n| method | MiAP |\n| --- | ---: |\n| TAEP | **50.0** |\n"
    )
    with page_of(browser, painted(folder, *MIXED), calibrated(), reports=[folder / "run"]) as page:
        yield page


@pytest.mark.parametrize("view", VIEWS)
def test_views_are_accessible_in_both_themes(shown, view):
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm install --no-save axe-core@4.10.3")
    shown.look(motion="reduce")
    arrive(shown, view)
    shown.run(AXE.read_text(encoding="utf-8"))
    for theme in ("light", "dark"):
        shown.look(DESK, theme, "reduce")
        assert shown.driver.execute_async_script(CHECK) == []


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "keys"])
def test_views_fit_on_the_narrowest_phone(shown, view):
    shown.look((360, 740))
    arrive(shown, view)
    assert shown.run("return document.documentElement.scrollWidth") <= 360
    wide = "return [...document.querySelectorAll('main *, dialog *')].filter((one) => one.checkVisibility() &&"
    wide += " one.getBoundingClientRect().right > 361 && !one.closest('.table, pre, .chips, .stage')).length"
    assert shown.run(wide) == 0
