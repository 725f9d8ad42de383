// The page: reads the URL, sends queries to the server and updates all parts of the page.
import * as api from "./api.js";
import { QueryInput } from "./query.js";
import { BitGrid } from "./bits.js";
import { $, copy, count, duration, el, number, segments, title } from "./dom.js";
import { centresList, Explain } from "./explain.js";
import { intro } from "./intro.js";
import { LabelFilter, Wording } from "./labels.js";
import { ModelView } from "./model.js";
import { nameOf, Results } from "./results.js";
import { filterOf, NO_QUERY, packOutputs, queryOf, Store } from "./state.js";

const SLOW_MS = 160;
const RETRY_MS = 2500;

const page = { models: [], byDefault: null, model: null, wording: new Wording([]), answer: null, sent: null, under: null };

const store = new Store(render);
const codeGrid = new BitGrid($("code-grid"));
const results = new Results({
  more: (hit) => moreLike(hit, page.answer.target, page.answer.target),
  explain: (hit) => store.go({ hit: store.state.hit === hit.id ? null : hit.id }, { replace: true }),
  hover: (hit) => showCode(hit),
});
const explain = new Explain({
  more: (hit, target) => moreLike(hit, page.answer.target, target),
  filter: (label) => store.go({ labels: [...new Set([...store.state.labels, label])], hit: null }),
  close: closePanel,
});
const labels = new LabelFilter(
  (chosen) => store.go({ labels: chosen, hit: null }, { key: "labels" }),
  (match) => store.go({ match, hit: null }),
);
const input = new QueryInput({ live: search, go: (patch, how) => store.go(patch, how) });
const modelView = new ModelView($("model-view"), {
  open: (point) => store.go({ ...NO_QUERY, tab: "search", item: point.id, of: point.modality, target: point.modality }),
});

/** Searches for items similar to a result. */
function moreLike(hit, of, target) {
  page.refocus = explain.node.contains(document.activeElement);
  store.go({ ...NO_QUERY, item: hit.id, of, target }, { extra: { name: nameOf(hit, page.wording), picture: hit.picture } });
  scrollTo({ top: 0 });
}

function closePanel() {
  const { hit } = store.state;
  store.go({ hit: null }, { replace: true });
  results.focus(hit);
}

/** The target modality: the selected one, else the first with pictures. */
function targetOf(state, model) {
  const known = model.modalities.find((modality) => modality.name === state.target);
  return known ?? model.modalities.find((modality) => modality.shows === "picture") ?? model.modalities[0];
}

/** Updates the page to the state. */
function render({ travelled }) {
  const { state } = store;
  const model = page.models.find((each) => each.name === state.model) ?? page.models.find((each) => each.name === page.byDefault) ?? page.models[0];
  if (!model) return;
  if (model !== page.model) {
    if (model.name !== page.model?.name) {
      page.sent = null;
      page.introduced = false;
      results.clear();
    }
    page.model = model;
    page.wording = new Wording(model.labels);
  }
  const onModel = state.tab === "model";
  $("search-view").hidden = onModel;
  $("model-view").hidden = !onModel;
  for (const link of document.querySelectorAll("[data-tab]")) {
    if (link.dataset.tab === state.tab) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  $("models").value = model.name;
  $("model-title").textContent = page.models.length > 1 ? "" : (model.title ?? model.name);
  if (onModel) {
    document.title = `${model.title ?? model.name} – crosshash`;
    modelView.show(model, page.wording);
    return;
  }
  modelView.stop();
  const target = targetOf(state, model);
  input.show(store, model, page.wording, travelled);
  controls(state, model, target);
  search();
  panel();
}

function controls(state, model, target) {
  const choices = model.modalities.map(({ name, items }) => ({ value: name, word: title(name), hint: `${number(items)} items` }));
  segments($("targets"), choices, target.name, (name) => store.go({ target: name, hit: null }));
  const ways = [
    { value: "both", word: "Both", hint: "Items that contain the words, and items with a similar meaning" },
    { value: "meaning", word: "Meaning", hint: "Items with a similar meaning" },
    { value: "words", word: "Words", hint: "Items that contain the words" },
  ];
  segments($("by"), ways, state.by ?? "both", (by) => store.go({ by: by === "both" ? null : by, hit: null }));
  $("k").value = state.k;
  $("k-out").textContent = state.k;
  const any = Math.floor(model.bits / 2) + 1;
  $("radius").max = any;
  $("radius").value = state.radius ?? any;
  $("radius-out").textContent = state.radius === null ? "any" : count(state.radius, "bit");
  labels.show(model.labels, page.wording, state.labels, state.match);
  $("tune-word").textContent = state.labels.length > 0 ? `Filters (${state.labels.length})` : "Filters";
  document.title = input.summary(state) ? `${input.summary(state)} – crosshash` : "crosshash";
}

/** Sends the query, unless it is the same as the last one. */
async function search({ again = false } = {}) {
  const { state } = store;
  const { model } = page;
  const target = targetOf(state, model);
  const live = input.live;
  const query = live ? live.query : queryOf(state, (kind) => input.reader(kind), target.name);
  document.body.classList.toggle("idle", query === null && !input.drawing);
  $("intro").hidden = query !== null || input.drawing;
  if (!query?.text) $("by-find").hidden = true;
  if (query === null) {
    page.under?.abort();
    page.sent = page.answer = null;
    results.clear();
    say(null);
    busy(false);
    $("status").textContent = "";
    $("more").hidden = true;
    $("code-card").hidden = true;
    if (!input.drawing && !page.introduced) introduce(target);
    else if (input.drawing) say("hint", "Start drawing; results appear as you draw.");
    return;
  }
  const request = {
    model: model.name,
    query,
    target: target.name,
    by: query.text && !target.store ? (state.by ?? undefined) : undefined,
    k: state.k,
    radius: query.text && state.by === "words" ? null : state.radius,
    filter: filterOf(state, model.labels.map((label) => label.name)),
    counts: !target.store && (state.labels.length > 0 || state.radius !== null) ? true : undefined,
    explain: true,
  };
  const sent = JSON.stringify([request, live?.file?.name, live?.serial]);
  if (sent === page.sent && !again) return;
  page.sent = sent;
  page.under?.abort();
  const under = (page.under = new AbortController());
  const slow = setTimeout(() => {
    busy(true);
    if (results.hits.length === 0) results.skeleton(target.shows, Math.min(state.k, 12));
  }, SLOW_MS);
  const began = performance.now();
  try {
    const answer = await api.search(request, live?.file, under.signal);
    page.answer = answer;
    say(null);
    online(true);
    showAnswer(answer, target, performance.now() - began);
    if (live) {
      const { code, outputs } = answer.query;
      const known = { ...NO_QUERY, code, outputs: outputs ? packOutputs(outputs) : null, from: live.kind };
      // From now on code and outputs are used: other targets and filters need no new upload.
      const kept = input.settle();
      page.sent = JSON.stringify([{ ...request, query: queryOf(known, (kind) => input.reader(kind)) }, undefined, undefined]);
      store.go(known, { key: live.kind === "drawing" ? "drawing" : null, extra: kept });
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    page.sent = null;
    results.clear();
    $("status").textContent = "";
    $("more").hidden = true;
    if (error.offline) online(false);
    else if (error instanceof api.ApiError) say("error", error.message, error.where);
    else {
      say("error", `Page error: ${error.message}`);
      throw error;
    }
  } finally {
    clearTimeout(slow);
    if (page.under === under) busy(false);
    if (live) input.ended();
  }
}

/** "12 items contain the word". */
function matching(items, { q, labels, radius }) {
  const words = /\s/.test(q.trim()) ? "all words" : "the word";
  const limits = labels.length > 0 || radius !== null ? " within the filters" : "";
  return `${number(items)} ${items === 1 ? "item contains" : "items contain"} ${words}${limits}`;
}

function showAnswer(answer, target, waited) {
  results.show(answer, target.shows, page.wording);
  const { hits } = answer;
  const { state } = store;
  const took = answer.timings_us?.total ?? waited * 1000;
  const hasWords = answer.matching !== null && answer.matching !== undefined;
  $("by-find").hidden = !(hasWords || (state.q && state.by));
  const shown = hits.length === 0 ? "No results" : `${number(hits.length)} of ${number(answer.counts?.items ?? answer.searched)} shown`;
  const found = [hasWords ? matching(answer.matching, state) : null, shown].filter(Boolean).join(" · ");
  $("status").replaceChildren(found, el("span", { class: "took", text: ` · ${duration(took)}` }));
  $("status").title = `Server: ${duration(took)}, including network: ${duration(waited * 1000)}`;
  $("more").hidden = hits.length < state.k || state.k >= 200 || hits.length >= answer.searched;
  if (answer.notice) say("notice", answer.notice.message, null, corrections(answer.query.words));
  else if (hits.length === 0) nothing(state);
  showCode(null);
  panel();
  if (answer.generation !== page.model.generation) refresh();
  if (page.refocus) results.focus(null);
  page.refocus = false;
}

/** Buttons that replace unknown words by known ones of similar spelling. */
function corrections(words) {
  const { q } = store.state;
  const replaced = (word, by) => q.replace(word, () => by);
  return (words?.unknown ?? []).flatMap(({ word, similar }) =>
    similar.map((by) => el("button", { type: "button", class: "plain-button", text: `Search for “${replaced(word, by)}”`, onclick: () => store.go({ ...NO_QUERY, q: replaced(word, by) }) })),
  );
}

/** Explains why there are no results and offers to relax the limits. */
function nothing(state) {
  const out = [];
  const way = (text, patch) => out.push(el("button", { type: "button", class: "plain-button", text, onclick: () => store.go(patch) }));
  if (state.radius !== null) way("Any radius", { radius: null });
  if (state.labels.length > 0) way("All labels", { labels: [] });
  const why = state.labels.length > 0 ? (state.radius === null ? "No items with these labels" : "No results with these labels within this radius") : state.radius === null ? "This modality has no items" : "No results within this radius";
  say("empty", why, null, out);
}

/** The code of the query; with a result, the bits that differ. */
function showCode(hit) {
  const { answer } = page;
  $("code-card").hidden = !answer?.query.code;
  if (!answer?.query.code) return;
  const { query } = answer;
  const differing = codeGrid.show(query.code, query.bits, hit?.code ?? null);
  $("code-note").textContent = hit ? (differing === 0 ? "all bits equal" : `${count(differing, "bit")} differ`) : `${query.bits} bits`;
  $("code-note").classList.toggle("accent", Boolean(hit));
  if ($("code-hex").dataset.code !== query.code) {
    $("code-hex").dataset.code = query.code;
    $("code-hex").textContent = query.code;
    $("code-hex").setAttribute("aria-label", `Copy the code ${query.code}`);
    const near = query.centres?.length > 0;
    $("centres").replaceChildren(...(near ? [el("h3", { text: "Nearest centres" }), centresList(query.centres, query.bits, page.wording, { most: 3, brief: true })] : []));
  }
}

/** The explanation panel, open for the result named in the URL. */
function panel() {
  const hit = page.answer?.hits.find((each) => each.id === store.state.hit);
  results.select(hit?.id ?? null);
  if (!hit) {
    if (explain.open) explain.hide();
    page.explained = null;
  } else if (page.explained !== hit) {
    page.explained = hit;
    explain.show(hit, page.answer, page.model, page.wording);
  }
}

function introduce(target) {
  page.introduced = true;
  intro(page.model, page.wording, target.name, {
    type: (text, modality) => {
      $("q").focus();
      store.go({ ...NO_QUERY, q: text, as: input.reader("text") === modality ? store.state.as : modality });
    },
    draw: () => input.open(),
    choose: () => $("file").click(),
    more: (hit, of) => moreLike(hit, of, of),
  }).catch((error) => {
    if (error.offline) online(false);
  });
}

/** A message instead of results: an error, no results, a hint. */
function say(kind, text = "", where = null, ways = []) {
  const node = $("message");
  node.hidden = kind === null;
  node.className = `message ${kind ?? ""}`;
  if (kind === "error") node.setAttribute("role", "alert");
  else node.removeAttribute("role");
  const retry = kind === "error" ? [el("button", { type: "button", class: "plain-button", text: "Try again", onclick: () => search({ again: true }) })] : [];
  node.replaceChildren(el("p", { text }), where ? el("p", { class: "note", text: `Field: ${where}` }) : "", el("p", { class: "buttons" }, ways, retry));
}

function busy(is) {
  $("results").setAttribute("aria-busy", String(is));
  document.body.classList.toggle("busy", is);
}

let retrying = 0;
/** Shows that the server is unreachable and retries until it responds. */
function online(is) {
  $("offline").hidden = is;
  if (is || retrying) return;
  $("offline").textContent = "The server is not responding. Retrying…";
  const retry = async () => {
    if (!(await api.alive())) {
      retrying = setTimeout(retry, RETRY_MS);
      return;
    }
    retrying = 0;
    $("offline").hidden = true;
    if (page.model) search({ again: true });
    else start();
  };
  retrying = setTimeout(retry, RETRY_MS);
}

function wire() {
  $("k").addEventListener("input", () => store.go({ k: Number($("k").value) }, { key: "k" }));
  $("radius").addEventListener("input", () => {
    const value = Number($("radius").value);
    store.go({ radius: value >= Number($("radius").max) ? null : value, hit: null }, { key: "radius" });
  });
  $("more").addEventListener("click", () => store.go({ k: Math.min(200, store.state.k + 24) }));
  $("share").addEventListener("click", () => copy(location.href, "Link copied"));
  $("code-hex").addEventListener("click", () => copy($("code-hex").dataset.code, "Code copied"));
  $("models").addEventListener("change", () =>
    store.go({ ...NO_QUERY, q: store.state.q, model: $("models").value, labels: [], target: null, as: null }, { extra: {} }),
  );
  $("home").addEventListener("click", (event) => {
    event.preventDefault();
    input.close();
    store.go({ ...NO_QUERY, tab: "search", labels: [], radius: null, target: null }, { extra: {} });
    $("q").focus();
  });
  for (const link of document.querySelectorAll("[data-tab]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      store.go({ tab: link.dataset.tab });
    });
  }
  $("tune").addEventListener("click", () => {
    const open = document.body.classList.toggle("tuning");
    $("tune").setAttribute("aria-expanded", String(open));
  });
  const { dataset } = document.documentElement;
  $("theme").setAttribute("aria-pressed", String(dataset.theme === "dark"));
  $("theme").addEventListener("click", () => {
    const next = dataset.theme === "dark" ? "light" : "dark";
    dataset.theme = next;
    $("theme").setAttribute("aria-pressed", String(next === "dark"));
    try {
      localStorage.setItem("crosshash-theme", next);
    } catch {
      // The choice then lasts until the next reload.
    }
    modelView.repaint();
  });
  addEventListener("keydown", keys);
  // Icons are centred in their tile; photos, which are rarely square, fill it.
  const isPhoto = ({ target }) => target.matches?.(".tile img") && target.classList.toggle("photo", target.naturalWidth !== target.naturalHeight);
  document.addEventListener("load", isPhoto, true);
  addEventListener("offline", () => online(false));
}

function keys(event) {
  if ($("token").open || event.defaultPrevented) return;
  const typing = event.target.matches?.("input, select, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    if (store.state.tab === "model") store.go({ tab: "search" });
    $("q").focus();
    $("q").select();
  } else if (event.key === "Escape") {
    if (explain.open) closePanel();
    else if (input.drawing) input.close();
    else if (event.target === $("q") || !typing) {
      if (input.summary(store.state)) store.go(NO_QUERY, { extra: {} });
      $("q").focus();
    } else $("q").focus();
  } else if (event.key === "ArrowDown" && event.target === $("q") && results.buttons.length > 0) {
    event.preventDefault();
    results.focus(null);
  } else if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && input.drawing && !typing) {
    event.preventDefault();
    if (event.shiftKey) input.pad.redo();
    else input.pad.undo();
  }
}

/** The server has reloaded a run: labels and counts may have changed. */
async function refresh() {
  try {
    page.models = (await api.models()).models;
    render({ travelled: false });
  } catch {
    // The next response retries.
  }
}

async function start() {
  try {
    const { models, default: byDefault } = await api.models();
    page.models = models;
    page.byDefault = byDefault;
    online(true);
    $("models-label").hidden = models.length < 2;
    $("models").replaceChildren(...models.map((model) => el("option", { value: model.name, text: model.title ?? model.name })));
    if (models.length === 0) say("empty", "This server has no models.");
    render({ travelled: true });
    document.body.classList.add("ready");
  } catch (error) {
    if (error.offline) online(false);
    else say("error", error.message, error.where);
  }
}

wire();
start();
