// The results: a grid of pictures or a list of texts, with arrow key navigation.
import { show } from "./api.js";
import { $, count, el, icon } from "./dom.js";

/** The first of a list of keywords ("cat face, cat, pet"), or a complete sentence. */
function headword(text) {
  const parts = text.split(", ");
  const keywords = parts.length > 1 && parts.every((part) => part.split(" ").length <= 4) && !/[.!?]$/.test(text);
  return keywords ? parts[0] : text;
}

/** The name of a result: a name in its metadata, its text, its last label, or its id. */
export function nameOf(hit, wording) {
  const said = hit.meta?.name ?? hit.meta?.title ?? hit.text ?? hit.meta?.caption;
  if (said) return hit.picture ? headword(String(said)) : String(said);
  const labels = hit.labels.map((label) => wording.split(label)[1]);
  return labels.length > 0 ? `${labels.at(-1)} (${hit.id})` : hit.id;
}

/** The text of a result, or the matching part of a long one, with its matching words marked. */
function highlighted(hit) {
  const { text, highlights } = hit.snippet ?? { text: hit.text, highlights: hit.highlights ?? [] };
  const nodes = [];
  let at = 0;
  for (const [from, to] of highlights) {
    nodes.push(text.slice(at, from), el("mark", { text: text.slice(from, to) }));
    at = to;
  }
  return [...nodes, text.slice(at)];
}

export class Results {
  /** `on.more(hit)`, `on.explain(hit)`, `on.hover(hit or null)`. */
  constructor(on) {
    this.on = on;
    this.list = $("hits");
    this.cards = new Map();
    this.hits = [];
    this.list.addEventListener("keydown", (event) => this.#key(event));
    this.list.addEventListener("pointerleave", () => on.hover(null));
    this.list.addEventListener("focusout", (event) => {
      if (!this.list.contains(event.relatedTarget)) on.hover(null);
    });
  }

  /** Shows results. Cards of items that remain are kept, so that pictures do not flicker while typing. */
  show(answer, look, wording) {
    const kept = new Map();
    const kind = look === "picture" ? "tile" : "row";
    this.list.className = `hits ${look === "picture" ? "grid" : "rows"}`;
    const nodes = answer.hits.map((hit) => {
      const key = `${kind} ${answer.model} ${answer.target} ${hit.id}`;
      const card = this.cards.get(key) ?? this.#card(kind);
      kept.set(key, card);
      this.#fill(card, hit, wording, answer);
      return card.node;
    });
    this.cards = kept;
    this.hits = answer.hits;
    const focused = this.list.contains(document.activeElement);
    this.list.replaceChildren(...nodes);
    this.#roam(0);
    if (focused) this.buttons[0]?.focus({ preventScroll: true });
  }

  clear() {
    this.hits = [];
    this.cards.clear();
    this.list.replaceChildren();
  }

  /** Placeholders while waiting for the first response. */
  skeleton(look, places) {
    this.clear();
    this.list.className = `hits ${look === "picture" ? "grid" : "rows"}`;
    const blank = () => el("li", { class: "hit blank", "aria-hidden": "true" });
    this.list.replaceChildren(...Array.from({ length: places }, blank));
  }

  select(id) {
    for (const card of this.cards.values()) {
      const selected = card.hit.id === id;
      card.node.classList.toggle("selected", selected);
      card.button.setAttribute("aria-expanded", String(selected));
    }
  }

  get buttons() {
    return [...this.list.querySelectorAll(".hit-button")];
  }

  focus(id) {
    const card = [...this.cards.values()].find((each) => each.hit.id === id);
    (card?.button ?? this.buttons[0])?.focus();
  }

  #card(kind) {
    const card = { kind, hit: null };
    card.picture = el("img", { alt: "", loading: "lazy", decoding: "async", draggable: "false" });
    // In a tile the alt text of the picture is the name.
    card.name = el("span", { class: "hit-name", "aria-hidden": kind === "tile" ? "true" : null });
    card.labels = el("span", { class: "hit-labels" });
    card.near = el("span", { class: "hit-near" });
    card.reason = el("span", { class: "hit-reason" });
    card.button = el(
      "button",
      { type: "button", class: "hit-button", "aria-describedby": "hit-keys", "aria-controls": "explain", "aria-expanded": "false", onclick: () => this.on.explain(card.hit) },
      kind === "tile" ? el("span", { class: "tile" }, card.picture) : null,
      kind === "tile" ? [el("span", { class: "hit-foot" }, card.name, card.near), card.reason] : [card.name, card.labels, el("span", { class: "hit-aside" }, card.reason, card.near)],
    );
    card.more = el(
      "button",
      { type: "button", class: "hit-more", tabindex: "-1", title: "More like this", onclick: () => this.on.more(card.hit) },
      icon("similar"),
    );
    card.node = el("li", { class: `hit ${kind}-hit` }, card.button, card.more);
    card.node.addEventListener("pointerenter", () => this.on.hover(card.hit));
    card.button.addEventListener("focus", () => {
      this.#roam(this.buttons.indexOf(card.button));
      this.on.hover(card.hit);
    });
    return card;
  }

  #fill(card, hit, wording, { by, rank, query: { bits } }) {
    card.hit = hit;
    card.node.dataset.id = hit.id;
    card.node.dataset.labels = hit.labels.join("\n");
    card.node.dataset.distance = hit.distance ?? "";
    card.node.dataset.text = hit.text ?? "";
    const reason = hit.weak ? "weak match" : (hit.reason?.[0] ?? "less similar");
    card.node.dataset.reason = (hit.reason ?? []).join(", ");
    card.node.classList.toggle("weak", Boolean(hit.weak));
    const name = nameOf(hit, wording);
    const marked = card.kind === "row" && name === hit.text;
    card.name.replaceChildren(...(marked ? highlighted(hit) : [name]));
    card.button.title = reason ? `${name} (${hit.reason.join(", ") || reason})` : name;
    // By meaning, all hits have the same reason: their similarity is shown instead, which orders them.
    const byMeaning = by === "meaning";
    card.reason.textContent = byMeaning && !hit.weak ? "" : reason.replace("contains some", "some");
    card.reason.hidden = card.reason.textContent === "";
    card.reason.classList.toggle("by-words", !hit.weak && !reason.includes("similar"));
    card.near.hidden = !byMeaning || hit.distance === null;
    const [near, word, hint] =
      rank === "hamming"
        ? [1 - (2 * hit.distance) / bits, String(hit.distance), `${count(hit.distance ?? 0, "bit")} of ${bits} differ`]
        : [hit.score ?? 0, `${Math.round(100 * Math.max(0, hit.score ?? 0))} %`, `Similarity to the query; ${count(hit.distance ?? 0, "bit")} of ${bits} differ`];
    card.near.textContent = word;
    card.near.title = hint;
    card.near.style.setProperty("--near", String(Math.min(1, Math.max(0, near))));
    card.more.setAttribute("aria-label", `More like ${name}`);
    if (card.kind === "tile") {
      card.picture.alt = name;
      if (hit.picture) show(card.picture, hit.picture, 192);
    } else {
      const shared = new Set(hit.shared);
      const chips = hit.labels.slice(0, 6).map((label) => el("span", { class: shared.has(label) ? "chip shared" : "chip" }, wording.nodes(label)));
      card.labels.replaceChildren(...chips);
    }
  }

  /** Tab reaches one card; arrow keys move between cards. */
  #roam(at) {
    this.buttons.forEach((button, each) => (button.tabIndex = each === at ? 0 : -1));
  }

  #key(event) {
    const { buttons } = this;
    const at = buttons.indexOf(document.activeElement);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") {
      event.preventDefault();
      this.on.more(this.hits[at]);
      return;
    }
    const top = buttons[0].getBoundingClientRect().top;
    const below = buttons.findIndex((button) => button.getBoundingClientRect().top > top + 1);
    const columns = below < 0 ? buttons.length : below;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -at, End: buttons.length - 1 - at };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = at + step;
    if (next >= 0 && next < buttons.length) buttons[next].focus();
    else if (event.key === "ArrowDown" && at < buttons.length - 1) buttons.at(-1).focus();
    else if (event.key === "ArrowUp") $("q").focus();
  }
}
