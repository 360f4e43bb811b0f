// Export, results of experiments, and the API.
import { api, app, button, confirm, empty, follow, h, icon, lines, note, plural, post, problem, progress, slider, table, toast } from "./ui.js";

/** Tags for other programs: XMP sidecars with a preview and undo, CSV and JSON. */
export function showExport(main) {
  if (!app.status.library) return main.append(h("h1", {}, "Export"), problem({ code: "no_library" }));
  const outcome = h("div", { class: "outcome", role: "status" });
  const csv = h("a", { class: "button", download: "" }, icon("down"), "CSV");
  const json = h("a", { class: "button", download: "" }, icon("down"), "JSON");
  const links = () => [[csv, "csv"], [json, "json"]].forEach(([link, kind]) => (link.href = `v1/export.${kind}?min_p=${least.value}`));
  const least = slider("Tags from this probability", app.status.sure, { min: 0.3, oninput: () => (links(), outcome.replaceChildren()) });
  links();
  const preview = button("Preview", () => run("xmp", true));
  const undo = button("Undo what was written…", () => run("undo", true));
  const busy = (on) => [preview, undo].forEach((control) => (control.disabled = on));

  /** A dry run shows what would change, and offers to do it. */
  async function run(kind, dry) {
    const bar = progress(dry ? "Looking" : kind === "xmp" ? "Writing" : "Taking back");
    outcome.replaceChildren(bar.node);
    busy(true);
    try {
      const body = kind === "xmp" ? { min_p: least.value, dry_run: dry } : { dry_run: dry };
      const result = await follow(await post(`v1/export/${kind}`, body), bar.update);
      outcome.replaceChildren(...report(kind, dry, result));
      if (!dry) toast(`${plural(result.tags, "tag")} ${kind === "xmp" ? "written" : "taken back"}.`);
    } catch (error) {
      outcome.replaceChildren(problem(error, () => run(kind, dry)));
    }
    busy(false);
  }
  function report(kind, dry, { tags, photos, changes, problems }) {
    const size = `${plural(tags, "tag")} ${kind === "xmp" ? "for" : "of"} ${plural(photos, "photo")}`;
    const act = async () => {
      const [title, text, yes] = kind === "xmp" ? [`Write ${size}?`, "Tags are added to sidecar files beside the photos. What is in them stays, photos are not touched, and you can undo it.", "Write"]
        : [`Take back ${size}?`, "Only entries that were written by unseen are removed.", "Take back"];
      if (await confirm(title, text, yes)) run(kind, false);
    };
    return [
      h("div", { class: "row spread" }, h("p", {}, h("strong", {}, size), dry ? (kind === "xmp" ? " would be written." : " would be taken back.") : kind === "xmp" ? " written." : " taken back."),
        dry && tags > 0 && button(`${kind === "xmp" ? "Write" : "Take back"} ${plural(tags, "tag")}…`, act, "button primary")),
      problems.length > 0 && h("ul", { class: "notes" }, problems.map((text) => note(text, "li"))),
      changes.length > 0 && table(["photo", "file", "tags"], changes.map(({ photo, file, words }) => [photo, file, words.join(", ")]), changes.length < photos ? `The first ${changes.length} of ${plural(photos, "photo")}` : "Changes"),
    ].filter(Boolean);
  }
  return main.append(h("div", { class: "head" }, h("div", {}, h("h1", {}, "Export"), h("p", { class: "muted" }, "Tags where photo programs and spreadsheets read them."))),
    h("div", { class: "field" }, h("span", {}, "Tags with at least this chance of being right"), least.node),
    h("div", { class: "cards" },
      h("section", { class: "card" }, h("h2", {}, "For photo programs"), h("p", {}, "XMP sidecars, as Lightroom, darktable, digiKam and Immich read them. Existing sidecars are merged, photos are not changed."), h("div", { class: "actions" }, preview, undo)),
      h("section", { class: "card" }, h("h2", {}, "As a table"), h("p", {}, "One row per photo, with its tags and their probabilities."), h("div", { class: "actions" }, csv, json))),
    outcome);
}

/** Reports of experiments: tables and figures. */
export function showResults(main, address) {
  const list = h("nav", { class: "tabs", "aria-label": "Reports" });
  const body = h("div");
  main.append(h("div", { class: "head" }, h("h1", {}, "Results"), list), body);
  async function update({ rest: [id] }) {
    try {
      const { reports } = (app.results ??= await api("v1/results"));
      if (!reports.length) return body.replaceChildren(empty("words", "No reports", "Run an experiment, and its tables and figures are shown here:", h("pre", {}, h("code", {}, "unseen reproduce voc2007 --data DIR"))));
      const chosen = reports.find((report) => report.id === id) ?? reports[0];
      list.replaceChildren(...reports.map((report) => h("a", { href: `#/results/${encodeURIComponent(report.id)}`, "aria-current": report === chosen ? "page" : null }, report.title)));
      body.replaceChildren(lines(8));
      const report = await api(`v1/results/${encodeURIComponent(chosen.id)}`);
      if (!report.tables.length && !report.figures.length) return body.replaceChildren(empty("words", "Nothing in this report yet", "Its tables and figures appear here when the experiment has written them."));
      return body.replaceChildren(...report.tables.map(({ title, columns, rows }) => table(columns, rows, title)),
        h("div", { class: "figures" }, report.figures.map((url, k) => h("a", { href: url, target: "_blank", rel: "noopener" }, h("img", { src: url, alt: `${report.title}, figure ${k + 1}`, loading: "lazy" })))));
    } catch (error) {
      return body.replaceChildren(problem(error, () => update(address)));
    }
  }
  update(address);
  return { update };
}

/** The HTTP interface, as /openapi.json describes it. */
export function showApi(main) {
  const body = h("div", {}, lines(10));
  main.append(h("div", { class: "head" }, h("div", {}, h("h1", {}, "API"), h("p", { class: "muted" }, "Everything on this page is done through these requests."))), body);
  const load = () => api("openapi.json").then((spec) => {
    const resolve = (schema) => (schema?.$ref ? schema.$ref.split("/").slice(1).reduce((node, key) => node?.[key], spec) : schema) ?? {};
    const type = (schema) => {
      const s = resolve(schema);
      const kinds = s.anyOf ?? s.oneOf;
      return kinds ? kinds.map(type).join(" or ") : s.type === "array" ? `list of ${type(s.items)}` : s.enum ? s.enum.join(" | ") : s.type ?? s.title ?? "any";
    };
    const known = { id: "0123456789abcdef", ids: ["0123456789abcdef"], word: "boat", words: ["boat", "sofa"], q: "boat", text: "animal > cat: kitten\n" };
    const sample = (schema, name) => {
      const s = resolve(schema);
      if (name in known) return known[name];
      if (s.example !== undefined || s.examples) return s.example ?? s.examples[0];
      if (s.default !== undefined) return s.default;
      if (s.anyOf) return sample(s.anyOf[0]);
      if (s.properties) return Object.fromEntries(Object.entries(s.properties).map(([name, child]) => [name, sample(child, name)]));
      return { integer: 0, number: 0.8, boolean: false, array: s.items ? [sample(s.items)] : [] }[s.type] ?? "string";
    };
    const operations = Object.entries(spec.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => ({ path, method, operation })));
    const entry = ({ path, method, operation }) => {
      const about = operation.description?.split("\n")[0] ?? operation.summary ?? "";
      const parameters = (operation.parameters ?? []).map(resolve);
      const bodies = Object.entries(operation.requestBody?.content ?? {}).map(([mime, content]) => [mime, resolve(content.schema)]);
      const fields = bodies.flatMap(([mime, schema]) => Object.entries(schema.properties ?? {}).map(([name, field]) => [h("code", {}, name), mime.startsWith("multipart") ? "form" : "body", type(field), schema.required?.includes(name) ? "yes" : "", resolve(field).description ?? ""]));
      const rows = [...parameters.map((p) => [h("code", {}, p.name), p.in, type(p.schema), p.required ? "yes" : "", p.description ?? ""]), ...fields];
      const queries = parameters.filter((p) => p.in === "query" && p.required).map((p) => `${p.name}=${encodeURIComponent(sample(p.schema, p.name))}`);
      const curl = ([mime, schema]) => ["curl", method === "get" ? "" : `-X ${method.toUpperCase()}`,
        mime?.startsWith("multipart") ? Object.keys(schema.properties ?? {}).map((name) => `-F ${name}=${{ photo: "@photo.jpg", words: "'boat, sofa'", word: "boat" }[name] ?? "…"}`).join(" ")
          : mime ? `-H 'Content-Type: ${mime}' -d '${JSON.stringify(sample(schema))}'` : "",
        `'${location.origin}${path}${queries.length ? `?${queries.join("&")}` : ""}'`].filter(Boolean).join(" ");
      const example = (text) => h("div", { class: "curl" }, h("pre", { tabindex: "0", role: "region", "aria-label": "Example" }, h("code", {}, text)),
        button("Copy", () => navigator.clipboard?.writeText(text).then(() => toast("Copied."), () => toast("The clipboard is not available here.")), "link"));
      return h("details", { class: "operation" }, h("summary", {}, h("span", { class: `method ${method}` }, method.toUpperCase()), h("code", {}, path), h("span", { class: "muted" }, about)),
        operation.description && operation.description !== about && h("p", {}, operation.description), rows.length > 0 && table(["name", "in", "type", "required", "description"], rows, `Parameters of ${method.toUpperCase()} ${path}`),
        (bodies.length ? bodies : [[]]).map((one) => example(curl(one))));
    };
    body.replaceChildren(...operations.map(entry), h("p", { class: "muted" }, h("a", { href: "openapi.json" }, "openapi.json"), ` · ${spec.info?.title ?? "unseen"} ${spec.info?.version ?? ""}`));
  }).catch((error) => body.replaceChildren(problem(error, load)));
  load();
}
