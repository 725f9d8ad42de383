// The model tab: overview, evaluation, training history and the map of the outputs.
import * as api from "./api.js";
import { brief, lineChart } from "./charts.js";
import { el, number, title } from "./dom.js";
import { EmbeddingMap } from "./map.js";

const POLL_MS = 1500;
/** Columns of the history that are not plotted. */
const NOT_MEASURES = new Set(["epoch", "seconds", "rate"]);

const card = (width, head, aside, ...rest) =>
  el("section", { class: `card ${width}` }, el("div", { class: "card-head" }, el("h2", { text: head }), aside), rest);
const note = (text) => el("p", { class: "note", text });

/** {"picture": {"loss": 1}} -> {"picture.loss": 1}. */
function flat(row, before = "") {
  return Object.entries(row).flatMap(([key, value]) =>
    value !== null && typeof value === "object" ? flat(value, `${before}${key}.`) : [[before + key, value]],
  );
}

/** The MAP of every direction as a table: queries in rows, databases in columns. */
function mapTable(directions) {
  const queries = [...new Set(directions.map((each) => each.query))];
  const databases = [...new Set(directions.map((each) => each.database))];
  const cell = (query, database) => {
    const found = directions.find((each) => each.query === query && each.database === database);
    if (!found) return el("td", { text: "–" });
    // Without labels there is no MAP; the recall of pairs is shown instead.
    if (!Number.isFinite(found.map)) return el("td", { text: Number.isFinite(found.recall) ? `R@10 ${found.recall.toFixed(3)}` : "–" });
    const node = el("td", { class: "map-cell" }, el("b", { text: found.map.toFixed(3) }), el("span", { class: "note", text: ` chance ${found.chance.toFixed(3)}` }));
    node.style.setProperty("--strength", String(Math.max(0, Math.min(1, (found.map - found.chance) / (1 - found.chance)))));
    return node;
  };
  return el(
    "div",
    { class: "scroll" },
    el(
      "table",
      { class: "map-table" },
      el("caption", { class: "hidden-text", text: "Mean average precision of every direction, and of a random ranking (chance)" }),
      el("thead", null, el("tr", null, el("th", { scope: "col", text: "Query ↓ database →" }), databases.map((name) => el("th", { scope: "col", text: title(name) })))),
      el("tbody", null, queries.map((query) => el("tr", null, el("th", { scope: "row", text: title(query) }), databases.map((database) => cell(query, database))))),
    ),
  );
}

/** Columns of the table of further metrics: key, head, digits, explanation. */
const METRICS = [
  ["recall_at_1", "R@1", 3, "Share of held-out queries that find their pair first, by codes"],
  ["recall_at_5", "R@5", 3, "… among the first five"],
  ["recall_at_10", "R@10", 3, "… among the first ten"],
  ["words_p5", "Words P@5", 3, "Of the first five items for a word typed alone, the share that contains it, of what is possible"],
  ["words_unseen_p5", "Unseen", 3, "The same among items that training did not see"],
  ["map_asymmetric", "MAP asym.", 3, "MAP of real query outputs against codes"],
  ["map_real", "MAP real", 3, "MAP of real outputs, without codes"],
  ["distinct_codes", "Distinct", 3, "Distinct codes, as a share of the items"],
  ["constant_bits", "Const. bits", 0, "Bits that are the same in every code"],
  ["bit_entropy", "Entropy", 3, "Mean entropy of a bit; 1 is best"],
];

/** Recall of pairs, typed words and use of the bits, one row per direction between modalities; null if not measured. */
function userTable(directions) {
  const rows = directions.filter((each) => each.query !== each.database && each.metrics);
  const columns = METRICS.filter(([key]) => rows.some((each) => Number.isFinite(each.metrics[key])));
  if (rows.length === 0 || columns.length === 0) return null;
  const cell = (each, [key, , digits]) => el("td", { text: Number.isFinite(each.metrics[key]) ? each.metrics[key].toFixed(digits) : "–" });
  return el(
    "div",
    { class: "scroll" },
    el(
      "table",
      { class: "user-table" },
      el("caption", { class: "hidden-text", text: "Recall of pairs, typed words and use of the bits, by direction" }),
      el("thead", null, el("tr", null, el("th", { scope: "col", text: "Direction" }), columns.map(([, head, , about]) => el("th", { scope: "col", title: about, text: head })))),
      el("tbody", null, rows.map((each) => el("tr", null, el("th", { scope: "row", text: `${title(each.query)} → ${title(each.database)}` }), columns.map((column) => cell(each, column))))),
    ),
  );
}

function curves(directions) {
  // colour: modality of the query; dashes: modality of the database
  const place = (name, of) => [...new Set(directions.map((each) => each[of]))].indexOf(name);
  const series = directions
    .filter((each) => each.curve?.length > 1)
    .map((each) => ({ name: `${each.query} → ${each.database}`, points: each.curve, colour: place(each.query, "query") % 6, dash: place(each.database, "database") % 4 }));
  if (series.length === 0) return note("The report has no curves.");
  return lineChart({ series, x: "recall", y: "precision", label: "Precision over recall of every direction", range: { x: [0, 1], y: [0, 1] } });
}

/** One chart per metric; all modalities of a metric share one chart. */
function convergence(history) {
  const rows = history.map((row) => new Map(flat(row)));
  const keys = [...new Set(rows.flatMap((row) => [...row.keys()]))].filter((key) => !NOT_MEASURES.has(key) && rows.some((row) => Number.isFinite(row.get(key))));
  const measures = new Map();
  for (const key of keys) {
    const dot = key.lastIndexOf(".");
    const measure = key.slice(dot + 1);
    measures.set(measure, [...(measures.get(measure) ?? []), { key, name: dot < 0 ? measure : key.slice(0, dot) }]);
  }
  const chart = (measure) =>
    lineChart({
      series: measures.get(measure).map(({ key, name }, colour) => ({
        name: name.replaceAll("_", " "),
        points: rows.map((row, at) => [row.get("epoch") ?? at + 1, row.get(key)]).filter(([, value]) => Number.isFinite(value)),
        colour: colour % 6,
        dash: Math.floor(colour / 6) % 4,
      })),
      x: "epoch",
      y: measure.replaceAll("_", " "),
      label: `${measure} by epoch`,
    });
  const names = [...measures.keys()];
  if (names.length === 0) return { pick: null, place: note("No history was recorded.") };
  const liked = ["validation_map", "validation_recall", "loss"].filter((name) => measures.has(name));
  const first = liked.length > 0 ? liked : names.slice(0, 2);
  const place = el("div", { class: "charts" });
  const draw = (chosen) => place.replaceChildren(...chosen.map(chart));
  draw(first);
  const pick = el("select", { "aria-label": "Metric" }, el("option", { value: "", text: first.join(" and ").replaceAll("_", " ") }), names.map((name) => el("option", { value: name, text: name.replaceAll("_", " ") })));
  pick.addEventListener("change", () => draw(pick.value ? [pick.value] : first));
  return { pick: names.length > first.length ? pick : null, place };
}

function facts(model) {
  const settings = model.settings ? flat(model.settings).filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0)) : [];
  const list = (entries) => el("dl", { class: "facts wide" }, entries.map(([key, value]) => [el("dt", { text: key }), el("dd", { text: typeof value === "number" ? brief(value) : String(value) })]));
  return [
    el("dl", { class: "figures" }, [
      ["Method", (model.method ?? "–").toUpperCase()],
      ["Bits", number(model.bits)],
      ["Labels", number(model.labels.length)],
      ...model.modalities.map((modality) => [title(modality.name), number(modality.items)]),
      ["Generation", number(model.generation)],
    ].map(([key, value]) => el("div", null, el("dt", { text: key }), el("dd", { text: value })))),
    settings.length > 0 ? el("details", null, el("summary", { text: "All settings" }), list(settings)) : null,
  ];
}

export class ModelView {
  /** `on.open(point)`: a point of the map was selected. */
  constructor(node, on) {
    this.node = node;
    this.on = on;
    this.shown = null;
    this.map = null;
  }

  stop() {
    this.under?.abort();
    this.under = null;
    if (!this.map) this.shown = null;
  }

  repaint() {
    this.map?.paint();
  }

  async show(summary, wording) {
    const key = `${summary.name} ${summary.generation}`;
    if (this.shown === key) {
      this.map?.paint();
      return;
    }
    this.shown = key;
    this.map?.stop();
    this.map = null;
    this.under?.abort();
    const { signal } = (this.under = new AbortController());
    const heading = el("h1", { text: summary.title ?? summary.name });
    this.node.replaceChildren(heading, note("Loading…"));
    try {
      const model = await api.model(summary.name, signal);
      const directions = model.report?.directions ?? [];
      const users = userTable(directions);
      const place = el("div", null, note("Computing the map…"));
      const learning = model.history?.length > 0 ? convergence(model.history) : { pick: null, place: note("This method has no training history.") };
      this.node.replaceChildren(
        heading,
        el(
          "div",
          { class: "model-grid" },
          card("third", "Overview", null, facts(model)),
          card("two-thirds", "Retrieval quality", null, directions.length > 0 ? [mapTable(directions), note(directions.some((each) => Number.isFinite(each.map)) ? "Mean average precision (MAP) on held-out queries. 1 is perfect; chance is the value of a random ranking." : "The data have no labels. R@10: share of held-out queries that find their pair among the first ten.")] : note("This run was not evaluated.")),
          users ? card("whole", "Pairs, typed words and codes", null, users, note("R@k: share of held-out queries that find their pair among the first k. Words P@5: of the first five items for a word typed alone, the share that contains it.")) : null,
          card(directions.length > 0 ? "two-thirds" : "whole", "Training history", learning.pick, learning.place),
          directions.length > 0 ? card("third", "Precision and recall", null, curves(directions)) : null,
          card("whole", "Map", null, note("Outputs of all modalities, projected to two dimensions by t-SNE. Similar items are close. Hover over a point for details; click it to search."), place),
        ),
      );
      await this.#map(summary, wording, place, signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.shown = null;
      const again = el("button", { type: "button", class: "plain-button", text: "Try again", onclick: () => this.show(summary, wording) });
      this.node.replaceChildren(heading, el("div", { class: "message error", role: "alert" }, el("p", { text: error.message }), el("p", { class: "buttons" }, again)));
    }
  }

  async #map(model, wording, place, signal) {
    try {
      for (;;) {
        const points = await api.map(model.name, signal);
        if (points) {
          this.map = new EmbeddingMap(model, points, wording, this.on.open);
          place.replaceChildren(this.map.node);
          this.map.paint();
          return;
        }
        await new Promise((done) => setTimeout(done, POLL_MS));
        signal.throwIfAborted();
      }
    } catch (error) {
      if (error.name === "AbortError") throw error;
      place.replaceChildren(note(`The map is not available: ${error.message}`));
    }
  }
}
