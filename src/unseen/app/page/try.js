// A few photos and any words, without a library: tags change while words are typed, photos are uploaded once.
import { api, app, button, debounce, failed, h, icon, iconButton, image, lines, note, number, plural, post, problem, thumbnail } from "./ui.js";
import { tagRow } from "./photo.js";

const photos = []; // stay while other views are looked at: {name, id, preview, tags, guess, problem}
let typed = "";

export function show(main) {
  let asked = null;
  const words = () => {
    const list = typed.split(/[,;\n]/).map((word) => word.trim()).filter(Boolean);
    return list.length ? [...new Set(list)] : null;
  };
  const input = h("input", { id: "try-words", type: "text", value: typed, placeholder: "sofa, birthday cake, bicycle", autocomplete: "off", oninput: () => ((typed = input.value), later()) });
  const picker = h("input", { type: "file", multiple: true, accept: "image/*,.heic,.heif,.dng,.cr2,.cr3,.nef,.arw", class: "hidden-text", "aria-label": "Choose photos", tabindex: "-1", onchange: () => (add([...picker.files]), (picker.value = "")) });
  const choose = (kind, ...content) => button(content, () => picker.click(), kind);
  const drop = choose("drop", icon("photo"), h("strong", {}, "Drop photos here"), h("span", { class: "muted" }, "or choose files. They stay on this computer."));
  const samples = h("div", { class: "strip" });
  const start = h("div", { class: "try-start" }, drop, h("div", {}, h("h2", {}, "Or take these"), samples));
  const bar = h("div", { class: "actions" }, choose("button", icon("plus"), "Add photos"), button("Remove all", clear));
  const notes = h("div", { class: "notes", role: "status" });
  const cards = h("div", { class: "try-cards" });
  main.append(h("div", { class: "head" }, h("div", {}, h("h1", {}, "Tag photos with any words"), h("p", { class: "muted" }, `${app.status.model.labels} labels were annotated; all other words come from what is known about them.`)), bar),
    h("label", { class: "field", for: "try-words" }, h("span", {}, "Words, separated by commas"), input, h("small", { class: "muted" }, "Left empty: everyday words. Any of 16 languages.")), notes, start, cards, picker);

  const card = (photo) => {
    const list = h("ul", { class: "tags" });
    const node = h("article", { class: "card try-card", "aria-label": photo.name }, h("div", { class: "card-picture" }, picture(photo), iconButton("close", `Remove ${photo.name}`, () => {
      photos.splice(photos.indexOf(photo), 1);
      draw();
    }, { class: "icon-button step close" })), h("h2", {}, photo.name), list);
    photo.node = node;
    photo.paint = () => {
      node.setAttribute("aria-busy", !photo.id && !photo.problem);
      if (photo.problem) return list.replaceChildren(note(photo.problem, "li"));
      if (!photo.tags) return list.replaceChildren(lines(3, "li"));
      if (!photo.tags.length) return list.replaceChildren(h("li", { class: "muted" }, photo.guess ? "No tag is likely. The best guess:" : "No tag is likely."), photo.guess ? tagRow(photo.id, photo.guess) : "");
      return list.replaceChildren(...photo.tags.map((tag) => tagRow(photo.id, tag)));
    };
    photo.paint();
    return node;
  };
  function picture(photo) {
    const img = h("img", { src: photo.preview ?? image(photo.id), alt: "" });
    img.addEventListener("error", () => {
      if (photo.id && !img.src.endsWith("thumbnail")) img.src = thumbnail(photo.id);
      else img.classList.add("gone"); // a format that the browser does not show; the server may
    });
    img.addEventListener("load", () => img.classList.remove("gone"));
    photo.img = img;
    return img;
  }
  function draw() {
    start.hidden = photos.length > 0;
    bar.hidden = !photos.length;
    cards.replaceChildren(...photos.map((photo) => photo.node ?? card(photo)));
  }
  function clear() {
    for (const { preview } of photos) if (preview) URL.revokeObjectURL(preview);
    photos.length = 0;
    notes.replaceChildren();
    draw();
    drop.focus();
  }
  function take(photo, answer, data) {
    Object.assign(photo, answer);
    if (photo.id && photo.img?.classList.contains("gone")) photo.img.src = thumbnail(photo.id);
    photo.paint();
    notes.replaceChildren(...(data.notes ?? []).map((text) => note(text)));
  }

  /** Upload photos two at a time; each one appears at once and gets its tags when they are there. */
  async function add(files) {
    const { limits } = app.status;
    const fresh = files.slice(0, Math.max(0, limits.photos - photos.length)).map((file) => ({ file, name: file.name, preview: URL.createObjectURL(file) }));
    if (fresh.length < files.length) failed(new Error(`${plural(limits.photos, "photo")} at a time; ${number(files.length - fresh.length)} left out. For more, make a library: unseen index FOLDER`));
    photos.push(...fresh);
    draw();
    const queue = [...fresh];
    const worker = async () => {
      for (let photo = queue.shift(); photo; photo = queue.shift()) {
        try {
          if (photo.file.size > limits.bytes) throw new Error(`Larger than ${Math.round(limits.bytes / 1e6)} MB.`);
          const form = new FormData();
          form.append("photo", photo.file, photo.file.name);
          const wanted = words();
          if (wanted) form.append("words", wanted.join(", "));
          form.append("min_p", wanted ? 0 : app.status.maybe);
          form.append("top", wanted?.length ?? 12);
          const data = await post("v1/tag", form);
          take(photo, { ...data.photos[0], name: photo.name }, data);
          if (String(wanted) !== String(words())) later();
        } catch (error) {
          take(photo, { problem: error.message }, {});
        }
        delete photo.file;
      }
    };
    await Promise.all([worker(), worker()]);
  }

  /** The words have changed: ask again about photos that the server has. */
  async function tag() {
    asked?.abort();
    const control = (asked = new AbortController());
    const known = photos.filter(({ id, problem: trouble }) => id && !trouble);
    if (!known.length) return;
    try {
      const wanted = words();
      const data = await post("v1/tag", { ids: known.map(({ id }) => id), words: wanted, top: wanted?.length ?? 12, min_p: wanted ? 0 : app.status.maybe }, { signal: control.signal });
      if (control === asked) known.forEach((photo, k) => take(photo, { ...data.photos[k], name: photo.name }, data));
    } catch (error) {
      if (error.name !== "AbortError") notes.replaceChildren(note(error.message));
    }
  }
  const later = debounce(tag, 120);

  api("v1/samples").then((data) => {
    const pick = (...chosen) => (photos.push(...chosen.map((sample) => ({ ...sample }))), draw(), later());
    samples.replaceChildren(...data.photos.map((sample) => button(h("img", { src: thumbnail(sample.id), alt: sample.name }), () => pick(sample), "sample")),
      data.photos.length > 1 ? button(`All ${data.photos.length}`, () => pick(...data.photos)) : "");
  }).catch((error) => samples.replaceChildren(problem(error)));

  const over = (event) => {
    if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
    event.preventDefault();
    document.body.classList.toggle("dropping", event.type === "dragover");
    if (event.type === "drop") add([...event.dataTransfer.files]);
  };
  const events = ["dragover", "drop", "dragleave"];
  for (const name of events) addEventListener(name, over);
  for (const photo of photos) delete photo.node;
  draw();
  return { leave: () => events.forEach((name) => removeEventListener(name, over)) };
}
