// Labels: display names and the label filter.
import { $, el, number, segments } from "./dom.js";

const MOST_SHOWN = 80;
const FACET_NEEDS = 4;

/** Splits names whose first word is shared by several names ("keyword cat") into that word and the rest. */
export class Wording {
  constructor(labels) {
    const heads = new Map();
    for (const { name } of labels) {
      const head = /^(\S+) \S/.exec(name)?.[1];
      if (head) heads.set(head, (heads.get(head) ?? 0) + 1);
    }
    this.heads = new Set([...heads].filter(([, times]) => times >= FACET_NEEDS).map(([head]) => head));
  }

  /** ["keyword", "cat"], or ["", name]. */
  split(name) {
    const space = name.indexOf(" ");
    const head = name.slice(0, Math.max(0, space));
    return this.heads.has(head) ? [head, name.slice(space + 1)] : ["", name];
  }

  /** The name as nodes, with the first word in a lighter colour. */
  nodes(name) {
    const [head, rest] = this.split(name);
    return head ? [el("span", { class: "facet", text: `${head} ` }), rest] : [rest];
  }
}

/** The filter card. Calls `choose(labels)` and `match(mode)`. */
export class LabelFilter {
  constructor(choose, match) {
    this.choose = choose;
    this.match = match;
    this.labels = [];
    this.chosen = [];
    $("labels-search").addEventListener("input", () => this.#list());
    $("labels-search").addEventListener("keydown", (event) => {
      if (event.key === "Escape" && event.target.value) {
        event.stopPropagation();
        event.target.value = "";
        this.#list();
      }
    });
    $("labels-clear").addEventListener("click", () => choose([]));
  }

  show(labels, wording, chosen, match) {
    const first = labels !== this.labels;
    this.labels = labels;
    this.wording = wording;
    $("labels-card").hidden = labels.length === 0;
    $("labels-clear").hidden = chosen.length === 0;
    $("match").hidden = chosen.length < 2;
    const choices = [
      { value: "any", word: "Any" },
      { value: "all", word: "All" },
    ];
    segments($("match"), choices, match, this.match);
    const same = chosen.length === this.chosen.length && chosen.every((name, at) => name === this.chosen[at]);
    this.chosen = chosen;
    if (first || !same) this.#list();
  }

  #list() {
    const sought = $("labels-search").value.trim().toLowerCase();
    const byCount = [...this.labels].sort((a, b) => b.items - a.items || a.name.localeCompare(b.name));
    const unknown = this.chosen
      .filter((name) => !this.labels.some((label) => label.name === name))
      .map((name) => ({ name, items: 0 }));
    const isChosen = (label) => this.chosen.includes(label.name);
    const found = byCount.filter((label) => !isChosen(label) && label.name.toLowerCase().includes(sought));
    const shown = [...unknown, ...byCount.filter(isChosen), ...found].slice(0, MOST_SHOWN);
    const list = $("labels-list");
    const focused = list.contains(document.activeElement) ? document.activeElement.value : null;
    list.replaceChildren(...shown.map((label) => this.#row(label, isChosen(label))));
    if (focused !== null) [...list.querySelectorAll("input")].find((box) => box.value === focused)?.focus();
    const hidden = found.length + this.chosen.length - shown.length;
    const total = found.length + this.chosen.length;
    $("labels-more").textContent = shown.length === 0 ? "No matching labels." : hidden > 0 ? `${number(hidden)} more; type to filter.` : `${number(total)} ${total === 1 ? "label" : "labels"}; scroll for more.`;
    $("labels-more").hidden = shown.length > 0 && hidden <= 0 && list.scrollHeight <= list.clientHeight;
  }

  #row(label, checked) {
    const box = el("input", { type: "checkbox", value: label.name });
    box.checked = checked;
    box.addEventListener("change", () => {
      const others = this.chosen.filter((name) => name !== label.name);
      this.choose(box.checked ? [...others, label.name] : others);
    });
    return el(
      "li",
      null,
      el("label", null, box, el("span", { class: "label-name" }, this.wording.nodes(label.name)), el("span", { class: "label-count", text: label.items === null ? "" : number(label.items) })),
    );
  }
}
