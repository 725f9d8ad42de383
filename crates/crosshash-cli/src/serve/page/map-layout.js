// Positions on the map: points are moved apart so that none hides another, and names of centres are placed so that
// none is cut, covered or hidden.

const ROUNDS = 60;
const LINE = 15;
const GAP = 12;

/** Moves points apart that are closer than `2 * radius` on the screen, in place. `fixed` are places that keep points at
 *  a distance of their own `radius`. */
export function spread(places, radius, fixed) {
  const size = 2 * radius;
  const largest = fixed.reduce((most, other) => Math.max(most, radius + other.radius), size);
  for (let round = 0; round < ROUNDS; round++) {
    let moved = false;
    const cells = new Map();
    const key = (x, y) => `${Math.floor(x / size)} ${Math.floor(y / size)}`;
    places.forEach(([x, y], at) => {
      const cell = key(x, y);
      if (!cells.has(cell)) cells.set(cell, []);
      cells.get(cell).push(at);
    });
    const apart = (one, other) => {
      const [a, b] = [places[one], places[other]];
      let [dx, dy] = [b[0] - a[0], b[1] - a[1]];
      let away = Math.hypot(dx, dy);
      if (away >= size) return;
      // Points in the same place part in different directions.
      if (away < 1e-3) [dx, dy, away] = [Math.cos(2.4 * one + other), Math.sin(2.4 * one + other), 1];
      const step = Math.min(radius, (size - Math.min(away, size)) / 2 + 0.05) / away;
      a[0] -= dx * step;
      a[1] -= dy * step;
      b[0] += dx * step;
      b[1] += dy * step;
      moved = true;
    };
    places.forEach(([x, y], at) => {
      for (const [dx, dy] of [[0, 0], [size, 0], [0, size], [size, size], [-size, size]]) {
        for (const other of cells.get(key(x + dx, y + dy)) ?? []) if (other > at || dx !== 0 || dy !== 0) apart(at, other);
      }
    });
    for (const centre of fixed) {
      for (const place of places) {
        const [dx, dy] = [place[0] - centre.x, place[1] - centre.y];
        if (Math.abs(dx) > largest || Math.abs(dy) > largest) continue;
        const away = Math.hypot(dx, dy) || 1e-3;
        const wanted = radius + centre.radius;
        if (away >= wanted) continue;
        place[0] = centre.x + (dx / away) * wanted;
        place[1] = centre.y + (dy / away) * wanted;
        moved = true;
      }
    }
    if (!moved) return;
  }
}

/** Places names beside their marks `{x, y, width}`: inside the frame, over no other name and no other mark. Returns
 *  the left end and the middle line of each. */
export function placeNames(marks, wide, high, reach) {
  const boxes = marks.map(({ x, y }) => ({ left: x - reach, right: x + reach, top: y - reach, bottom: y + reach }));
  return marks.map((mark, own) => {
    const { x, y, width } = mark;
    const beside = reach + 4;
    const tries = [];
    for (let step = 0; step < 40; step++) {
      for (const way of step === 0 ? [0] : [1, -1]) {
        const line = y + way * step * LINE;
        tries.push([x + beside, line], [x - beside - width, line]);
        if (step > 0) tries.push([x - width / 2, line + way * 3]);
      }
    }
    const inside = ([left, line]) => [Math.min(Math.max(4, left), Math.max(4, wide - width - 4)), Math.min(Math.max(LINE / 2 + 2, line), high - LINE / 2 - 2)];
    const box = ([left, line]) => ({ left: left - 2, right: left + width + 2, top: line - LINE / 2, bottom: line + LINE / 2 });
    const free = (place) => {
      const mine = box(place);
      return boxes.every((other, at) => at === own ? other.right < mine.left + 2 || mine.right - 2 < other.left || other.bottom < mine.top || mine.bottom < other.top : other.right < mine.left || mine.right < other.left || other.bottom < mine.top || mine.bottom < other.top);
    };
    const place = tries.map(inside).find(free) ?? inside(tries[0]);
    boxes.push(box(place));
    const [left, line] = place;
    const near = Math.abs(line - y) < GAP && (Math.abs(left - x) < 2 * reach + GAP || Math.abs(left + width - x) < 2 * reach + GAP);
    return { left, line, far: !near };
  });
}
