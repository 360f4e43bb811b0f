// The map of label vectors, before and after the learned projection: one canvas, with pan, zoom and a walk by keyboard.
import { announce, api, button, empty, h, iconButton, number, still } from "./ui.js";
import { quote } from "./search.js";

/** @typedef {{word: string, seen: boolean, before: [number, number], after: ?[number, number]}} Point */

/** Each layout fitted to the unit square, so that a switch moves words but not the frame. */
function fitted(points, key) {
  const known = points.map((point) => point[key]).filter(Boolean);
  const [xs, ys] = [0, 1].map((axis) => known.map((xy) => xy[axis]));
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  return points.map((point) => point[key] && [(point[key][0] - x0) / (x1 - x0 || 1), (point[key][1] - y0) / (y1 - y0 || 1)]);
}

export async function showMap(body, summary) {
  /** @type {{points: Point[], edges: [number, number, number][]}} */
  const { points, edges } = await api("v1/words/map");
  summary.textContent = `${number(points.length)} words, ${number(edges.length)} relations`;
  if (!points.length) {
    body.replaceChildren(empty("words", "No map", "The vocabulary has no words with vectors.", h("a", { class: "button", href: "#/words/edit" }, "Edit the words")));
    return null;
  }
  const layouts = [fitted(points, "before"), fitted(points, "after")];
  const hasAfter = points.some(({ after }) => after);
  let phase = hasAfter ? 1 : 0; // 0: before, 1: after, between: on the way
  let goal = phase;
  let [zoom, panX, panY] = [1, 0, 0];
  let active = -1;
  let frame = null;

  const canvas = h("canvas", { tabindex: "0", role: "application", "aria-label": "Map of words. Arrow keys go to the next word in that direction, Enter searches it, plus and minus zoom." });
  const card = h("div", { class: "map-card" });
  const find = h("input", { type: "search", list: "map-words", placeholder: "Find a word", "aria-label": "Find a word on the map", onchange: () => select(points.findIndex(({ word }) => word === find.value), true) });
  const sides = ["Before", "After"].map((label, side) => button([label, h("span", { class: "wide-only" }, " projection")], () => move(side), null, { disabled: side === 1 && !hasAfter, "aria-pressed": String(side === goal) }));
  const box = h("div", { class: "map" }, canvas, card, h("div", { class: "map-tools" }, iconButton("plus", "Zoom in", () => zoomAt(1.4)), iconButton("minus", "Zoom out", () => zoomAt(1 / 1.4)), iconButton("fit", "Show all", reset)));
  body.replaceChildren(h("div", { class: "row spread" }, h("div", { class: "switch", role: "group", "aria-label": "Projection" }, sides), find,
    h("datalist", { id: "map-words" }, points.map(({ word }) => h("option", { value: word })))), box,
  h("ul", { class: "legend" }, h("li", {}, h("i", { class: "dot seen" }), "annotated: photos with this label were used for training"), h("li", {}, h("i", { class: "dot" }), "never annotated"), h("li", {}, h("i", { class: "edge" }), "related")));

  const ctx = canvas.getContext("2d");
  const probe = h("span", { hidden: true });
  body.append(probe);
  const colour = (name) => ((probe.style.color = `var(--${name})`), getComputedStyle(probe).color);
  let colours = {};
  const recolour = () => ((colours = Object.fromEntries(["accent", "text", "muted", "border", "surface", "maybe"].map((name) => [name, colour(name)]))), paint());

  const size = () => [canvas.clientWidth, canvas.clientHeight];
  /** Where point i is on the canvas, and how visible it is (words without an end fade out). */
  function at(i) {
    const [a, b] = [layouts[0][i], layouts[1][i]];
    const [from, to] = [a ?? b, b ?? a];
    const [w, hgt] = size();
    const x = from[0] + (to[0] - from[0]) * phase;
    const y = from[1] + (to[1] - from[1]) * phase;
    const pad = 48;
    return [(pad + x * (w - 2 * pad) - w / 2) * zoom + w / 2 + panX, (pad + (1 - y) * (hgt - 2 * pad) - hgt / 2) * zoom + hgt / 2 + panY, a && b ? 1 : a ? 1 - phase : phase];
  }

  function paint() {
    frame ??= requestAnimationFrame(() => {
      frame = null;
      const [w, hgt] = size();
      const ratio = devicePixelRatio || 1;
      if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(hgt * ratio)) Object.assign(canvas, { width: Math.round(w * ratio), height: Math.round(hgt * ratio) });
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      ctx.clearRect(0, 0, w, hgt);
      const xy = points.map((_, i) => at(i));
      const near = new Set(edges.flatMap(([i, j]) => (i === active ? [j] : j === active ? [i] : [])));
      for (const [i, j, weight] of edges) {
        const on = i === active || j === active;
        ctx.globalAlpha = Math.min(xy[i][2], xy[j][2]) * (on ? 1 : active >= 0 ? 0.25 : 0.7);
        ctx.strokeStyle = on ? colours.accent : colours.border;
        ctx.lineWidth = on ? 1.8 : 0.4 + Math.min(1, weight ?? 0.5);
        ctx.beginPath();
        ctx.moveTo(xy[i][0], xy[i][1]);
        ctx.lineTo(xy[j][0], xy[j][1]);
        ctx.stroke();
      }
      const taken = [];
      const order = points.map((_, i) => i).sort((i, j) => rank(j) - rank(i));
      function rank(i) {
        return (i === active ? 4 : 0) + (near.has(i) ? 2 : 0) + (points[i].seen ? 1 : 0);
      }
      ctx.font = `13px ${getComputedStyle(document.body).fontFamily}`;
      for (const i of order.toReversed()) {
        const [x, y, alpha] = xy[i];
        ctx.globalAlpha = alpha * (active >= 0 && rank(i) < 2 ? 0.45 : 1);
        ctx.fillStyle = points[i].seen ? colours.accent : colours.surface;
        ctx.strokeStyle = points[i].seen ? colours.surface : colours.muted;
        ctx.lineWidth = 1.5;
        ctx.beginPath();
        ctx.arc(x, y, i === active ? 7 : 4.5, 0, 7);
        ctx.fill();
        ctx.stroke();
      }
      for (const i of order) {
        const [x, y, alpha] = xy[i];
        if (alpha < 0.5 || x < -50 || y < -20 || x > w + 50 || y > hgt + 20) continue;
        const width = ctx.measureText(points[i].word).width;
        const rect = [x + 8, y - 9, x + 12 + width, y + 9];
        if (i !== active && taken.some(([a, b, c, d]) => rect[0] < c && rect[2] > a && rect[1] < d && rect[3] > b)) continue;
        taken.push(rect);
        ctx.globalAlpha = alpha * (active >= 0 && rank(i) < 2 ? 0.35 : 1);
        ctx.lineWidth = 3;
        ctx.strokeStyle = colours.surface;
        ctx.strokeText(points[i].word, x + 9, y + 4.5);
        ctx.fillStyle = i === active ? colours.accent : colours.text;
        ctx.fillText(points[i].word, x + 9, y + 4.5);
      }
      ctx.globalAlpha = 1;
    });
  }

  function move(side) {
    goal = side;
    sides.forEach((button, k) => button.setAttribute("aria-pressed", k === side));
    announce(side ? "After projection" : "Before projection");
    const [from, start] = [phase, performance.now()];
    const tick = (now) => {
      if (goal !== side || !canvas.isConnected) return;
      const t = still() ? 1 : Math.min(1, (now - start) / 800);
      phase = from + (side - from) * (t < 0.5 ? 4 * t ** 3 : 1 - (2 - 2 * t) ** 3 / 2);
      paint();
      if (t < 1) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  function select(i, centre) {
    if (i < 0) return;
    active = i;
    if (centre) {
      zoom = Math.max(zoom, 2);
      const [x, y] = at(i);
      const [w, hgt] = size();
      [panX, panY] = [panX + w / 2 - x, panY + hgt / 2 - y];
    }
    const { word, seen } = points[i];
    const related = edges.flatMap(([a, b]) => (a === i ? [points[b].word] : b === i ? [points[a].word] : []));
    card.replaceChildren(h("strong", {}, word), h("span", { class: "muted" }, seen ? "annotated" : "never annotated"),
      related.length ? h("span", {}, `related: ${related.slice(0, 6).join(", ")}`) : "", h("a", { href: `#/search?q=${encodeURIComponent(quote(word))}` }, "Search"));
    announce(`${word}, ${seen ? "annotated" : "never annotated"}${related.length ? `, related to ${related.slice(0, 4).join(", ")}` : ""}`);
    paint();
  }

  function zoomAt(factor, x = size()[0] / 2, y = size()[1] / 2) {
    const next = Math.min(30, Math.max(0.5, zoom * factor));
    const [cx, cy] = [size()[0] / 2, size()[1] / 2];
    panX = x - cx - ((x - cx - panX) * next) / zoom;
    panY = y - cy - ((y - cy - panY) * next) / zoom;
    zoom = next;
    paint();
  }
  function reset() {
    [zoom, panX, panY, active] = [1, 0, 0, -1];
    card.replaceChildren();
    paint();
  }
  function nearest(x, y, within = 22) {
    let best = -1;
    points.forEach((_, i) => {
      const [a, b, alpha] = at(i);
      const distance = Math.hypot(a - x, b - y);
      if (alpha > 0.5 && distance < within) [best, within] = [i, distance];
    });
    return best;
  }

  const pointers = new Map();
  let dragged = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    dragged = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    const now = [event.offsetX, event.offsetY];
    if (!last) {
      const i = nearest(...now);
      canvas.style.cursor = i >= 0 ? "pointer" : "grab";
      if (i >= 0 && i !== active) select(i);
      return;
    }
    dragged += Math.hypot(now[0] - last[0], now[1] - last[1]);
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const spread = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
      zoomAt(spread(now) / spread(last), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    } else [panX, panY] = [panX + now[0] - last[0], panY + now[1] - last[1]];
    pointers.set(event.pointerId, now);
    paint();
  });
  const up = (event) => {
    pointers.delete(event.pointerId);
    if (event.type === "pointerup" && dragged < 5) select(nearest(event.offsetX, event.offsetY, 30));
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomAt(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (direction) {
      const [x, y] = active >= 0 ? at(active) : size().map((n) => n / 2);
      let [best, cost] = [-1, Infinity];
      points.forEach((_, i) => {
        const [a, b, alpha] = at(i);
        const [dx, dy] = [a - x, b - y];
        const along = dx * direction[0] + dy * direction[1];
        const aside = Math.abs(dx * direction[1]) + Math.abs(dy * direction[0]);
        if (i !== active && alpha > 0.5 && along > 0 && aside <= along * 2 && along + 2 * aside < cost) [best, cost] = [i, along + 2 * aside];
      });
      select(best);
      const [bx, by] = best >= 0 ? at(best) : [1, 1];
      if (bx < 0 || by < 0 || bx > size()[0] || by > size()[1]) select(best, true);
    } else if (event.key === "+" || event.key === "=") zoomAt(1.3);
    else if (event.key === "-") zoomAt(1 / 1.3);
    else if (event.key === "0") reset();
    else if (event.key === " ") hasAfter && move(1 - goal);
    else if (event.key === "Enter" && active >= 0) location.hash = `#/search?q=${encodeURIComponent(quote(points[active].word))}`;
    else return;
    event.preventDefault();
  });

  const observer = new ResizeObserver(paint);
  observer.observe(canvas);
  addEventListener("themechange", recolour);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", recolour);
  recolour();
  return () => {
    observer.disconnect();
    removeEventListener("themechange", recolour);
    scheme.removeEventListener("change", recolour);
  };
}
