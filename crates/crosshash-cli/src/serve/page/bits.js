// Codes as bits: unpacking, comparison, and the grid that shows them.
import { count, svg } from "./dom.js";

/** The bits of a code in hex: bit b of byte j is bit 8j+b, as crosshash packs them. */
export function unpack(hex, bits) {
  const found = new Array(bits);
  for (let at = 0; at < bits; at++) {
    const byte = Number.parseInt(hex.slice(2 * (at >> 3), 2 * (at >> 3) + 2), 16) || 0;
    found[at] = (byte >> (at & 7)) & 1;
  }
  return found;
}

/** A random code, for sampling. */
export function randomCode(bits) {
  const bytes = crypto.getRandomValues(new Uint8Array(Math.ceil(bits / 8)));
  if (bits % 8) bytes[bytes.length - 1] &= (1 << bits % 8) - 1;
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

const columnsFor = (bits) => (bits <= 16 ? 4 : bits <= 64 ? 8 : bits <= 256 ? 16 : 32);
const CELL = 10;
const STEP = 12;

/** A grid of bits, e.g. 8 x 8. `show(code, bits, other)` highlights the bits that differ. */
export class BitGrid {
  constructor(parent) {
    this.parent = parent;
    this.bits = 0;
  }

  #build(bits) {
    const columns = columnsFor(bits);
    const rows = Math.ceil(bits / columns);
    this.cells = Array.from({ length: bits }, (_, at) =>
      svg("rect", { x: (at % columns) * STEP + 1, y: Math.floor(at / columns) * STEP + 1, width: CELL, height: CELL, rx: 2.5 }),
    );
    this.node = svg(
      "svg",
      { class: "bits", role: "img", viewBox: `0 0 ${columns * STEP} ${rows * STEP}`, data: { columns } },
      this.cells,
    );
    this.parent.replaceChildren(this.node);
    this.bits = bits;
  }

  show(code, bits, other = null) {
    if (bits !== this.bits) this.#build(bits);
    const mine = unpack(code, bits);
    const theirs = other ? unpack(other, bits) : mine;
    let differing = 0;
    this.cells.forEach((cell, at) => {
      const differs = mine[at] !== theirs[at];
      if (differs) differing += 1;
      cell.setAttribute("class", `${mine[at] ? "on" : "off"}${differs ? " differs" : ""}`);
    });
    this.node.classList.toggle("comparing", other !== null);
    const set = mine.reduce((sum, bit) => sum + bit, 0);
    this.node.setAttribute(
      "aria-label",
      other ? `${count(differing, "bit")} of ${bits} differ` : `${bits}-bit code, ${set} bits set`,
    );
    return differing;
  }
}
