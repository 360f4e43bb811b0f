// The start view of a library: one box over a grid of photos, likely ones above a line, doubtful ones below.
import { announce, app, button, debounce, empty, h, icon, iconButton, note, number, plural, problem, slider, thumbnail, vocabulary } from "./ui.js";
import { Grid, Results, skeleton } from "./grid.js";

/** Terms of a typed query: [{op: "" | "and" | "or" | "not", word}]. While it is typed, an operator that begins does not count yet. */
export function parseQuery(text, unfinished) {
  const tokens = text.replaceAll(",", " and ").match(/"[^"]*"?|[^\s"]+/g) ?? [];
  if (unfinished && tokens.length > 1 && /^(a|an|n|no|o)$/i.test(tokens.at(-1))) tokens.pop();
  const terms = [{ op: "", word: "" }];
  for (const token of tokens) {
    const op = token.toLowerCase();
    const term = terms.at(-1);
    if (!["and", "or", "not"].includes(op)) term.word = `${term.word} ${token.replaceAll('"', "")}`.trim();
    else if (term.word) terms.push({ op, word: "" });
    else if (op === "not") term.op = op; // "and not", or "not" at the start
  }
  return terms.filter(({ word }) => word);
}
export const quote = (word) => (/\b(and|or|not)\b|,/i.test(word) ? `"${word}"` : word);
const composeQuery = (terms) => terms.map(({ op, word }, k) => (k || op === "not" ? `${op || "and"} ` : "") + quote(word)).join(" ");

/** Parameters of /v1/search for the state in the address. */
function request(params, unfinished) {
  const wanted = new URLSearchParams();
  for (const { op, word } of parseQuery(params.get("q") ?? "", unfinished)) wanted.append(op === "" || (op !== "not" && !wanted.has("q")) ? "q" : op, word);
  for (const key of ["like", "since", "until"]) if (params.get(key)) wanted.set(key, params.get(key));
  return wanted;
}

const scrolls = new Map(); // of queries that were left, so that going back finds the place

export function show(main, address) {
  let params = new URLSearchParams(address.params);
  let shown = null; // the request whose results are in the grid
  let pending = null;
  let edited = 0;
  const threshold = () => Number(params.get("min") ?? app.status.maybe);

  const input = h("input", { id: "query", type: "search", placeholder: "Search with any words", "aria-label": "Search photos with any words",
    autocomplete: "off", spellcheck: false, enterkeyhint: "search", oninput: () => edit({ q: input.value }, true) });
  const form = h("form", { role: "search", onsubmit: (event) => (event.preventDefault(), run(), input.blur()) },
    h("label", { class: "query" }, icon("search"), input, h("kbd", { "aria-hidden": "true" }, "/")));
  const date = (key, label) => h("label", {}, label, h("input", { type: "date", onchange: (event) => edit({ [key]: event.target.value }) }));
  const since = date("since", "From");
  const until = date("until", "To");
  const dates = h("details", { class: "dates" }, h("summary", { "aria-label": "Dates", title: "Dates" }, icon("date")), h("div", { class: "pop" }, since, until,
    button("Any date", () => edit({ since: "", until: "" }))));
  dates.addEventListener("focusout", ({ relatedTarget }) => relatedTarget && !dates.contains(relatedTarget) && (dates.open = false));
  dates.addEventListener("keydown", ({ key }) => key === "Escape" && ((dates.open = false), dates.firstChild.focus()));
  const chips = h("div", { class: "chips" });
  const count = h("p", { class: "count", role: "status" });
  const bars = h("svg", { class: "histogram", viewBox: "0 0 100 20", preserveAspectRatio: "none", "aria-hidden": "true" });
  const cut = slider("A photo is likely from this probability", threshold(), { oninput: (value) => (params.set("min", value), replace(), draw()) });
  const meter = h("div", { class: "meter", hidden: true }, h("div", { class: "meter-bar" }, bars, cut.node));
  const notes = h("div", { class: "notes" });
  const before = h("div");
  const grid = new Grid((hit, i) => `#/photo/${hit.id}?${new URLSearchParams([...params, ["i", i]])}`);
  grid.node.addEventListener("pointerdown", () => (dates.open = false));
  const bar = h("div", { class: "search-bar" }, h("div", { class: "row" }, form, dates), chips, h("div", { class: "row spread" }, count, meter));
  main.append(h("h1", { class: "hidden-text" }, "Search"), bar, notes, before, grid.node);

  const hash = () => {
    const kept = new URLSearchParams([...params].filter(([, value]) => value));
    return `#/search${kept.size ? `?${kept}` : ""}`;
  };
  const replace = () => history.replaceState(null, "", hash());

  /** A change by the user: into the address (a new entry after a pause), then to the server. */
  function edit(changes, keystroke) {
    if (shown) scrolls.set(shown.params.toString(), scrollY);
    for (const [key, value] of Object.entries(changes)) value ? params.set(key, value) : params.delete(key);
    if (Date.now() - edited > 2000 || !keystroke) history.pushState(null, "", hash());
    else replace();
    edited = Date.now();
    if (keystroke) later();
    else run();
    controls(keystroke);
  }
  const later = debounce(() => run(true), 120);

  function controls(keystroke) {
    if (!keystroke) input.value = params.get("q") ?? "";
    since.querySelector("input").value = params.get("since") ?? "";
    until.querySelector("input").value = params.get("until") ?? "";
    dates.classList.toggle("on", Boolean(params.get("since") || params.get("until")));
    cut.set(threshold());
    const terms = parseQuery(params.get("q") ?? "", keystroke);
    const without = (k) => edit({ q: composeQuery(terms.filter((_, j) => j !== k)) });
    const chip = (label, content, remove) => h("span", { class: "chip" }, content, iconButton("close", `Remove ${label}`, remove));
    chips.replaceChildren(...[
      params.get("like") && chip("like", [h("img", { src: thumbnail(params.get("like")), alt: "" }), "photos like this"], () => edit({ like: "" })),
      ...(terms.length > 1 || terms[0]?.op ? terms.map(({ op, word }, k) => chip(word, [op && h("em", {}, op), word], () => without(k))) : []),
    ].filter(Boolean));
  }

  /** Ask for the first page; what is shown stays until the answer is here, and late answers are dropped. */
  async function run(unfinished, again) {
    const wanted = request(params, unfinished);
    if (!again && (pending ?? shown)?.params.toString() === wanted.toString()) return;
    pending?.abort.abort();
    const results = (pending = new Results(wanted));
    main.classList.add("busy");
    main.setAttribute("aria-busy", "true");
    if (!shown) before.replaceChildren(skeleton());
    try {
      await results.load(0);
      if (results !== pending) return;
      shown?.abort.abort();
      shown = view.results = results;
      before.replaceChildren();
      grid.node.hidden = false;
      draw(true);
      scrollTo(0, scrolls.get(wanted.toString()) ?? 0);
    } catch (error) {
      if (results !== pending || error.name === "AbortError") return;
      shown = view.results = null; // those of another query would mislead
      grid.node.hidden = meter.hidden = true;
      bar.hidden = error.code === "no_library";
      count.textContent = "";
      notes.replaceChildren();
      before.replaceChildren(problem(error, error.status === 422 ? null : () => run()));
    } finally {
      if (results === pending) {
        pending = null;
        main.classList.remove("busy");
        main.removeAttribute("aria-busy");
      }
    }
  }

  function draw(fresh) {
    if (!shown) return;
    const { total, counts, exact } = shown;
    const asked = shown.params.has("q") || shown.params.has("not") || shown.params.has("or") || shown.params.has("and");
    const at = Math.round(threshold() * 100);
    const likely = counts?.[at] ?? 0;
    meter.hidden = !counts;
    if (counts) {
      count.replaceChildren(h("strong", {}, number(likely)), ` likely, ${number(Math.max(0, exact - likely))} doubtful`, total > exact ? `, ${number(total - exact)} others` : "");
      histogram(counts, at);
    } else count.textContent = asked ? plural(total, "photo") : shown.params.has("like") ? `${plural(total, "photo")}, most alike first` : `${plural(total, "photo")}, newest first`;
    announce(count.textContent);
    const parts = [{ start: 0 }];
    if (counts) {
      const title = likely ? `Likely above, doubtful below ${at} %` : `No photo is likely to show this (${at} % or more). Doubtful ones:`;
      if (exact > likely) parts.push({ start: likely, title, faint: true });
      if (total > exact) parts.push({ start: exact, title: "Not measured: by their scores", faint: true });
    }
    grid.show(shown, parts);
    if (!fresh) return;
    notes.replaceChildren(...(shown.notes ?? []).map((text) => note(text)));
    if (!total) {
      before.replaceChildren(empty("search", "No photos here", shown.params.size ? "Nothing is left with these words and dates. Remove one of them." : "The library is empty. Run “unseen index FOLDER” to add photos.",
        shown.params.size && button("Show all photos", () => edit({ q: "", like: "", since: "", until: "" }))));
    } else if (!shown.params.size) suggest();
  }

  function histogram(counts, at) {
    const most = Math.log1p(Math.max(...counts.slice(0, -1).map((n, i) => n - counts[i + 1])));
    const n = 50;
    bars.replaceChildren(...Array.from({ length: n }, (_, k) => {
      const size = counts[k * 2] - (k === n - 1 ? 0 : counts[k * 2 + 2]);
      const height = size ? 2 + (18 * Math.log1p(size)) / (most || 1) : 0;
      return h("rect", { x: k * 2 + 0.2, width: 1.6, y: 20 - Math.min(20, height), height: Math.min(20, height), class: k * 2 >= at ? "on" : null });
    }));
  }

  async function suggest() {
    const { words } = await vocabulary().catch(() => ({ words: [] }));
    if (!shown || shown.params.size || !words.length) return;
    const known = words.filter(({ sure, doubt }) => sure && !doubt).sort((a, b) => b.sure - a.sure);
    const pool = known.length > 7 ? known.slice(0, 60) : words;
    const list = pool.filter((_, k) => k % Math.max(1, Math.floor(pool.length / 12)) === 0);
    before.replaceChildren(h("div", { class: "suggest" }, h("div", { class: "chips" }, list.slice(0, 12).map(({ word }) => button(word, () => edit({ q: quote(word) }), "chip"))),
      h("span", { class: "muted" }, "or combine them: ", button(example(list), () => edit({ q: example(list) }), "link"))));
    grid.layout();
  }
  const example = (list) => `${quote(list[0].word)} and ${quote(list[1]?.word ?? "beach")} not ${quote(list[2]?.word ?? "person")}`;

  const view = {
    results: null,
    leave() {
      if (shown) scrolls.set(shown.params.toString(), scrollY);
      pending?.abort.abort();
      grid.leave();
    },
    update(next) {
      if (shown) scrolls.set(shown.params.toString(), scrollY);
      params = new URLSearchParams(next.params);
      params.delete("i");
      controls();
      draw();
      run();
    },
    /** After a photo was closed: the focus goes to it in the grid. */
    focus: (i) => grid.focus(i),
    /** Answers about photos have changed: the same search again, at the same place. */
    async refresh(id) {
      if (!shown) return;
      scrolls.set(shown.params.toString(), scrollY);
      await run(false, true);
      const i = shown?.indexOf(id) ?? -1;
      if (i >= 0 && document.activeElement === document.body) grid.focus(i);
    },
  };
  params.delete("i");
  controls();
  run();
  if (!matchMedia("(pointer: coarse)").matches && address.name === "search") input.focus({ preventScroll: true });
  return view;
}
