// The map of the outputs: items of all modalities as points on a canvas, with hover, zoom, pan and arrow keys.
// A click on a point searches with its item.
import * as api from "./api.js";
import { debounce, el, number, title } from "./dom.js";
import { placeNames, spread } from "./map-layout.js";
import { nameOf } from "./results.js";

const REACH = 14;
const MARGIN = 32;
const HOVER_MS = 60;
/** Radius of a centre. */
const MARK = 5;
/** The modality name of centres in the API. */
const CENTRE = "centre";

export class EmbeddingMap {
  /** `open(point)` is called when a point is clicked. */
  constructor(model, points, wording, open) {
    this.model = model;
    // Centres are not items; they are drawn as landmarks with their names.
    this.points = points.filter((point) => point.modality !== CENTRE);
    this.centres = points.filter((point) => point.modality === CENTRE);
    this.wording = wording;
    this.open = open;
    this.hidden = new Set();
    this.sought = "";
    this.zoom = { scale: 1, x: 0, y: 0 };
    this.at = null;
    this.canvas = el("canvas", {
      class: "map-canvas",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "map",
      "aria-label": `Map of ${number(this.points.length)} items. Arrow keys move between items, Enter searches for similar items.`,
    });
    this.tip = el("div", { class: "map-tip", hidden: true, role: "status" });
    this.frame = el("div", { class: "map-frame" }, this.canvas, this.tip);
    this.node = el("div", { class: "map" }, this.#tools(), this.frame);
    this.describe = debounce((point) => this.#describe(point), HOVER_MS);
    this.#measure();
    this.#wire();
    this.watcher = new ResizeObserver(() => this.paint());
    this.watcher.observe(this.frame);
  }

  stop() {
    this.watcher.disconnect();
    this.describe.stop();
  }

  #tools() {
    const colours = this.model.modalities.map((modality, at) => [modality.name, at]);
    this.colour = new Map(colours);
    const entries = this.centres.length > 0 ? [...colours, [CENTRE, CENTRE]] : colours;
    const legend = entries.map(([name, at]) => {
      const colour = at === CENTRE ? "landmark" : `colour-${at % 6}`;
      const button = el("button", { type: "button", class: `legend-entry ${colour}`, "aria-pressed": "true", title: "Show or hide" }, el("i", { class: "swatch dot-swatch", "aria-hidden": "true" }), title(name));
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        if (on) this.hidden.delete(name);
        else this.hidden.add(name);
        this.#at(null);
        this.paint();
      });
      return button;
    });
    const names = [...new Set(this.points.map((point) => point.label).filter(Boolean))].sort();
    const pick = el("select", { "aria-label": "Show one label" }, el("option", { value: "", text: "All labels" }), names.map((name) => el("option", { value: name, text: this.wording.split(name)[1] })));
    pick.addEventListener("change", () => {
      this.sought = pick.value;
      this.paint();
    });
    const reset = el("button", { type: "button", class: "plain-button", text: "Reset zoom", onclick: () => this.#zoomTo({ scale: 1, x: 0, y: 0 }) });
    return el("div", { class: "map-tools" }, el("div", { class: "legend" }, legend), names.length > 1 ? pick : null, reset);
  }

  #measure() {
    const of = (axis) => [...this.points, ...this.centres].map((point) => point[axis]);
    // reduce: a million numbers cannot be spread into arguments
    const low = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
    const high = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
    const [xs, ys] = [of("x"), of("y")];
    this.box = { x: low(xs), y: low(ys), wide: high(xs) - low(xs) || 1, high: high(ys) - low(ys) || 1 };
  }

  /** The position of a point on the canvas. */
  #place(point) {
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    const [x, y] = this.#spread().get(point);
    return [(x - wide / 2) * this.zoom.scale + wide / 2 + this.zoom.x, (y - high / 2) * this.zoom.scale + high / 2 + this.zoom.y];
  }

  get #radius() {
    return this.points.length > 20000 ? 1.2 : this.points.length > 4000 ? 2 : this.canvas.clientWidth < 600 ? 2.4 : 3;
  }

  /** Positions without zoom: points that would cover each other or a centre are moved apart. */
  #spread() {
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    const size = `${wide} ${high}`;
    if (this.spreadFor === size) return this.places;
    this.spreadFor = size;
    const scale = Math.min((wide - 2 * MARGIN) / this.box.wide, (high - 2 * MARGIN) / this.box.high);
    const middle = ({ x, y }) => [wide / 2 + (x - this.box.x - this.box.wide / 2) * scale, high / 2 - (y - this.box.y - this.box.high / 2) * scale];
    const places = this.points.map(middle);
    const centres = this.centres.map(middle);
    // Centres of labels with common items may lie in the same place.
    spread(centres, MARK + 2, []);
    if (this.points.length <= 20000) spread(places, this.#radius, centres.map(([x, y]) => ({ x, y, radius: MARK })));
    this.places = new Map([...this.points.map((point, at) => [point, places[at]]), ...this.centres.map((centre, at) => [centre, centres[at]])]);
    return this.places;
  }

  #shown(point) {
    return !this.hidden.has(point.modality) && (this.sought === "" || point.label === this.sought);
  }

  paint() {
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    if (wide === 0) return;
    const ratio = devicePixelRatio;
    this.canvas.width = Math.round(wide * ratio);
    this.canvas.height = Math.round(high * ratio);
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const look = getComputedStyle(this.node);
    const colours = this.model.modalities.map((_, at) => look.getPropertyValue(`--series-${at % 6}`).trim());
    const faint = look.getPropertyValue("--line").trim();
    const radius = Math.min(5, this.#radius * Math.sqrt(this.zoom.scale));
    const dots = (points, colour) => {
      pen.fillStyle = colour;
      pen.beginPath();
      for (const point of points) {
        const [x, y] = this.#place(point);
        if (x < -5 || y < -5 || x > wide + 5 || y > high + 5) continue;
        pen.moveTo(x + radius, y);
        pen.arc(x, y, radius, 0, 2 * Math.PI);
      }
      pen.fill();
    };
    if (this.sought) dots(this.points.filter((point) => !this.hidden.has(point.modality) && !this.#shown(point)), faint);
    pen.globalAlpha = 0.75;
    for (const [name, at] of this.colour) dots(this.points.filter((point) => point.modality === name && this.#shown(point)), colours[at]);
    pen.globalAlpha = 1;
    if (!this.hidden.has(CENTRE)) this.#landmarks(pen, look);
    if (this.at) {
      const [x, y] = this.#place(this.at);
      pen.strokeStyle = look.getPropertyValue("--ink").trim();
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(x, y, radius + 4, 0, 2 * Math.PI);
      pen.stroke();
    }
  }

  /** Centres and their names. A line connects a name with its centre if they are not side by side. */
  #landmarks(pen, look) {
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    const ground = look.getPropertyValue("--ground").trim();
    const ink = look.getPropertyValue("--ink").trim();
    pen.font = "600 12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    const marks = this.centres
      .filter((centre) => this.sought === "" || centre.label === this.sought)
      .map((centre) => {
        const [x, y] = this.#place(centre);
        const name = this.wording.split(centre.label ?? centre.id)[1];
        return { x, y, name, width: pen.measureText(name).width };
      })
      .filter(({ x, y }) => x > -MARK && y > -MARK && x < wide + MARK && y < high + MARK);
    const names = placeNames(marks, wide, high, MARK + 1);
    this.named = marks.map(({ name, width }, at) => ({ name, ...names[at], right: names[at].left + width }));
    names.forEach(({ left, line, far }, at) => {
      if (!far) return;
      const { x, y, width } = marks[at];
      pen.strokeStyle = ink;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(Math.min(Math.max(x, left), left + width), line);
      pen.stroke();
    });
    for (const { x, y } of marks) {
      pen.strokeStyle = ground;
      pen.fillStyle = ink;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(x, y, MARK, 0, 2 * Math.PI);
      pen.fill();
      pen.stroke();
    }
    marks.forEach(({ name }, at) => {
      const { left, line } = names[at];
      pen.strokeStyle = ground;
      pen.fillStyle = ink;
      pen.lineWidth = 4;
      pen.strokeText(name, left, line);
      pen.fillText(name, left, line);
    });
  }

  #nearest(x, y, reach, allowed = () => true) {
    let best = null;
    let least = reach;
    for (const point of this.points) {
      if (!this.#shown(point)) continue;
      const [px, py] = this.#place(point);
      const away = Math.hypot(px - x, py - y);
      if (away < least && allowed(px - x, py - y, point)) [best, least] = [point, away];
    }
    return best;
  }

  #at(point) {
    if (point === this.at) return;
    this.at = point;
    this.paint();
    this.canvas.classList.toggle("over", point !== null);
    if (point) this.describe(point);
    else {
      this.describe.stop();
      this.tip.hidden = true;
    }
  }

  async #describe(point) {
    const modality = this.model.modalities.find((each) => each.name === point.modality);
    const text = el("p", { text: point.id });
    const image = modality?.shows === "picture" ? el("img", { alt: "", class: "map-tip-picture" }) : null;
    if (image) api.show(image, api.picturePath(this.model.name, point.modality, point.id), 128);
    const label = point.label ? el("p", { class: "note" }, this.wording.nodes(point.label)) : null;
    this.tip.replaceChildren(...[image ? el("div", { class: "tile" }, image) : null, text, label, el("p", { class: "note", text: title(point.modality) })].filter(Boolean));
    this.tip.hidden = false;
    this.#placeTip(point);
    try {
      const item = await api.item(this.model.name, point.modality, point.id);
      if (this.at === point && item.text) text.textContent = nameOf(item, this.wording);
    } catch {
      // Keep the id.
    }
    if (this.at === point) this.#placeTip(point);
  }

  #placeTip(point) {
    const [x, y] = this.#place(point);
    const { clientWidth: wide, clientHeight: high } = this.frame;
    const right = x + 16 + this.tip.offsetWidth < wide;
    this.tip.style.left = `${Math.max(4, right ? x + 16 : x - 16 - this.tip.offsetWidth)}px`;
    this.tip.style.top = `${Math.max(4, Math.min(high - this.tip.offsetHeight - 4, y - 24))}px`;
  }

  #zoomTo(zoom) {
    this.zoom = zoom;
    if (this.at) this.#placeTip(this.at);
    this.paint();
  }

  #wire() {
    const { canvas } = this;
    const where = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      drag = { from: where(event), zoom: { ...this.zoom }, far: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = where(event);
      if (drag && event.buttons) {
        const [dx, dy] = [x - drag.from[0], y - drag.from[1]];
        drag.far ||= Math.hypot(dx, dy) > 4;
        if (drag.far && (event.pointerType === "mouse" || this.zoom.scale > 1)) {
          canvas.setPointerCapture(event.pointerId);
          this.#zoomTo({ ...drag.zoom, x: drag.zoom.x + dx, y: drag.zoom.y + dy });
        }
        return;
      }
      this.#at(this.#nearest(x, y, REACH));
    });
    canvas.addEventListener("pointerleave", () => this.#at(null));
    canvas.addEventListener("click", (event) => {
      const dragged = drag?.far;
      drag = null;
      if (dragged) return;
      const point = this.#nearest(...where(event), REACH);
      if (point) this.open(point);
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        // The page must stay scrollable over the map: only Ctrl + wheel or a pinch zooms.
        if (!event.ctrlKey && this.zoom.scale === 1 && document.activeElement !== canvas) return;
        event.preventDefault();
        const [x, y] = where(event);
        this.#magnify(Math.exp(-event.deltaY / 300), x, y);
      },
      { passive: false },
    );
    canvas.addEventListener("dblclick", (event) => this.#magnify(2, ...where(event)));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("blur", () => this.#at(null));
  }

  #magnify(times, x, y) {
    const scale = Math.min(40, Math.max(1, this.zoom.scale * times));
    if (scale === 1) return this.#zoomTo({ scale: 1, x: 0, y: 0 });
    const ratio = scale / this.zoom.scale;
    const [cx, cy] = [this.canvas.clientWidth / 2, this.canvas.clientHeight / 2];
    return this.#zoomTo({ scale, x: x - cx - (x - cx - this.zoom.x) * ratio, y: y - cy - (y - cy - this.zoom.y) * ratio });
  }

  #key(event) {
    const [cx, cy] = [this.canvas.clientWidth / 2, this.canvas.clientHeight / 2];
    const towards = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (towards) {
      event.preventDefault();
      const [x, y] = this.at ? this.#place(this.at) : [cx, cy];
      const [tx, ty] = towards;
      // within 45 degrees of the arrow, and not at the same position
      const ahead = (dx, dy, point) => point !== this.at && dx * tx + dy * ty > 2 && Math.abs(dx * ty + dy * tx) <= dx * tx + dy * ty;
      const next = this.at ? this.#nearest(x, y, Infinity, ahead) : this.#nearest(cx, cy, Infinity);
      if (next) this.#at(next);
    } else if (event.key === "Enter" && this.at) this.open(this.at);
    else if (event.key === "+" || event.key === "=") this.#magnify(1.5, cx, cy);
    else if (event.key === "-") this.#magnify(1 / 1.5, cx, cy);
    else if (event.key === "Escape" && this.at) {
      event.stopPropagation();
      this.#at(null);
    }
  }
}
