// Query input: text, a dropped, pasted or chosen picture, and the drawing pad.
//
// A picture or drawing without a response yet is `live`; afterwards its code is used, and the URL can be shared.
import { item, picturePath, show } from "./api.js";
import { $, debounce, el, icon, title } from "./dom.js";
import { Pad } from "./draw.js";
import { nameOf } from "./results.js";
import { NO_QUERY } from "./state.js";

const TYPING_MS = 110;
const DRAWING_MS = 140;
const LARGE = 3 << 20;
const LARGE_SIDE = 1600;
const THUMB = 96;

/** Scales a picture down to a side; null if the browser cannot decode it (the server may, or reports why not). */
async function shrink(file, side, type) {
  try {
    const bitmap = await createImageBitmap(file);
    const scale = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
    const canvas = el("canvas", { width: Math.max(1, Math.round(bitmap.width * scale)), height: Math.max(1, Math.round(bitmap.height * scale)) });
    canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    bitmap.close();
    return await new Promise((done) => canvas.toBlob(done, type, 0.9));
  } catch {
    return null;
  }
}

const dataUrl = (blob) =>
  new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => done(null);
    reader.readAsDataURL(blob);
  });

export class QueryInput {
  /** `on.live()` when there is a picture or drawing to send, `on.go(patch, how)` to change the state. */
  constructor(on) {
    this.on = on;
    this.live = null;
    this.serial = 0;
    this.drawing = false;
    this.model = null;
    this.pad = new Pad($("canvas"), $("paper-hint"), () => this.#drawn());
    this.drawingTimer = 0;
    this.sendTyped = debounce(() => this.#sendTyped(), TYPING_MS);
    this.#wireTyping();
    this.#wirePicture();
    this.#wirePad();
  }

  /** The modality that encodes a kind of query: the selected one if possible, else the one whose main kind it is. */
  reader(kind) {
    const able = this.model.modalities.filter((modality) => modality.asks.includes(kind));
    return (able.find((modality) => modality.name === this.as) ?? able.find((modality) => modality.asks[0] === kind) ?? able[0])?.name;
  }

  /** Updates the input field, the chip and the pad to the state. */
  show(store, model, wording, travelled) {
    const { state, extra } = store;
    this.model = model;
    this.as = state.as;
    if (travelled) {
      this.live = null;
      this.sendTyped.stop();
      this.#stopDrawing();
    }
    const reads = (kind) => model.modalities.some((modality) => modality.asks.includes(kind));
    $("draw").hidden = !reads("drawing");
    $("choose").hidden = !reads("picture");
    $("q").placeholder = reads("text") ? "Type a few words" : "item:ID or code:HEX";
    if (document.activeElement !== $("q") || travelled || state.q.trim() !== $("q").value.trim()) {
      if ($("q").value !== state.q) $("q").value = state.q;
    }
    const drawn = state.from === "drawing" && Array.isArray(extra.strokes);
    if (drawn && (travelled || !this.drawing)) {
      this.pad.set(extra.strokes);
      this.#pad(true);
    } else if (!drawn && !this.live && (travelled || state.q || state.item || state.code)) {
      this.pad.set([]);
      this.#pad(false);
    }
    this.#tools();
    this.#chip(store, model, wording);
    this.#reads(state, model);
  }

  /** The query in a few words; empty without a query. */
  summary(state) {
    if (state.code) return state.from ? `A ${state.from}` : "A code";
    if (state.item) return `Like ${this.chipName ?? state.item}`;
    return state.q.trim();
  }

  /** Called after the response to a live query: the data to keep in the history. */
  settle() {
    const kept = this.live?.kept ?? {};
    this.live = null;
    return kept;
  }

  #chip(store, model, wording) {
    const { state, extra } = store;
    const node = $("asked");
    // The pad shows the drawing itself, and the layout must not move while drawing.
    const shown = !this.drawing && Boolean(state.code || state.item || this.live?.kind === "picture");
    node.hidden = !shown;
    this.chipName = null;
    if (!shown) return;
    const kind = this.live?.kind ?? state.from;
    let image = null;
    let words = "";
    if (this.live || state.code) {
      const thumb = this.live?.kept?.thumb ?? extra.thumb;
      if (thumb && kind === "picture") image = el("img", { src: thumb, alt: "Query picture" });
      words = kind === "drawing" ? "Your drawing" : kind === "picture" ? "Your picture" : "A code";
      if (!this.live && ((kind === "drawing" && !extra.strokes) || (kind === "picture" && !extra.thumb))) words = `A ${kind} (by code)`;
    } else {
      const name = extra.name ?? state.item;
      if (!extra.name) this.#learnName(store, model, wording);
      this.chipName = name;
      words = `Like ${name}`;
      const modality = model.modalities.find((each) => each.name === state.of);
      if (extra.picture || modality?.shows === "picture") {
        image = el("img", { alt: "" });
        show(image, extra.picture ?? picturePath(model.name, state.of, state.item), 96);
      }
    }
    node.replaceChildren(
      ...[
        image ?? icon(kind === "drawing" ? "draw" : kind === "picture" ? "picture" : "similar"),
        el("span", { class: "asked-name", text: words, title: state.item ? `${title(state.of ?? "")} ${state.item}` : (state.code ?? "") }),
        el("button", { type: "button", class: "icon-button", "aria-label": "Remove the query", title: "Remove the query", onclick: () => this.#forget() }, icon("close")),
      ],
    );
  }

  /** A shared link contains only the id of the item; its name comes from the server. */
  async #learnName(store, model, wording) {
    const { item: id, of } = store.state;
    try {
      const found = await item(model.name, of, id);
      if (store.state.item === id) store.go({}, { replace: true, extra: { name: nameOf(found, wording), picture: found.picture } });
    } catch {
      // The id is shown instead; a missing item is reported by the search.
    }
  }

  #forget() {
    this.close();
    this.live = null;
    this.on.go(NO_QUERY, { extra: {} });
    $("q").focus();
  }

  /** Selects the modality of the query when several accept it. */
  #reads(state, model) {
    const kind = this.live?.kind ?? state.from ?? (state.q ? "text" : null);
    const able = kind ? model.modalities.filter((modality) => modality.asks.includes(kind)) : [];
    const usable = able.length > 1 && (kind === "text" || this.source);
    $("reads-label").hidden = !usable;
    if (!usable) return;
    $("reads").replaceChildren(...able.map(({ name }) => el("option", { value: name, text: title(name) })));
    $("reads").value = this.reader(kind);
  }

  #wireTyping() {
    $("q").addEventListener("input", () => this.sendTyped());
    $("ask").addEventListener("submit", (event) => {
      event.preventDefault();
      this.sendTyped.now();
    });
    $("reads").addEventListener("change", () => {
      const as = $("reads").value;
      this.on.go({ as });
      if (this.source) this.#sendPicture(this.source);
    });
  }

  #sendTyped() {
    this.live = null;
    this.source = null;
    this.on.go({ ...NO_QUERY, q: $("q").value }, { key: "typing", extra: {} });
  }

  #wirePicture() {
    $("choose").addEventListener("click", () => $("file").click());
    $("file").addEventListener("change", () => {
      const [file] = $("file").files;
      if (file) this.picture(file);
      $("file").value = "";
    });
    addEventListener("paste", (event) => {
      const file = [...(event.clipboardData?.files ?? [])].find((each) => each.type.startsWith("image/"));
      if (!file) return;
      event.preventDefault();
      this.picture(file);
    });
    const carries = (event) => event.dataTransfer?.types.includes("Files");
    let depth = 0;
    const over = (by) => {
      depth = Math.max(0, depth + by);
      $("drop").hidden = depth === 0;
    };
    addEventListener("dragenter", (event) => carries(event) && over(1));
    addEventListener("dragleave", (event) => carries(event) && over(-1));
    addEventListener("dragover", (event) => carries(event) && event.preventDefault());
    addEventListener("drop", (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      over(-depth);
      const [file] = event.dataTransfer.files;
      if (file) this.picture(file);
    });
  }

  /** Searches with a picture. */
  async picture(file) {
    if (!this.model || $("choose").hidden) return;
    const small = file.size > LARGE ? await shrink(file, LARGE_SIDE, "image/jpeg") : null;
    const thumb = await shrink(file, THUMB, "image/png");
    this.source = { file: small ?? file, thumb: thumb ? await dataUrl(thumb) : null };
    this.#pad(false);
    this.pad.set([]);
    $("q").value = "";
    this.#sendPicture(this.source);
  }

  #sendPicture({ file, thumb }) {
    this.serial += 1;
    const modality = this.reader("picture");
    this.live = { kind: "picture", serial: this.serial, query: { modality }, file, kept: { thumb } };
    this.on.live();
  }

  #wirePad() {
    $("draw").addEventListener("click", () => (this.drawing ? this.close() : this.open()));
    $("pad-close").addEventListener("click", () => this.close());
    $("undo").addEventListener("click", () => this.pad.undo());
    $("redo").addEventListener("click", () => this.pad.redo());
    $("wipe").addEventListener("click", () => this.pad.clear());
  }

  #tools() {
    $("undo").disabled = !this.pad.canUndo;
    $("redo").disabled = !this.pad.canRedo;
    $("wipe").disabled = this.pad.empty;
  }

  #pad(open) {
    this.drawing = open;
    $("pad").hidden = !open;
    $("draw").setAttribute("aria-expanded", String(open));
    document.body.classList.toggle("drawing", open);
    if (open) this.pad.paint();
  }

  /** Opens an empty pad. */
  open() {
    if (!this.model) return;
    this.source = null;
    this.pad.set([]);
    $("q").value = "";
    this.#pad(true);
    this.on.go(NO_QUERY, { extra: {} });
    $("canvas").focus({ preventScroll: true });
  }

  close() {
    if (!this.drawing) return;
    this.#stopDrawing();
    this.#pad(false);
    if (this.live?.kind === "drawing" || !this.pad.empty) {
      this.live = null;
      this.pad.set([]);
    }
    this.on.go(NO_QUERY, { extra: {} });
    $("draw").focus();
  }

  /** While drawing, the drawing is sent repeatedly, but only after the response to the previous request, so that a
   *  slow server is not overloaded. */
  #drawn() {
    this.#tools();
    if (this.drawingTimer !== 0) return;
    this.drawingTimer = setTimeout(() => {
      this.drawingTimer = 0;
      if (this.under) this.again = true;
      else this.#sendDrawing();
    }, DRAWING_MS);
  }

  #stopDrawing() {
    clearTimeout(this.drawingTimer);
    this.drawingTimer = 0;
    this.again = false;
  }

  /** The request for a live query has ended, successfully or not. */
  ended() {
    this.under = false;
    if (this.again) this.#sendDrawing();
    this.again = false;
  }

  #sendDrawing() {
    if (this.pad.empty) {
      this.live = null;
      this.on.go(NO_QUERY, { key: "drawing", extra: {} });
      return;
    }
    this.serial += 1;
    this.under = true;
    const drawing = structuredClone(this.pad.query());
    this.live = { kind: "drawing", serial: this.serial, query: { drawing, modality: this.reader("drawing") }, file: null, kept: { strokes: drawing.strokes } };
    this.on.live();
  }
}
