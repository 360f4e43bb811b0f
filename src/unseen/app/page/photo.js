// One photo over the results: large, with its tags, and for each tag the exact parts of its score.
import { api, app, bar, button, day, empty, failed, h, icon, iconButton, image, lines, note, number, percent, plural, post, problem, signed, thumbnail, typing } from "./ui.js";
import { parseQuery } from "./search.js";

const KINDS = { label: "annotated labels", class: "classes of the backbone", image: "photos" };
const MOST = 100; // parts that are drawn when all are asked for

/** How many parts are worth a bar of their own: at most eight, and none that would be a hair. */
function worthy({ parts }) {
  const small = parts.findIndex(({ value }) => Math.abs(value) < 0.03 * Math.abs(parts[0].value));
  return Math.min(8, small < 0 ? parts.length : Math.max(2, small));
}

/** Why a photo has a tag: a sentence, then the parts as bars that begin where the last one ended, so that they end at the score. */
function chart(why, all) {
  const shown = all ? why.parts.slice(0, MOST) : why.parts.slice(0, worthy(why));
  const folded = why.parts.slice(shown.length);
  const rows = [{ kind: "base", name: "base", value: why.offset }, ...shown];
  if (folded.length) rows.push({ kind: "rest", name: plural(folded.length, "other"), value: folded.reduce((sum, { value }) => sum + value, 0) });
  let at = 0;
  const spans = rows.map(({ value }) => [at, (at += value)]);
  const low = Math.min(0, ...spans.flat());
  const scale = 100 / (Math.max(0, ...spans.flat()) - low || 1);
  const row = ({ kind, name, value }, [from, to]) => h("tr", { class: kind }, h("th", { scope: "row" }, name),
    h("td", { class: "plot" }, h("i", { class: `part ${kind}${to < from ? " against" : ""}`,
      style: { left: `${(Math.min(from, to) - low) * scale}%`, width: `max(2px, ${Math.abs(to - from) * scale}%)` } })),
    h("td", { class: "num" }, kind === "total" ? `= ${signed(value)}` : signed(value)));
  const kinds = Object.keys(KINDS).filter((kind) => why.parts.some((part) => part.kind === kind));
  return h("div", {},
    h("table", { class: "parts", "aria-label": `Parts of the score of ${why.word}`, style: { "--zero": `${-low * scale}%` } },
      h("tbody", {}, rows.map((part, k) => row(part, spans[k])), row({ kind: "total", name: "score", value: why.score }, [0, why.score]))),
    h("p", { class: "sum" }, `${signed(why.offset)} base ${signed(why.score - why.offset).replace(/^./, (sign) => `${sign} `)} parts = ${signed(why.score)} score`,
      why.p == null ? "" : `, a chance of ${percent(why.p)}`),
    h("ul", { class: "legend" }, kinds.map((kind) => h("li", {}, h("i", { class: `part ${kind}` }), KINDS[kind])), h("li", {}, h("i", { class: "part against" }), "against")));
}

/** The explanation of one word on one photo; `go` opens an example. */
export function explanation(id, word, go) {
  const node = h("div", { class: "why" }, h("p", { class: "muted", role: "status" }, "Looking for reasons…"));
  const load = () => post("v1/explain", { id, word }).then((why) => {
    const plot = h("div", {}, chart(why));
    const label = why.parts.length > MOST ? `Show the ${MOST} largest parts` : `Show all ${why.parts.length} parts`;
    const unfold = why.parts.length > worthy(why) && h("button", { type: "button", class: "link", "aria-expanded": "false", onclick: ({ target }) => {
      const open = target.getAttribute("aria-expanded") === "false";
      target.setAttribute("aria-expanded", open);
      target.textContent = open ? "Fold small parts" : label;
      plot.replaceChildren(chart(why, open));
    } }, label);
    node.replaceChildren(h("p", { class: "sentence" }, why.sentence), plot, unfold || "",
      why.examples.length ? h("div", {}, h("h4", {}, `Photos you accepted for “${word}”`), h("div", { class: "strip" },
        why.examples.map((photo) => h("a", { href: `#/photo/${photo.id}`, onclick: (event) => go && (event.preventDefault(), go(photo.id)) },
          h("img", { src: thumbnail(photo.id), alt: photo.name, loading: "lazy" }))))) : "");
  }).catch((error) => node.replaceChildren(problem(error, load)));
  load();
  return node;
}

/** A tag with its bar; a click shows why. With `verdicts`, buttons to accept or reject it. */
export function tagRow(id, tag, { verdicts, go } = {}) {
  let why = null;
  const toggle = h("button", { type: "button", class: "tag-name", "aria-expanded": "false", onclick: () => {
    const open = toggle.getAttribute("aria-expanded") === "false";
    toggle.setAttribute("aria-expanded", open);
    if (open) row.append((why ??= explanation(id, tag.name, go)));
    else why.remove();
  } });
  const answer = async (verdict) => {
    try {
      const { corrections } = await post("v1/corrections", { id, word: tag.name, verdict: tag.verdict === verdict ? null : verdict });
      tag.verdict = tag.verdict === verdict ? null : verdict;
      app.status.corrections = corrections;
      place.changed = true;
      paint();
    } catch (error) {
      failed(error);
    }
  };
  const yes = iconButton("correct", `Accept ${tag.name}`, () => answer(true));
  const no = iconButton("close", `Reject ${tag.name}`, () => answer(false));
  const row = h("li", { class: "tag" }, h("div", { class: "tag-head" }, toggle, verdicts && h("span", { class: "verdicts" }, yes, no)));
  function paint() {
    const p = tag.verdict == null ? tag.p : Number(tag.verdict);
    row.dataset.kind = tag.verdict == null ? tag.kind : tag.verdict ? "sure" : "no";
    row.dataset.verdict = tag.verdict;
    toggle.replaceChildren(h("span", { class: "tag-word" }, tag.name, tag.doubt && h("small", {}, `cannot know: ${tag.doubt}`)), bar(p ?? sigmoid(tag.score), row.dataset.kind),
      h("span", { class: "p" }, tag.verdict == null ? (tag.p == null ? signed(tag.score) : percent(tag.p)) : tag.verdict ? "yes, you" : "no, you"));
    yes.setAttribute("aria-pressed", tag.verdict === true);
    no.setAttribute("aria-pressed", tag.verdict === false);
  }
  paint();
  return row;
}
const sigmoid = (x) => 1 / (1 + Math.exp(-x));

let node = null; // the open dialog
let place = {}; // what it shows: address, the view below, whether it was the first page, is being left, has changed answers

/** Show the photo of the address over `view`, whose results the arrow keys walk through. */
export function open(address, view, first) {
  const { params, rest: [id] } = address;
  place = { id, params, view, direct: node ? place.direct : first, changed: node ? place.changed : false };
  if (!node) {
    node = h("dialog", { class: "photo", "aria-label": "Photo" });
    node.addEventListener("cancel", (event) => (event.preventDefault(), leave()));
    node.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || typing(event)) return;
      event.preventDefault();
      walk(step);
    });
    let from = null; // a swipe
    node.addEventListener("touchstart", ({ touches, target }) => (from = touches.length === 1 && target.closest(".stage") ? touches[0] : null), { passive: true });
    node.addEventListener("touchend", ({ changedTouches: [to] }) => {
      const [dx, dy] = from ? [to.clientX - from.clientX, to.clientY - from.clientY] : [0, 0];
      if (Math.abs(dx) > 60 && Math.abs(dx) > 2 * Math.abs(dy) && visualViewport.scale === 1) walk(dx < 0 ? 1 : -1);
    });
    document.body.append(node);
    node.showModal();
  }
  render(id, params);
}

export function close() {
  if (!node) return;
  node.close();
  node.remove();
  node = null;
  const i = Number(place.params.get("i") ?? -1);
  if (place.leaving && place.view?.results?.hit(i)?.id === place.id) place.view.focus(i);
  if (place.changed) place.view?.refresh?.(place.id);
}

function leave() {
  place.leaving = true;
  const kept = new URLSearchParams(place.params);
  kept.delete("i");
  if (place.direct) location.replace(`#/search${kept.size ? `?${kept}` : ""}`);
  else history.back();
}

const go = (id, params = "") => location.replace(`#/photo/${id}${params && `?${params}`}`);

async function walk(step) {
  const results = place.view?.results;
  if (!results) return;
  const i = (place.params.has("i") ? Number(place.params.get("i")) : results.indexOf(place.id)) + step;
  if (i < 0 || i >= results.total || (i === 0 && step > 0 && !place.params.has("i"))) return;
  try {
    await results.load(i);
    const params = new URLSearchParams(place.params);
    params.set("i", i);
    go(results.hit(i).id, params);
    await results.load(Math.min(results.total - 1, Math.max(0, i + step)));
    const next = results.hit(i + step);
    if (next) new Image().src = image(next.id);
  } catch (error) {
    failed(error);
  }
}

async function render(id, params) {
  const focused = document.activeElement?.dataset?.step;
  const results = place.view?.results;
  const i = Number(params.get("i") ?? -1);
  const full = h("img", { class: "full", alt: "", src: image(id) });
  full.addEventListener("load", () => full.classList.add("there"));
  full.addEventListener("error", () => thumb.isConnected && stage.append(note("The file is not there any more; this is its thumbnail.")));
  const step = (delta, name, label) => iconButton(name, label, () => walk(delta), { "data-step": delta, class: `icon-button step ${name}`, disabled: results && (i + delta < 0 || i + delta >= results.total) });
  const walkable = params.has("i") || results?.indexOf(id) >= 0;
  const thumb = h("img", { class: "thumb", alt: "", src: thumbnail(id) });
  thumb.addEventListener("error", () => thumb.remove());
  const stage = h("div", { class: "stage" }, thumb, full,
    walkable && [step(-1, "left", "Previous photo"), step(1, "right", "Next photo")], iconButton("close", "Close", leave, { class: "icon-button step close" }));
  const panel = h("aside", { class: "panel", "aria-busy": "true" }, lines(7));
  node.replaceChildren(stage, panel);
  (stage.querySelector(`[data-step="${focused}"]:not(:disabled)`) ?? stage.querySelector(".close")).focus();
  const load = async () => {
    try {
      const photo = await api(`v1/photos/${id}`);
      if (place.id !== id || !node) return;
      full.alt = `${photo.name}: ${photo.tags.map(({ name }) => name).join(", ") || "no tags"}`;
      node.setAttribute("aria-label", photo.name);
      panel.replaceChildren(...details(photo, params, walkable && results ? `${number(i + 1)} of ${number(results.total)}` : null));
    } catch (error) {
      if (place.id !== id) return;
      stage.querySelector(".note")?.remove();
      panel.replaceChildren(error.status === 404 && error.code !== "no_library" ? empty("photo", "This photo is not here", "It may have been deleted or changed since.", button("Back to the photos", leave)) : problem(error, load));
    } finally {
      panel.removeAttribute("aria-busy");
    }
  };
  load();
}

function details(photo, params, position) {
  const group = (title, tags) => tags.length > 0 && [h("h3", {}, title), h("ul", { class: "tags" }, tags.map((tag) => tagRow(photo.id, tag, { verdicts: true, go })))];
  const lists = { asked: h("ul", { class: "tags" }), query: h("ul", { class: "tags" }) };
  const named = new Set(photo.tags.map(({ name }) => name));
  const ask = async (words, list) => {
    const fresh = words.filter((word) => word && !named.has(word));
    if (!fresh.length) return;
    fresh.forEach((word) => named.add(word));
    try {
      const { photos } = await post("v1/tag", { ids: [photo.id], words: fresh, top: fresh.length, min_p: 0 });
      list.prepend(...photos[0].tags.map((tag) => tagRow(photo.id, tag, { verdicts: true, go })));
    } catch (error) {
      failed(error);
    }
  };
  const searched = parseQuery(params.get("q") ?? "").map(({ word }) => word).filter((word) => !named.has(word));
  ask(searched, lists.query);
  const input = h("input", { type: "text", placeholder: "Ask for another word", "aria-label": "Ask for another word", maxlength: 80 });
  const { sure, maybe } = Object.groupBy(photo.tags, ({ kind, verdict }) => (verdict === true || kind === "sure" ? "sure" : "maybe"));
  const fact = (name, value) => value && [h("dt", {}, name), h("dd", {}, value)];
  return [
    h("header", {}, h("h2", {}, photo.name), position && h("span", { class: "muted" }, position)),
    photo.note && note(photo.note),
    searched.length > 0 && [h("h3", {}, "Your search"), lists.query],
    group("Sure", sure ?? []), group("Maybe", maybe ?? []),
    !photo.tags.length && [h("p", { class: "muted" }, photo.guess ? "No tag is likely. The best guess:" : "No tag is likely."), photo.guess && h("ul", { class: "tags" }, tagRow(photo.id, photo.guess, { verdicts: true, go }))],
    h("h3", {}, "Any other word"), lists.asked,
    h("form", { class: "ask", onsubmit: (event) => (event.preventDefault(), ask(input.value.split(",").map((word) => word.trim()), lists.asked), (input.value = "")) },
      input, h("button", { class: "button" }, "Ask")),
    h("a", { class: "button", href: `#/search?like=${photo.id}` }, icon("like"), "Photos like this"),
    h("dl", { class: "facts" }, fact("Taken", day(photo.taken) && `${day(photo.taken)}, ${photo.taken.slice(11, 16)}`), fact("Size", photo.width && `${photo.width} × ${photo.height}`),
      fact(photo.paths.length > 1 ? plural(photo.paths.length, "copy", "copies") : "File", photo.paths.map((path) => h("span", { class: "path" }, path)))),
  ].flat(Infinity).filter(Boolean);
}
