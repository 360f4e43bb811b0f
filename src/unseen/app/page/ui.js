// What all views share: building elements, the API, dialogs, messages, bars.

/** @typedef {{name: string, p: ?number, score: number, kind: "sure"|"maybe"|"no", verdict: ?boolean, doubt: ?string}} Tag */
/** @typedef {{id: string, name: string, paths: string[], width: number, height: number, taken: ?string, note: ?string}} Photo */
/** @typedef {Photo & {p: ?number, score: ?number, kind: ?string}} Hit */

const SVG = new Set(["svg", "path", "circle", "rect", "line", "g"]);

/** An element; data goes in as text, never as markup. Keys that begin with "on" are listeners. */
export function h(tag, props, ...children) {
  const svg = SVG.has(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value == null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, v] of Object.entries(value)) element.style.setProperty(name, v);
    else if (!svg && (key === "value" || typeof value === "boolean") && key in element) element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

const ICONS = {
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M15.5 15.5 20 20",
  words: "M4 6h16M4 12h10M4 18h13",
  correct: "M4 12.5l5 5L20 6.5",
  try: "M4 16v3.5h16V16M12 4v11M7.5 8.5 12 4l4.5 4.5",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  close: "M6 6l12 12M18 6 6 18",
  left: "M14.5 5.5 8 12l6.5 6.5",
  right: "M9.5 5.5 16 12l-6.5 6.5",
  skip: "M12 5v13M6 12.5l6 6 6-6",
  undo: "M8.5 5 4 9.5 8.5 14M4.5 9.5H14a5 5 0 0 1 0 10H9",
  theme: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  warn: "M12 4 3 19.5h18zM12 10v4.5M12 17h.01",
  photo: "M4 5.5h16v13H4zM4 16l5-5 4 4 3-3 4 4M15.5 9.5h.01",
  like: "M4 4h7v7H4zM13 13h7v7h-7zM13 4h7v7h-7zM4 13h7v7H4z",
  date: "M4.5 6h15v13.5h-15zM4.5 10.5h15M8.5 3.5v4M15.5 3.5v4",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  down: "M12 4v11M7 10.5l5 5 5-5M4 20h16",
  key: "M3.5 6h17v12h-17zM7 10h.01M10.5 10h.01M14 10h.01M17 10h.01M8 14.2h8",
};
export const icon = (name) =>
  h("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, h("path", { d: ICONS[name] }));

/** A button; `kind` is its class. */
export const button = (label, onclick, kind = "button", props) => h("button", { type: "button", class: kind, onclick, ...props }, label);
/** A button with an icon and a label that only screen readers and tooltips see. */
export const iconButton = (name, label, onclick, props) =>
  button(icon(name), onclick, "icon-button", { "aria-label": label, title: label, ...props });
/** A warning in the text. */
export const note = (text, tag = "p") => h(tag, { class: "note" }, icon("warn"), text);
/** Grey lines in place of text that has not come yet. */
export const lines = (n, tag = "div") => h(tag, { class: "skeleton-lines", "aria-hidden": "true" }, Array.from({ length: n }, () => h("i")));

// ---- the API

export class ApiError extends Error {
  constructor(message, code, status) {
    super(message);
    Object.assign(this, { code, status });
  }
}

/** JSON of a request to the server. Raises ApiError with a sentence for the user; AbortError if the signal says so. */
export async function api(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  const form = body instanceof FormData;
  if (body && !form) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, signal, body: body && !form ? JSON.stringify(body) : body });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer. Is “unseen serve” still running?", "offline", 0);
  }
  const data = await answer.json().catch(() => null);
  if (answer.ok && data !== null) return data;
  // Messages begin with the argument they are about, which has no name on the page.
  const message = (data?.error?.message ?? `The server answered with status ${answer.status}.`).replace(/^(?:q|id|words?|text|photo|min_p)(?:: |, (?=line))(.)/, (_, first) => first.toUpperCase());
  throw new ApiError(message, data?.error?.code, answer.status);
}
export const post = (path, body = {}, options) => api(path, { method: "POST", body, ...options });
export const thumbnail = (id) => `v1/photos/${id}/thumbnail`;
export const image = (id) => `v1/photos/${id}/image`;

/** State that several views read; `refreshStatus` brings it up to date after a change. */
export const app = { status: null, words: null, results: null };
export async function refreshStatus() {
  app.status = await api("v1/status");
  return app.status;
}

/** Follow a job until it ends; `onProgress` sees every state of it. */
export async function follow(job, onProgress, signal) {
  while (job.state === "running") {
    onProgress?.(job);
    await new Promise((resolve) => setTimeout(resolve, 400));
    job = await api(`v1/jobs/${job.id}`, { signal });
  }
  onProgress?.(job);
  if (job.state === "failed") throw new ApiError(job.message ?? "The job failed.", "failed", 500);
  return job.result;
}

// ---- text

export const number = (n) => (n ?? 0).toLocaleString("en");
export const percent = (p) => (p == null ? "–" : p > 0.995 && p < 1 ? "> 99 %" : p < 0.005 && p > 0 ? "< 1 %" : `${Math.round(p * 100)} %`);
export const signed = (x) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(2)}`;
export const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;
export const day = (taken) =>
  taken && new Date(taken.replace(" ", "T")).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" });

/** `wait` ms after the last call. */
export function debounce(f, wait) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => f(...args), wait);
  };
}
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Settings of this browser; where storage is off they hold until the page is closed. */
const settings = {};
export function setting(name, value) {
  try {
    if (value !== undefined) localStorage.setItem(`unseen.${name}`, value);
    return localStorage.getItem(`unseen.${name}`);
  } catch {
    return value === undefined ? settings[name] : (settings[name] = value);
  }
}

/** Whether a key belongs to a control or the browser, or single keys are switched off. */
export const typing = (event) => /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey || (event.key.length === 1 && setting("keys") === "off");

// ---- messages and states

const live = h("div", { class: "hidden-text", role: "status", "aria-live": "polite" });
const toasts = h("div", { class: "toasts", role: "status" });
export const furniture = [live, toasts];

/** Say something to screen readers. */
export const announce = debounce((text) => (live.textContent = text), 400);

/** A message at the bottom that goes away; `action` is [label, function]. */
export function toast(text, action) {
  const node = h("div", { class: "toast" }, h("span", {}, text));
  if (action) node.append(button(action[0], () => (node.remove(), action[1]()), "link"));
  // Into the topmost dialog, since the rest of the page is inert while one is open.
  const dialog = [...document.querySelectorAll("dialog[open]")].pop();
  if (dialog) dialog.append(h("div", { class: "toasts", role: "status" }, node));
  else toasts.append(node);
  setTimeout(() => node.remove(), action ? 9000 : 5000);
}
export const failed = (error) => error.name !== "AbortError" && toast(error.message);

/** A calm page in place of content: what is missing, and what to do next. */
export function empty(name, title, text, ...actions) {
  return h("div", { class: "empty" }, icon(name), h("h2", {}, title), h("p", {}, text), h("div", { class: "actions" }, actions));
}

/** The state of a view that could not load. */
export function problem(error, retry) {
  if (error.code === "no_library") {
    return empty("photo", "No library yet", "Index your photos once, then start the server again:",
      h("pre", {}, h("code", {}, "unseen index ~/Pictures\nunseen serve")),
      h("a", { class: "button", href: "#/try" }, "Try it with a few photos"));
  }
  return h("div", { role: "alert" }, empty("warn", "That did not work", error.message,
    retry && button("Try again", retry)));
}

/** A dialog that keeps the focus inside; resolves to what `close` was called with, undefined after Esc. */
export function dialog(title, build, { wide } = {}) {
  return new Promise((resolve) => {
    const node = h("dialog", { class: wide ? "box wide" : "box", "aria-label": title });
    const close = (value) => (node.close(), node.remove(), resolve(value));
    node.addEventListener("cancel", (event) => (event.preventDefault(), close()));
    node.addEventListener("click", (event) => event.target === node && close());
    node.append(h("div", { class: "box-body" },
      h("header", {}, h("h2", {}, title), iconButton("close", "Close", () => close())), build(close)));
    document.body.append(node);
    node.showModal();
  });
}
export const confirm = (title, text, yes) =>
  dialog(title, (close) => [h("p", {}, text),
    h("div", { class: "actions end" }, button("Cancel", () => close(false)),
      button(yes, () => close(true), "button primary", { autofocus: true }))]);

// ---- widgets

/** A progress bar of a job. */
export function progress(label) {
  const bar = h("progress", { "aria-label": label });
  const text = h("p", { class: "muted", role: "status" }, label);
  const node = h("div", { class: "job" }, bar, text);
  return {
    node,
    update(job) {
      if (job.total) Object.assign(bar, { max: job.total, value: job.done });
      text.textContent = [job.message ?? label, job.total && `${number(job.done)} of ${number(job.total)}`].filter(Boolean).join(": ");
    },
  };
}

/** A slider of p from `min` to `max` with its value; `oninput` and `onchange` see a number in 0..1. */
export function slider(label, value, { min = 0, max = 1, oninput, onchange } = {}) {
  const shown = h("output", {}, percent(value));
  const input = h("input", { type: "range", min: min * 100, max: max * 100, step: 1, "aria-label": label });
  const paint = () => {
    shown.textContent = `${input.value} %`;
    input.style.setProperty("--at", `${((input.value / 100 - min) / (max - min)) * 100}%`);
    input.setAttribute("aria-valuetext", `${input.value} per cent`);
  };
  input.value = Math.round(value * 100);
  input.addEventListener("input", () => (paint(), oninput?.(input.value / 100)));
  input.addEventListener("change", () => onchange?.(input.value / 100));
  paint();
  const set = (v) => ((input.value = Math.round(v * 100)), paint());
  return { node: h("div", { class: "slider" }, input, shown), input, set, get value() { return input.value / 100; } };
}

/** A table; numbers are set to the right. */
export function table(columns, rows, caption) {
  const right = columns.map((_, j) => rows.some((row) => row[j]) && rows.every((row) => ["", "–"].includes(row[j] ?? "") || !isNaN(String(row[j]).replace(/[<>%±\s]/g, ""))));
  const cell = (value, j) => h("td", { class: right[j] && "num" }, value instanceof Node ? value : value == null ? "" : String(value));
  return h("div", { class: "table", tabindex: "0", role: "region", "aria-label": caption ?? "Table" }, h("table", {}, caption && h("caption", {}, caption),
    h("thead", {}, h("tr", {}, columns.map((name, j) => h("th", { scope: "col", class: right[j] && "num" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell))))));
}

/** The bar of a probability. */
export const bar = (p, kind) => h("span", { class: `bar ${kind}`, "aria-hidden": "true" }, h("i", { style: { width: `${(p ?? 0) * 100}%` } }));

/** The vocabulary, once; `fresh` asks again. */
export async function vocabulary(fresh) {
  if (fresh || !app.words || app.words.counting) app.words = await api("v1/words");
  return app.words;
}
/** An element for `list=`: the words of the vocabulary, when they have come. */
export function wordList(id) {
  const list = h("datalist", { id });
  vocabulary().then(({ words }) => list.append(...words.map(({ word }) => h("option", { value: word }))), () => {});
  return list;
}
