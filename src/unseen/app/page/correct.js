// One tag on one photo at a time: yes, no, skip, undo; then learn from the answers.
import { announce, api, app, button, confirm, empty, failed, follow, h, icon, image, number, percent, plural, post, problem, progress, refreshStatus, slider, table, thumbnail, toast, typing, wordList } from "./ui.js";

export function show(main, address) {
  let word = address.params.get("word") ?? "";
  let queue = [];
  let history = []; // [{item, verdict}] of this visit, the last one at the end
  let seen = new Set();
  let [left, answered, loading, waiting, counting, timer] = [0, 0, null, null, null, null];
  const key = ({ photo, tag }) => `${photo.id} ${tag.name}`;

  const filter = h("input", { type: "search", list: "correct-words", value: word, placeholder: "All words", "aria-label": "Only this word",
    onchange: () => (location.hash = `#/correct${filter.value.trim() ? `?word=${encodeURIComponent(filter.value.trim())}` : ""}`) });
  const bulk = h("div", { class: "bulk" });
  const stage = h("div", { class: "question" });
  const answer = (verdict) => () => reply(verdict);
  const big = (name, label, hint, onclick, kind = "") => button([icon(name), h("span", {}, label), h("kbd", { "aria-hidden": "true" }, hint)], onclick, `button big ${kind}`);
  const undo = big("undo", "Undo", "u", back);
  const buttons = h("div", { class: "answers" }, undo, big("close", "No", "n", answer(false)), big("skip", "Skip", "s", answer(null)), big("correct", "Yes", "y", answer(true), "primary"));
  const meter = h("progress", { "aria-label": "Answered", max: 1, value: 0 });
  const done = h("p", { class: "muted", role: "status" });
  const learn = h("section", { class: "learn", "aria-label": "Learn", tabindex: "-1" });
  main.append(h("div", { class: "head" }, h("div", {}, h("h1", {}, "Correct"), done), h("div", { class: "row" }, filter, wordList("correct-words"))),
    h("div", { class: "correct" }, h("div", { class: "ask-one" }, meter, stage, buttons), h("aside", {}, learn, bulk)));

  /** More questions, without those that were seen here. */
  async function load() {
    const skipped = history.filter(({ verdict }) => verdict === null).length + queue.length;
    const asked = word;
    const data = await api(`v1/review?${new URLSearchParams({ word, limit: Math.min(500, 50 + skipped) })}`);
    if (asked !== word) return;
    left = data.left + answered;
    counting = data.counting;
    for (const item of data.items) {
      if (seen.has(key(item))) continue;
      seen.add(key(item));
      queue.push(item);
    }
  }

  async function next() {
    const item = queue[0];
    if (queue.length < 6) loading ??= load().catch((error) => error).then((error) => ((loading = null), error));
    if (!item) {
      stage.replaceChildren(h("div", { class: "skeleton-photo", "aria-hidden": "true" }));
      const error = await loading;
      if (error?.code === "no_library") return main.replaceChildren(h("h1", {}, "Correct"), problem(error));
      if (error) return stage.replaceChildren(problem(error, next));
      if (queue.length) return next();
      if (counting) timer = setTimeout(next, 1500);
    }
    paint();
    if (queue[1]) new Image().src = image(queue[1].photo.id);
    return null;
  }

  function paint() {
    const item = queue[0];
    buttons.hidden = !item && !history.length;
    for (const control of buttons.children) control.disabled = control === undo ? !history.length : !item;
    const total = Math.max(answered, left);
    Object.assign(meter, { max: Math.max(1, total), value: Math.min(answered, total) });
    done.textContent = `${plural(answered, "answer")} on this visit, ${number(Math.max(0, left - answered))} in doubt`;
    paintLearn();
    if (!item && counting) {
      stage.replaceChildren(empty("photo", "Looking through your photos", `${number(counting.done)} of ${number(counting.total)}. Questions appear as soon as there are some.`));
      return;
    }
    if (!item) {
      stage.replaceChildren(empty("correct", word ? `No “${word}” left in doubt` : "Nothing left in doubt",
        app.status.corrections ? "Let it learn from your answers, or choose another word." : "Choose a word, or add words of your own.",
        h("a", { class: "button", href: word ? "#/correct" : "#/words" }, word ? "All words" : "Go to words")));
      return;
    }
    const { photo, tag } = item;
    stage.replaceChildren(h("a", { class: "picture", href: `#/photo/${photo.id}`, "aria-label": `Open ${photo.name}`, style: { "background-image": `url("${thumbnail(photo.id)}")` } },
      h("img", { src: image(photo.id), alt: photo.name })),
    h("p", { class: "big-question" }, "Does it show ", h("strong", {}, tag.name), "?", h("span", { class: "muted" }, ` ${percent(tag.p)}`)));
    announce(`Does ${photo.name} show ${tag.name}? ${percent(tag.p)}`);
  }

  /** Shows the next question at once; if the answer cannot be saved, the question comes back. */
  async function reply(verdict) {
    const item = queue.shift();
    if (!item) return;
    const entry = { item, verdict };
    history.push(entry);
    if (verdict !== null) answered += 1;
    next();
    if (verdict === null) return;
    const before = waiting;
    waiting = entry.sent = (async () => {
      await before?.catch(() => {});
      app.status.corrections = (await post("v1/corrections", { id: item.photo.id, word: item.tag.name, verdict })).corrections;
      paintLearn();
    })();
    waiting.catch((error) => {
      history = history.filter((other) => other !== entry);
      answered -= 1;
      queue.unshift(item);
      failed(error);
      paint();
    });
  }

  async function back() {
    const entry = history.at(-1);
    if (!entry) return;
    try {
      await entry.sent;
      if (entry.verdict !== null) app.status.corrections = (await post("v1/corrections/undo")).corrections;
    } catch (error) {
      return failed(error);
    }
    history.pop();
    if (entry.verdict !== null) answered -= 1;
    queue.unshift(entry.item);
    return paint();
  }

  function paintBulk() {
    if (!word) return bulk.replaceChildren(h("h2", {}, "Accept many"), h("p", { class: "muted" }, "Choose a word to accept all its likely photos at once."));
    const least = slider("Accept from this probability", 0.9, { min: 0.5, oninput: () => count() });
    const act = button("Accept…", accept, "button", { disabled: true });
    let counts = null;
    const count = () => {
      act.disabled = !counts?.[Math.round(least.value * 100)];
      act.textContent = counts ? `Accept ${plural(counts[Math.round(least.value * 100)], "photo")}…` : "Accept…";
    };
    const asked = word;
    api(`v1/search?${new URLSearchParams({ q: asked, limit: 1 })}`).then((data) => ((counts = data.counts), count()), failed);
    async function accept() {
      const n = counts[Math.round(least.value * 100)];
      if (!(await confirm(`Accept “${asked}” on ${plural(n, "photo")}?`, `All photos with a chance of ${percent(least.value)} or more count as your answers, except those you have answered. You can undo this.`, "Accept"))) return;
      try {
        const { changed, corrections } = await post("v1/corrections/bulk", { word: asked, min_p: least.value });
        app.status.corrections = corrections;
        history = []; // the server undoes the bulk first
        paint();
        toast(`${plural(changed, "photo")} accepted for “${asked}”.`, changed ? ["Undo", () => post("v1/corrections/undo").then((data) => {
          app.status.corrections = data.corrections;
          toast(`${plural(data.undone, "answer")} taken back.`);
          paint();
        }, failed)] : null);
      } catch (error) {
        failed(error);
      }
    }
    return bulk.replaceChildren(h("h2", {}, "Accept many"), h("p", { class: "muted" }, `All photos that show “${word}” with at least this chance:`), least.node, act);
  }

  let report = null;
  let running = null;
  function paintLearn() {
    const { corrections, model } = app.status;
    const focused = learn.contains(document.activeElement);
    const start = button(`Learn from ${plural(corrections, "correction")}`, run, "button primary", { disabled: !corrections || Boolean(running) });
    const unlearn = model.learned && !running && button("Undo learning", forget);
    learn.replaceChildren(h("h2", {}, "Learn"), h("p", { class: "muted" }, model.learned ? "The model has learned from your answers." : "Answers change the tags of their photos at once. Learning carries them over to all other photos."),
      ...[running?.node, h("div", { class: "actions" }, start, unlearn), report].filter(Boolean));
    if (focused) (learn.querySelector("button:not(:disabled)") ?? learn).focus();
  }
  async function run() {
    running = progress("Learning");
    report = null;
    paintLearn();
    try {
      const result = await follow(await post("v1/learn"), running.update);
      const line = (name, scores) => [name, percent(scores.precision), percent(scores.recall)];
      report = h("div", { role: "status" }, h("p", {}, result.sentence), result.before && result.after &&
        table(["", "precision", "recall"], [line("before", result.before), line("after", result.after)], `${plural(result.labels, "word")}, ${plural(result.images, "photo")}`));
      await refreshStatus();
      app.words = null;
    } catch (error) {
      report = h("p", { class: "error", role: "alert" }, error.message);
    }
    running = null;
    paintLearn();
  }
  async function forget() {
    if (!(await confirm("Undo learning?", "Tags and searches use the model as it was before. Your answers are kept.", "Undo learning"))) return;
    try {
      await post("v1/learn/undo");
      await refreshStatus();
      app.words = report = null;
    } catch (error) {
      failed(error);
    }
    paintLearn();
  }

  const keys = { y: () => reply(true), n: () => reply(false), s: () => reply(null), u: back };
  Object.assign(keys, { ArrowRight: keys.y, ArrowLeft: keys.n, ArrowDown: keys.s, ArrowUp: keys.u });
  const onKey = (event) => {
    if (typing(event) || document.querySelector("dialog[open]") || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  };
  addEventListener("keydown", onKey);
  const begin = () => {
    clearTimeout(timer);
    [queue, history, seen, answered, left, loading, counting] = [[], [], new Set(), 0, 0, null, null];
    paintBulk();
    paintLearn();
    next();
  };
  begin();
  return {
    leave: () => (clearTimeout(timer), removeEventListener("keydown", onKey)),
    update({ params }) {
      if ((params.get("word") ?? "") === word) return;
      word = filter.value = params.get("word") ?? "";
      begin();
    },
  };
}
