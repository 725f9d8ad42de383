// Line charts as SVG: axes with round ticks, a legend, and the values under the pointer.
import { el, svg } from "./dom.js";

const WIDE = 380;
const HIGH = 240;
const LEFT = 40;
const RIGHT = 16;
const TOP = 12;
const FOOT = 40;

/** Round numbers from low to high. */
function ticks(low, high, about) {
  const raw = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= raw);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push(at * step);
  return found;
}

/** A number with few digits. */
export const brief = (value) =>
  Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(Math.abs(value) >= 100 ? 4 : 3)));

/** A chart of `series`, each `{name, points: [[x, y], ..], colour: 0..5, dash: 0..3}`, with its legend. */
export function lineChart({ series, x, y, label, range = {} }) {
  const all = series.flatMap((each) => each.points);
  if (all.length === 0) return el("p", { class: "note", text: "No data." });
  const low = (at) => Math.min(...all.map((point) => point[at]));
  const high = (at) => Math.max(...all.map((point) => point[at]));
  const [x0, x1] = range.x ?? [low(0), high(0) > low(0) ? high(0) : low(0) + 1];
  const spread = high(1) - low(1) || 1;
  const [y0, y1] = range.y ?? [Math.min(0, low(1)) < 0 || low(1) > spread ? low(1) - spread * 0.05 : 0, high(1) + spread * 0.05];
  const px = (value) => LEFT + ((value - x0) / (x1 - x0)) * (WIDE - LEFT - RIGHT);
  const py = (value) => HIGH - FOOT - ((value - y0) / (y1 - y0)) * (HIGH - FOOT - TOP);

  const grid = ticks(y0, y1, 4).map((value) => [
    svg("line", { class: "grid-line", x1: LEFT, x2: WIDE - RIGHT, y1: py(value), y2: py(value) }),
    svg("text", { class: "tick", x: LEFT - 8, y: py(value) + 4, "text-anchor": "end", text: brief(value) }),
  ]);
  const below = ticks(x0, x1, 6).map((value) => svg("text", { class: "tick", x: px(value), y: HIGH - FOOT + 18, "text-anchor": "middle", text: brief(value) }));
  const lines = series.map((each) =>
    svg("path", { class: `line colour-${each.colour} dash-${each.dash ?? 0}`, d: each.points.map(([a, b], at) => `${at ? "L" : "M"}${px(a).toFixed(1)} ${py(b).toFixed(1)}`).join("") }),
  );
  const dots = series.map((each) => svg("circle", { class: `dot colour-${each.colour}`, r: 3.5, visibility: "hidden" }));
  const guide = svg("line", { class: "guide", y1: TOP, y2: HIGH - FOOT, visibility: "hidden" });
  const values = series.map(() => el("span", { class: "legend-value" }));
  const where = el("span", { class: "legend-where note" });
  const picture = svg(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": label },
    grid.flat(),
    below,
    svg("line", { class: "axis", x1: LEFT, x2: WIDE - RIGHT, y1: HIGH - FOOT, y2: HIGH - FOOT }),
    svg("text", { class: "tick", x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - 6, "text-anchor": "middle", text: x }),
    guide,
    lines,
    dots,
  );

  const point = (event) => {
    const box = picture.getBoundingClientRect();
    const sought = x0 + ((((event.clientX - box.left) / box.width) * WIDE - LEFT) / (WIDE - LEFT - RIGHT)) * (x1 - x0);
    let found = null;
    series.forEach((each, at) => {
      const nearest = each.points.reduce((best, candidate) => (Math.abs(candidate[0] - sought) < Math.abs(best[0] - sought) ? candidate : best), each.points[0]);
      if (!nearest) return;
      found ??= nearest[0];
      dots[at].setAttribute("cx", px(nearest[0]));
      dots[at].setAttribute("cy", py(nearest[1]));
      dots[at].setAttribute("visibility", "visible");
      values[at].textContent = brief(nearest[1]);
    });
    if (found === null) return;
    guide.setAttribute("x1", px(found));
    guide.setAttribute("x2", px(found));
    guide.setAttribute("visibility", "visible");
    where.textContent = `${x} ${brief(found)}`;
  };
  const leave = () => {
    [guide, ...dots].forEach((node) => node.setAttribute("visibility", "hidden"));
    values.forEach((node) => (node.textContent = ""));
    where.textContent = "";
  };
  picture.addEventListener("pointermove", point);
  picture.addEventListener("pointerleave", leave);

  const toggle = (each, at) => {
    const button = el("button", { type: "button", class: `legend-entry colour-${each.colour}`, "aria-pressed": "true", title: "Show or hide" }, svg("svg", { class: "swatch", viewBox: "0 0 24 4", "aria-hidden": "true" }, svg("line", { class: `line colour-${each.colour} dash-${each.dash ?? 0}`, x1: 0, x2: 24, y1: 2, y2: 2 })), each.name, values[at]);
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      lines[at].classList.toggle("off", !on);
      dots[at].classList.toggle("off", !on);
    });
    return button;
  };
  return el("figure", { class: "chart-figure" }, el("figcaption", { class: "axis-name note", text: y }), picture, el("div", { class: series.length > 4 ? "legend many" : "legend" }, series.length > 1 ? series.map(toggle) : values, where));
}
