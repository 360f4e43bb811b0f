// A grid of any number of photos: only the rows in view exist as elements, and pages of hits are fetched when they come into view.
import { api, day, h, percent, thumbnail } from "./ui.js";

const PAGE = 100;
const MOST = 15e6; // px; browsers stop laying out at about 17 million

/** The hits of one query, fetched in pages. Other views walk through it with `hit` and `load`. */
export class Results {
  constructor(params) {
    this.params = params;
    this.pages = new Map();
    this.hits = new Map();
    this.abort = new AbortController();
    this.total = 0;
  }

  /** Fetch the page that holds hit i, once. */
  load(i) {
    const page = Math.floor(i / PAGE);
    if (!this.pages.has(page)) {
      const query = new URLSearchParams(this.params);
      query.set("offset", page * PAGE);
      query.set("limit", PAGE);
      const answer = api(`v1/search?${query}`, { signal: this.abort.signal }).then((data) => {
        data.hits.forEach((hit, k) => this.hits.set(data.offset + k, hit));
        if (page === 0 || !this.total) Object.assign(this, { total: data.total, counts: data.counts, exact: data.exact, notes: data.notes, seconds: data.seconds });
        return data;
      });
      answer.catch(() => this.pages.delete(page));
      this.pages.set(page, answer);
    }
    return this.pages.get(page);
  }

  /** @returns {import("./ui.js").Hit | undefined} */
  hit(i) {
    return this.hits.get(i);
  }

  indexOf(id) {
    for (const [i, hit] of this.hits) if (hit.id === id) return i;
    return -1;
  }
}

/** The grid itself, in the page's own scroll. `parts` are [{start, title}]: a line with a title is drawn before hit `start`. */
export class Grid {
  constructor(link) {
    this.link = link;
    this.node = h("div", { class: "grid", role: "list", "aria-label": "Photos" });
    this.cells = new Map();
    this.lines = [];
    this.active = 0;
    this.results = null;
    this.node.addEventListener("keydown", (event) => this.key(event));
    this.onScroll = () => (this.frame ??= requestAnimationFrame(() => ((this.frame = null), this.render())));
    addEventListener("scroll", this.onScroll, { passive: true });
    this.observer = new ResizeObserver(() => this.results && this.layout());
    this.observer.observe(this.node);
  }

  leave() {
    removeEventListener("scroll", this.onScroll);
    this.observer.disconnect();
    this.results?.abort.abort();
  }

  show(results, parts) {
    if (results !== this.results) {
      this.clear();
      this.results = results;
      this.active = 0;
    }
    this.parts = parts;
    this.layout();
  }

  clear() {
    for (const i of [...this.cells.keys()]) this.drop(i);
  }

  drop(i) {
    const cell = this.cells.get(i);
    cell.querySelector("img")?.removeAttribute("src"); // cancels a load that is under way
    cell.remove();
    this.cells.delete(i);
  }

  layout() {
    const width = this.node.clientWidth;
    if (!width) return;
    const gap = width < 600 ? 3 : 8;
    this.cols = width < 600 ? 3 : Math.max(3, Math.round(width / 232));
    this.w = (width - gap * (this.cols - 1)) / this.cols;
    this.h = this.w * (width < 600 ? 1 : 0.75);
    this.gap = gap;
    this.node.style.setProperty("--w", `${this.w}px`);
    this.node.style.setProperty("--h", `${this.h}px`);
    let y = 0;
    this.segments = [];
    for (const line of this.lines) line.remove();
    this.lines = [];
    this.parts.forEach((part, k) => {
      const end = this.parts[k + 1]?.start ?? this.results.total;
      if (part.title && end >= part.start) {
        const line = h("div", { class: "line", role: "listitem", style: { transform: `translateY(${y}px)` } }, h("span", {}, part.title));
        this.lines.push(line);
        y += 64;
      }
      this.segments.push({ start: part.start, end, y, faint: part.faint });
      y += Math.ceil((end - part.start) / this.cols) * (this.h + gap);
    });
    this.node.append(...this.lines);
    this.node.style.height = `${Math.min(y, MOST)}px`;
    for (const [i, cell] of this.cells) this.place(i, cell);
    this.render();
  }

  at(i) {
    const segment = this.segments.find(({ start, end }) => i >= start && i < end) ?? this.segments.at(-1);
    const k = i - segment.start;
    return { x: (k % this.cols) * (this.w + this.gap), y: segment.y + Math.floor(k / this.cols) * (this.h + this.gap), segment };
  }

  place(i, cell) {
    const { x, y, segment } = this.at(i);
    cell.style.transform = `translate(${x}px, ${y}px)`;
    cell.classList.toggle("faint", Boolean(segment.faint));
  }

  render() {
    if (!this.results || !this.segments) return;
    const top = -this.node.getBoundingClientRect().top;
    const margin = this.h * 2;
    const wanted = new Set();
    const step = this.h + this.gap;
    for (const { start, end, y } of this.segments) {
      const from = Math.max(0, Math.floor((top - margin - y) / step));
      const to = Math.ceil((top + innerHeight + margin - y) / step);
      for (let i = start + from * this.cols; i < Math.min(end, start + to * this.cols); i++) wanted.add(i);
    }
    const focused = this.cells.get(this.active)?.contains(document.activeElement);
    if (focused) wanted.add(this.active);
    for (const i of [...this.cells.keys()]) if (!wanted.has(i)) this.drop(i);
    for (const i of wanted) if (!this.cells.has(i)) this.add(i);
    // Photos flown past are not fetched: the network follows at ten times a second.
    this.timer ??= setTimeout(() => ((this.timer = null), this.fill()), this.settled ? 90 : 0);
    this.settled = true;
  }

  add(i) {
    const link = h("a", { tabindex: i === this.active ? "0" : "-1", "data-i": i, onfocus: () => this.activate(i) });
    const cell = h("div", { class: "cell", role: "listitem", "aria-setsize": this.results.total, "aria-posinset": i + 1 }, link);
    this.cells.set(i, cell);
    this.place(i, cell);
    this.node.append(cell);
    if (this.results.hit(i)) this.name(i);
  }

  name(i) {
    const link = this.cells.get(i).firstChild;
    const hit = this.results.hit(i);
    if (link.href) return;
    link.href = this.link(hit, i);
    const p = hit.p == null ? "" : percent(hit.p);
    link.setAttribute("aria-label", [hit.name, day(hit.taken), p].filter(Boolean).join(", "));
    link.append(h("span", { class: `badge ${hit.kind}`, "aria-hidden": "true" }, p || day(hit.taken) || hit.name));
  }

  fill() {
    const { results } = this;
    for (const [i, cell] of this.cells) {
      if (!results.hit(i)) {
        results.load(i).then(() => results === this.results && this.cells.has(i) && (this.name(i), this.picture(i)), () => {});
      } else {
        this.name(i);
        if (!cell.querySelector("img")) this.picture(i);
      }
    }
  }

  picture(i) {
    const link = this.cells.get(i).firstChild;
    if (link.querySelector("img")) return;
    const img = h("img", { alt: "", decoding: "async", src: thumbnail(this.results.hit(i).id) });
    img.addEventListener("load", () => img.classList.add("there"));
    img.addEventListener("error", () => link.classList.add("gone"));
    link.prepend(img);
  }

  activate(i) {
    this.cells.get(this.active)?.firstChild.setAttribute("tabindex", "-1");
    this.active = i;
    this.cells.get(i)?.firstChild.setAttribute("tabindex", "0");
  }

  /** Bring hit i into view and focus it. */
  focus(i) {
    this.activate(i);
    const { y } = this.at(i);
    const offset = this.node.getBoundingClientRect().top + scrollY;
    const head = document.querySelector(".search-bar")?.getBoundingClientRect().bottom ?? 0;
    if (offset + y < scrollY + head) scrollTo(0, offset + y - head - 8);
    else if (offset + y + this.h > scrollY + innerHeight - 70) scrollTo(0, offset + y + this.h - innerHeight + 80);
    this.render();
    this.cells.get(i)?.firstChild.focus({ preventScroll: true });
  }

  key(event) {
    const last = this.results.total - 1;
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.cols, ArrowDown: this.cols };
    const to = event.key === "Home" ? 0 : event.key === "End" ? last : event.key in moves ? this.active + moves[event.key] : null;
    if (to === null || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if (to >= 0 && to <= last) this.focus(to);
  }
}

/** Skeleton of a grid that has not come yet. */
export const skeleton = () => h("div", { class: "skeleton-grid", "aria-hidden": "true" }, Array.from({ length: 24 }, () => h("i")));
