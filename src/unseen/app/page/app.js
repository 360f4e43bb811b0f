// The frame of the page: navigation, theme, keys, and which view the address shows.
import { announce, app, dialog, empty, furniture, h, icon, iconButton, problem, refreshStatus, setting, typing } from "./ui.js";
import * as search from "./search.js";
import * as photo from "./photo.js";
import * as words from "./words.js";
import * as correct from "./correct.js";
import * as tryout from "./try.js";
import * as more from "./more.js";

const VIEWS = {
  search: ["Search", search.show], correct: ["Correct", correct.show], words: ["Words", words.show], try: ["Try", tryout.show],
  export: ["Export", more.showExport], results: ["Results", more.showResults], api: ["API", more.showApi], more: ["More", showMore],
};
const SECONDARY = ["export", "results", "api"];
const KEYS = [
  ["Everywhere", [["/", "search"], ["?", "this list"], ["Esc", "close, go back"]]],
  ["Results", [["← → ↑ ↓", "move between photos"], ["Enter", "open the photo"], ["Home, End", "first, last photo"]]],
  ["A photo", [["← →", "previous, next photo of the results"], ["Enter", "on a tag: why"]]],
  ["Correct", [["y or →", "yes"], ["n or ←", "no"], ["s or ↓", "skip"], ["u or ↑", "undo"]]],
  ["Map of words", [["← → ↑ ↓", "next word in that direction"], ["+ −", "zoom"], ["0", "show all"], ["Enter", "search the word"], ["Space", "before or after projection"]]],
];

/** The address as data: #/name/rest?params. */
function parse() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decodeURIComponent);
  return { name: name || (app.status?.library ? "search" : "try"), rest, params: new URLSearchParams(query) };
}

const main = h("main", { id: "main", tabindex: "-1" });
let current = { name: null, view: null };

/** Show what the address says. A photo lies over the view it was opened from, which stays as it is. */
function route() {
  const address = parse();
  const over = address.name === "photo";
  const name = over ? current.name ?? "search" : VIEWS[address.name] ? address.name : "missing";
  if (!over) photo.close();
  const moved = name !== current.name;
  const first = current.name === null;
  if (moved) {
    current.view?.leave?.();
    main.replaceChildren();
    main.className = `view view-${name}`;
    scrollTo(0, 0);
    const [, show] = VIEWS[name] ?? ["", showMissing];
    current = { name, view: show(main, address) };
  } else if (!over) current.view?.update?.(address);
  if (over) photo.open(address, current.view, first);
  const title = VIEWS[name]?.[0] ?? "Not found";
  document.title = `${over ? "Photo" : title} · unseen`;
  if (moved) announce(title);
  for (const link of document.querySelectorAll(".top nav a")) {
    const on = link.dataset.view === name || (link.dataset.view === "more" && SECONDARY.includes(name));
    if (on) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function showMissing(view) {
  view.append(h("h1", { class: "hidden-text" }, "Not found"), empty("warn", "No such page", "The address does not name a page of this app.", h("a", { class: "button", href: "#/" }, "Go to the start")));
}

function showMore(view) {
  const item = (name, text) => h("a", { class: "card", href: `#/${name}` }, h("strong", {}, VIEWS[name][0]), h("span", { class: "muted" }, text));
  view.append(h("div", { class: "head" }, h("h1", {}, "More")), h("div", { class: "cards" },
    item("export", "Tags for other programs: XMP, CSV, JSON."),
    item("results", "Tables and figures of experiments."),
    item("api", "The HTTP interface, with examples.")));
}

function toggleTheme() {
  const root = document.documentElement;
  const dark = (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  root.dataset.theme = dark ? "light" : "dark";
  setting("theme", root.dataset.theme);
  dispatchEvent(new Event("themechange"));
  announce(`${root.dataset.theme} theme`);
}

const showKeys = () =>
  dialog("Keys", () => [h("div", { class: "keys" }, KEYS.map(([where, keys]) =>
    h("section", {}, h("h3", {}, where), h("dl", {}, keys.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]))))),
  h("label", { class: "check" }, h("input", { type: "checkbox", checked: setting("keys") !== "off", onchange: ({ target }) => setting("keys", target.checked ? "on" : "off") }), "Use single letters and signs as keys")], { wide: true });

function frame() {
  const link = (name) => h("a", { href: `#/${name}`, "data-view": name }, icon(name in { search: 1, words: 1, correct: 1, try: 1 } ? name : "more"), h("span", {}, VIEWS[name][0]));
  const { library } = app.status;
  const first = library ? ["search", "correct", "words", "try"] : ["try", "search", "words"];
  document.body.replaceChildren(
    h("a", { class: "skip", href: "#main", onclick: (event) => (event.preventDefault(), main.focus()) }, "Skip to content"),
    h("header", { class: "top" },
      h("a", { class: "brand", href: "#/", "aria-label": "unseen: start" }, h("img", { src: "icon.svg", alt: "", width: 26, height: 26 }), "unseen"),
      h("nav", { "aria-label": "Main" }, first.map(link), SECONDARY.map((name) => Object.assign(link(name), { className: "wide-only" })),
        Object.assign(link("more"), { className: "narrow-only" })),
      h("div", { class: "tools" }, iconButton("key", "Keys", showKeys, { class: "icon-button wide-only" }), iconButton("theme", "Light or dark", toggleTheme))),
    main, ...furniture);
}

async function start() {
  document.body.replaceChildren(h("div", { class: "boot", role: "status" }, "Loading…"));
  try {
    await refreshStatus();
  } catch (error) {
    document.body.replaceChildren(h("main", {}, problem(error, start)));
    return;
  }
  history.scrollRestoration = "manual";
  frame();
  addEventListener("hashchange", route);
  addEventListener("keydown", (event) => {
    if (typing(event) || document.querySelector("dialog.box[open]")) return;
    if (event.key === "?") showKeys();
    else if (event.key === "/" && app.status.library && !document.querySelector("dialog[open]")) {
      event.preventDefault();
      if (current.name !== "search") location.hash = "#/search";
      setTimeout(() => document.getElementById("query")?.focus());
    }
  });
  route();
}
start();
