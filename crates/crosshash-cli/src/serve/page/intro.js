// The start page before the first query: query kinds, words that work (checked when the run was trained) and sample
// items, all from the served model.
import * as api from "./api.js";
import { randomCode } from "./bits.js";
import { $, el, icon, number } from "./dom.js";
import { nameOf } from "./results.js";

const PLACES = 6;
const PER_PLACE = 24;
const STARTERS = 16;
const EXAMPLES = 8;

const WAYS = { text: "words", picture: "a picture", drawing: "a drawing" };

/** "words, a picture or a drawing". */
function waysOf(model) {
  const asked = new Set(model.modalities.flatMap((modality) => modality.asks));
  const ways = Object.keys(WAYS).filter((kind) => asked.has(kind)).map((kind) => WAYS[kind]);
  return ways.length > 1 ? `${ways.slice(0, -1).join(", ")} or ${ways.at(-1)}` : (ways[0] ?? "an item");
}

/** A sample of items: results near random codes, without repeated labels. */
async function sample(model, target, wanted) {
  const ask = () => api.search({ model: model.name, query: { code: randomCode(model.bits) }, target, k: PER_PLACE });
  const answers = await Promise.all(Array.from({ length: PLACES }, ask));
  const seen = new Set();
  const found = [];
  for (let turn = 0; turn < PER_PLACE && found.length < wanted; turn++) {
    for (const { hits } of answers) {
      const hit = hits[turn];
      const key = hit?.labels.slice(0, 2).join("\n");
      if (!hit || seen.has(key) || seen.has(hit.id) || found.length === wanted) continue;
      seen.add(key).add(hit.id);
      found.push(hit);
    }
  }
  return found;
}

/** Builds the start page. `on.type(text, modality)`, `on.draw()`, `on.choose()`, `on.more(hit, modality)`. */
export async function intro(model, wording, target, on) {
  const node = $("intro");
  const reads = (kind) => model.modalities.some((modality) => modality.asks.includes(kind));
  const held = model.modalities.map((modality) => `${modality.name} ${number(modality.items)}`);
  const tries = el("p", { class: "tries" });
  const start = el("div", { class: "starters" });
  const way = (name, word, act) => el("button", { type: "button", class: "way", onclick: act }, icon(name), el("span", { text: word }));
  node.replaceChildren(
    el("h2", { id: "intro-title", text: `Search with ${waysOf(model)}` }),
    el("p", { class: "lead", text: `Each item is a ${model.bits}-bit code; the closest matches come first.` }),
    el("p", { class: "held note" }, [...held, `labels ${number(model.labels.length)}`].map((text) => el("span", { text }))),
    tries,
    el(
      "div",
      { class: "ways" },
      reads("drawing") ? way("draw", "Draw something", on.draw) : null,
      reads("picture") ? way("picture", "Drop, paste or choose a picture", on.choose) : null,
    ),
    start,
  );

  const suggested = model.suggestions.slice(0, EXAMPLES);
  const button = ({ text, modality }) => el("button", { type: "button", class: "chip", text, onclick: () => on.type(text, modality) });
  if (suggested.length > 0) tries.replaceChildren(el("span", { class: "note", text: "Try" }), ...suggested.map(button));
  const pictures = model.modalities.find((modality) => modality.name === target) ?? model.modalities[0];
  const hits = await sample(model, pictures.name, STARTERS);
  const starter = (hit) => {
    const name = nameOf(hit, wording);
    const img = hit.picture ? el("img", { alt: name, draggable: "false", loading: "lazy" }) : null;
    if (img) api.show(img, hit.picture, 192);
    return el("button", { type: "button", class: img ? "starter tile" : "starter chip", title: `More like ${name}`, onclick: () => on.more(hit, pictures.name) }, img ?? name);
  };
  if (hits.length > 0) start.replaceChildren(el("p", { class: "note", text: "Or start with one of these items" }), el("div", { class: "starter-row" }, hits.map(starter)));
}
