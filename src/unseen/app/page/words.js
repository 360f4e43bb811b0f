// The vocabulary: how often each word is found, what is near it, an editor, and the map.
import { api, app, button, confirm, failed, h, lines, note, number, plural, problem, toast, vocabulary } from "./ui.js";
import { showMap } from "./map.js";
import { quote } from "./search.js";

let draft = null; // an edit that was not saved, kept while other views are looked at
const TABS = [["", "List"], ["edit", "Edit"], ["map", "Map"]];

export function show(main, address) {
  let leaveTab = null;
  const body = h("div");
  const tabs = h("nav", { class: "tabs", "aria-label": "Words" });
  const summary = h("p", { class: "muted", role: "status" });
  main.append(h("div", { class: "head" }, h("div", {}, h("h1", {}, "Words"), summary), tabs), body);

  function update({ rest: [tab = ""] }) {
    leaveTab?.();
    leaveTab = null;
    tabs.replaceChildren(...TABS.map(([name, label]) => h("a", { href: `#/words${name && `/${name}`}`, "aria-current": name === tab ? "page" : null }, label)));
    body.replaceChildren(lines(12));
    const views = { edit: showEditor, map: showMap };
    Promise.resolve((views[tab] ?? showList)(body, summary)).then((leave) => {
      if (main.isConnected) leaveTab = leave;
      else leave?.();
    }, (error) => body.replaceChildren(problem(error, () => update(address))));
  }
  update(address);
  return { update, leave: () => leaveTab?.() };
}

async function showList(body, summary) {
  let data = await vocabulary(true);
  let timer = null;
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter words", oninput: () => draw() });
  const order = h("select", { "aria-label": "Order", onchange: () => draw() },
    h("option", { value: "text" }, "As in the vocabulary"), h("option", { value: "sure" }, "Most photos first"), h("option", { value: "name" }, "By name"), h("option", { value: "doubt" }, "Warnings first"));
  const list = h("ul", { class: "words" });
  body.replaceChildren(h("div", { class: "row" }, filter, order), list);

  function draw() {
    const found = data.words.filter(({ word, parents, synonyms }) => [word, ...parents, ...synonyms].join(" ").toLowerCase().includes(filter.value.toLowerCase()));
    const warned = ({ doubt, orphan }) => (doubt ? 2 : 0) + (orphan ? 1 : 0);
    const orders = { sure: (a, b) => (b.sure ?? -1) - (a.sure ?? -1), name: (a, b) => a.word.localeCompare(b.word), doubt: (a, b) => warned(b) - warned(a) };
    if (orders[order.value]) found.sort(orders[order.value]);
    const most = Math.max(1, ...data.words.map(({ sure, maybe }) => (sure ?? 0) + (maybe ?? 0)));
    const width = (n) => `${100 * Math.sqrt((n ?? 0) / most)}%`;
    list.replaceChildren(...found.map((item) => h("li", {},
      h("div", { class: "word" }, item.parents.length > 0 && h("span", { class: "muted" }, `${item.parents.join(" › ")} › `),
        h("a", { href: `#/search?q=${encodeURIComponent(quote(item.word))}` }, item.word), item.annotated && h("small", { class: "badge-text", title: "Photos annotated with this word were used for training" }, "annotated")),
      h("div", { class: "hits" }, item.sure == null ? h("span", { class: "muted" }, data.counting ? "counting…" : "") : [
        h("span", { class: "bar two", "aria-hidden": "true" }, h("i", { class: "maybe", style: { width: width(item.sure + item.maybe) } }), h("i", { style: { width: width(item.sure) } })),
        h("span", {}, h("b", {}, number(item.sure)), " sure, ", number(item.maybe), " maybe")]),
      h("div", { class: "near muted" }, item.synonyms.length > 0 && h("span", {}, `also: ${item.synonyms.join(", ")}`), item.neighbours.length > 0 && h("span", {}, `near: ${item.neighbours.join(", ")}`)),
      [item.doubt, item.orphan].filter(Boolean).map((text) => note(text)))));
    if (!found.length) list.append(h("li", { class: "muted" }, "No word matches the filter."));
    summary.textContent = `${plural(data.words.length, "word")}${data.is_default ? ", the default vocabulary" : ""}${data.counting ? `. Counting photos: ${number(data.counting.done)} of ${number(data.counting.total)}` : ""}`;
  }
  async function poll() {
    try {
      data = await vocabulary(true);
      if (!data.counting || !list.contains(document.activeElement)) draw(); // the focus stays where it is
    } catch (error) {
      failed(error);
    }
    timer = data.counting && setTimeout(poll, 1500);
  }
  draw();
  timer = data.counting && setTimeout(poll, 1500);
  return () => clearTimeout(timer);
}

async function showEditor(body, summary) {
  const data = await vocabulary();
  summary.textContent = data.is_default ? "You edit a copy of the default vocabulary." : "Your own vocabulary.";
  const text = h("textarea", { id: "vocabulary", spellcheck: false, rows: 24, value: draft ?? data.text, "aria-describedby": "vocabulary-error", oninput: () => dirty() });
  const message = h("p", { id: "vocabulary-error", class: "error", role: "alert" });
  const save = button("Save", () => send("PUT", { text: text.value }), "button primary", { disabled: (draft ?? data.text) === data.text });
  const reset = button("Reset to default", async () =>
    (await confirm("Back to the default?", "Your list of words is replaced by the default one. Answers about photos are kept.", "Use the default")) && send("DELETE"), "button", { disabled: data.is_default });
  const dirty = () => {
    save.disabled = text.value === data.text;
    draft = save.disabled ? null : text.value;
  };
  async function send(method, content) {
    message.textContent = "";
    save.disabled = true;
    try {
      app.words = await api("v1/words", { method, body: content });
      draft = null;
      toast(`Saved: ${plural(app.words.words.length, "word")}.`);
      location.hash = "#/words";
    } catch (error) {
      dirty();
      message.textContent = error.message;
      const line = Number(/\bline (\d+)/i.exec(error.message)?.[1]);
      if (line) {
        const start = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1);
        text.focus();
        text.setSelectionRange(start, start + text.value.split("\n")[line - 1].length);
      }
    }
  }
  body.replaceChildren(h("div", { class: "editor" }, h("div", {}, h("label", { for: "vocabulary" }, "One tag per line"), text, message, h("div", { class: "actions" }, save, reset)),
    h("aside", {}, h("h2", {}, "How to write it"), h("dl", {},
      [["boat", "a word"], ["boat: ship, yacht", "words that count as the same tag"], ["cat: !toy cat", "but not this"], ["animal > cat", "a tag above it"],
        ["@everyday", "the everyday words"], ["!weapon", "never this word"], ["# text", "a comment"]].map(([code, what]) => [h("dt", {}, h("code", {}, code)), h("dd", {}, what)])))));
  const warn = (event) => !save.disabled && event.preventDefault();
  addEventListener("beforeunload", warn);
  return () => removeEventListener("beforeunload", warn);
}
