// The panel that explains a result: item, labels shared with the query, differing bits, centres nearest to the query
// and timings. Also starts a search for similar items in any modality.
import * as api from "./api.js";
import { BitGrid } from "./bits.js";
import { $, count, duration, el, icon, title } from "./dom.js";
import { nameOf } from "./results.js";

const STAGES = ["decode", "features", "encode", "search"];

/** Nearest centres as bars; a longer bar means a shorter distance. */
export function centresList(centres, bits, wording, { most = 5, brief = false } = {}) {
  return el(
    "ol",
    { class: "centres" },
    centres.slice(0, most).map(({ label, distance }) => {
      const bar = el("span", { class: "bar-fill" });
      bar.style.width = `${Math.max(2, 100 * (1 - distance / bits))}%`;
      return el(
        "li",
        null,
        el("span", { class: "centre-name", title: label }, brief ? wording.split(label)[1] : wording.nodes(label)),
        el("span", { class: "centre-distance", text: String(distance), title: `${count(distance, "bit")} away` }),
        el("span", { class: "bar-line", "aria-hidden": "true" }, bar),
      );
    }),
  );
}

function timings(us) {
  const stages = STAGES.filter((stage) => us[stage] > 0);
  const rows = [...stages, "total"].filter((stage) => us[stage] !== undefined && us[stage] !== null);
  return el("dl", { class: "facts" }, rows.map((stage) => [el("dt", { text: title(stage) }), el("dd", { text: duration(us[stage]) })]));
}

export class Explain {
  /** `on.more(hit, target)`, `on.filter(label)`, `on.close()`. */
  constructor(on) {
    this.on = on;
    this.node = $("explain");
    this.fetching = null;
  }

  get open() {
    return !this.node.hidden;
  }

  hide() {
    this.fetching?.abort();
    this.node.hidden = true;
    this.node.replaceChildren();
    document.body.classList.remove("explaining");
  }

  show(hit, answer, model, wording) {
    const { query } = answer;
    const name = nameOf(hit, wording);
    const look = model.modalities.find((modality) => modality.name === answer.target)?.shows;
    const picture = hit.picture && look === "picture" ? el("img", { alt: name, class: "explain-picture", draggable: "false" }) : null;
    if (picture) api.show(picture, hit.picture, 384);
    const shared = new Set(hit.shared);
    const chip = (label) =>
      el(
        "button",
        { type: "button", class: shared.has(label) ? "chip shared" : "chip", title: "Only results with this label", onclick: () => this.on.filter(label) },
        wording.nodes(label),
      );
    const ordered = [...hit.labels].sort((a, b) => Number(shared.has(b)) - Number(shared.has(a)));
    const gridParent = el("div", { class: "code-grid" });
    const differing = new BitGrid(gridParent).show(hit.code, query.bits, query.code);
    const asLabels = query.labels ? "the query" : "the centres nearest to the query";
    const also = el("div", { class: "also" });

    const section = (head, ...rest) => el("section", null, el("h3", { text: head }), rest);
    this.node.replaceChildren(
      ...[
        el(
          "header",
          null,
          el("h2", { text: name, title: hit.id }),
          el("button", { type: "button", class: "icon-button", "aria-label": "Close", title: "Close (Esc)", onclick: () => this.on.close() }, icon("close")),
        ),
        picture ? el("div", { class: "tile" }, picture) : null,
        el(
          "section",
          { class: "onward" },
          el("h3", { id: "onward-word", text: "More like this in" }),
          el(
            "div",
            { class: "onward-buttons", role: "group", "aria-labelledby": "onward-word" },
            model.modalities.map((modality) =>
              el("button", { type: "button", class: "plain-button", data: { more: modality.name }, text: title(modality.name), onclick: () => this.on.more(hit, modality.name) }),
            ),
          ),
        ),
        section(
          "Labels",
          el("div", { class: "chips" }, ordered.map(chip)),
          el("p", {
            class: "note",
            text: hit.labels.length === 0 ? "No labels." : shared.size > 0 ? `Highlighted: shared with ${asLabels}.` : `No label is shared with ${asLabels}.`,
          }),
        ),
        hit.reason?.length > 0 ? section("Why this result", el("p", { text: hit.reason.join(", ") })) : null,
        hit.distance === null ? null : section(
          hit.distance === 0 ? "Identical code" : `${count(hit.distance, "bit")} of ${query.bits} differ`,
          el(
            "div",
            { class: "code-parts" },
            gridParent,
            el("p", { class: "note", text: differing === 0 ? "All bits are equal to those of the query." : "Code of the item. Highlighted: bits that differ from the query." }),
          ),
        ),
        query.centres?.length > 0 ? section("Centres nearest to the query", centresList(query.centres, query.bits, wording)) : null,
        also,
        section("Timings", timings(answer.timings_us)),
        this.#meta(hit),
      ].filter(Boolean),
    );
    this.node.hidden = false;
    document.body.classList.add("explaining");
    this.#also(also, hit, answer, model);
  }

  #meta(hit) {
    const entries = Object.entries(hit.meta ?? {});
    return el(
      "section",
      null,
      el("h3", { text: "Item" }),
      el(
        "dl",
        { class: "facts" },
        [["id", hit.id], ...entries].map(([key, value]) => [el("dt", { text: title(key) }), el("dd", { text: typeof value === "object" ? JSON.stringify(value) : String(value) })]),
      ),
    );
  }

  /** The same item in other modalities. */
  async #also(node, hit, answer, model) {
    this.fetching?.abort();
    const fetching = (this.fetching = new AbortController());
    try {
      const item = await api.item(answer.model, answer.target, hit.id, fetching.signal);
      const others = model.modalities.filter((modality) => item.also?.includes(modality.name) && modality.shows !== "none");
      const shown = await Promise.all(
        others.map(async (modality) => {
          if (modality.shows === "picture") {
            const img = el("img", { alt: `${nameOf(hit, { split: (label) => ["", label] })} as ${modality.name}`, draggable: "false" });
            api.show(img, api.picturePath(answer.model, modality.name, hit.id), 192);
            return el("figure", null, el("div", { class: "tile" }, img), el("figcaption", { text: title(modality.name) }));
          }
          const other = await api.item(answer.model, modality.name, hit.id, fetching.signal);
          return other.text ? el("figure", { class: "text" }, el("blockquote", { text: other.text }), el("figcaption", { text: title(modality.name) })) : null;
        }),
      );
      const found = shown.filter(Boolean);
      if (fetching.signal.aborted || found.length === 0) return;
      node.replaceChildren(el("h3", { text: "The same item in other modalities" }), el("div", { class: "also-row" }, found));
    } catch {
      // The panel works without it.
    }
  }
}
