// The drawing pad: strokes by mouse, touch or pen, undo and redo, and a callback for changes.

/** Side of the drawing area in the units of the strokes, independent of its size on the screen. */
export const SIDE = 320;
const NEAREST = 1.5;
/** Cosine of the smallest angle that is drawn as a corner. */
const CORNER = 0.5;
/** The limit of the server. */
const MOST_POINTS = 20000;

export class Pad {
  /** `changed(strokes)` is called while drawing and after every undo, redo and clear. */
  constructor(canvas, hint, changed) {
    this.canvas = canvas;
    this.hint = hint;
    this.changed = changed;
    this.strokes = [];
    this.undone = [];
    this.cleared = null;
    this.pen = null;
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event));
    canvas.addEventListener("pointercancel", (event) => this.#up(event));
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    new ResizeObserver(() => this.paint()).observe(canvas);
  }

  get empty() {
    return this.strokes.length === 0;
  }
  get canUndo() {
    return !this.empty || this.cleared !== null;
  }
  get canRedo() {
    return this.undone.length > 0;
  }

  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    const inside = (value) => Math.min(SIDE, Math.max(0, Math.round(value * 10) / 10));
    return [inside(((event.clientX - box.left) / box.width) * SIDE), inside(((event.clientY - box.top) / box.height) * SIDE)];
  }

  #down(event) {
    if (event.button !== 0 || this.pen !== null) return;
    event.preventDefault();
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    this.pen = event.pointerId;
    this.undone = [];
    this.cleared = null;
    this.strokes.push([this.#at(event)]);
    this.paint();
  }

  #move(event) {
    if (event.pointerId !== this.pen) return;
    const stroke = this.strokes.at(-1);
    const before = stroke.length;
    const others = this.strokes.reduce((sum, each) => sum + each.length, -before);
    // A fast pen creates several points between two frames.
    const events = event.getCoalescedEvents?.() ?? [];
    for (const each of events.length > 0 ? events : [event]) {
      const [x, y] = this.#at(each);
      const [px, py] = stroke.at(-1);
      if (Math.hypot(x - px, y - py) >= NEAREST && others + stroke.length < MOST_POINTS) stroke.push([x, y]);
    }
    if (stroke.length === before) return;
    this.paint();
    this.changed(this.strokes);
  }

  #up(event) {
    if (event.pointerId !== this.pen) return;
    this.pen = null;
    this.changed(this.strokes);
  }

  undo() {
    if (this.cleared) {
      this.strokes = this.cleared;
      this.cleared = null;
    } else if (!this.empty) this.undone.push(this.strokes.pop());
    else return;
    this.#redrawn();
  }

  redo() {
    if (!this.canRedo) return;
    this.strokes.push(this.undone.pop());
    this.#redrawn();
  }

  clear() {
    if (this.empty) return;
    this.cleared = this.strokes;
    this.strokes = [];
    this.undone = [];
    this.#redrawn();
  }

  /** Sets the strokes (from the history) without the callback. */
  set(strokes) {
    this.strokes = strokes.map((stroke) => stroke.map((point) => [...point]));
    this.undone = [];
    this.cleared = null;
    this.paint();
  }

  #redrawn() {
    this.paint();
    this.changed(this.strokes);
  }

  paint() {
    const { canvas } = this;
    const side = canvas.clientWidth;
    this.hint.hidden = !this.empty;
    const drawn = this.empty ? "empty" : `${this.strokes.length} stroke${this.strokes.length === 1 ? "" : "s"}`;
    canvas.setAttribute("aria-label", `Drawing area, ${drawn}`);
    if (side === 0) return;
    const dots = Math.round(side * devicePixelRatio);
    if (canvas.width !== dots) canvas.width = canvas.height = dots;
    const pen = canvas.getContext("2d");
    pen.setTransform(dots / SIDE, 0, 0, dots / SIDE, 0, 0);
    pen.clearRect(0, 0, SIDE, SIDE);
    paintStrokes(pen, this.strokes, 7);
  }

  /** The drawing for the API. */
  query() {
    return { strokes: this.strokes, width: SIDE, height: SIDE };
  }
}

/** Draws strokes as smooth lines: curves through the midpoints of the segments. */
export function paintStrokes(pen, strokes, width) {
  pen.lineWidth = width;
  pen.lineCap = pen.lineJoin = "round";
  pen.strokeStyle = pen.fillStyle = "#14161a";
  for (const stroke of strokes) {
    const [[x, y]] = stroke;
    pen.beginPath();
    if (stroke.length === 1) {
      pen.arc(x, y, width / 2, 0, 2 * Math.PI);
      pen.fill();
      continue;
    }
    pen.moveTo(x, y);
    for (let at = 1; at < stroke.length - 1; at++) {
      const [ax, ay] = stroke[at];
      const [bx, by] = stroke[at + 1];
      const [px, py] = stroke[at - 1];
      const along = (ax - px) * (bx - ax) + (ay - py) * (by - ay);
      // Keep sharp turns as corners.
      if (along < CORNER * Math.hypot(ax - px, ay - py) * Math.hypot(bx - ax, by - ay)) pen.lineTo(ax, ay);
      else pen.quadraticCurveTo(ax, ay, (ax + bx) / 2, (ay + by) / 2);
    }
    pen.lineTo(...stroke.at(-1));
    pen.stroke();
  }
}
