// Helpers for building elements and formatting numbers. Text from the server becomes a text node or an attribute,
// never markup.

/** The element with this id. */
export const $ = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.setAttribute("class", value);
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An element: `el("p", {class: "note", onclick: f}, "text", child)`. */
export const el = (tag, props, ...children) => fill(document.createElement(tag), props, children);

/** An SVG element. */
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/** One of the icons that index.html defines. */
export const icon = (name) =>
  svg("svg", { class: "icon", "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));

/** 1452 -> "1,452". */
export const number = (value) => value.toLocaleString("en");

/** "1 bit", "4 bits". */
export const count = (value, word) => `${number(value)} ${word}${value === 1 ? "" : "s"}`;

/** Microseconds in a readable unit. */
export const duration = (us) =>
  us < 1000 ? `${Math.round(us)} µs` : us < 1e6 ? `${(us / 1000).toPrecision(us < 1e4 ? 2 : 3)} ms` : `${(us / 1e6).toPrecision(3)} s`;

/** "picture" -> "Picture". */
export const title = (name) => name.charAt(0).toUpperCase() + name.slice(1);

/** Calls `act` after `wait` ms without another call; `.now()` calls it immediately, `.stop()` cancels it. */
export function debounce(act, wait) {
  let timer = 0;
  const later = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...args), wait);
  };
  later.now = (...args) => {
    clearTimeout(timer);
    act(...args);
  };
  later.stop = () => clearTimeout(timer);
  return later;
}

let toastTimer = 0;
/** A short message at the bottom of the page. */
export function toast(text) {
  const node = $("toast");
  node.textContent = text;
  node.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (node.hidden = true), 2400);
}

/** Copies text to the clipboard and shows a message. */
export async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    toast(said);
  } catch {
    // Without HTTPS the clipboard API is not available; selected text can still be copied.
    const field = el("textarea", { class: "hidden-text", "aria-hidden": "true" }, text);
    const focused = document.activeElement;
    document.body.append(field);
    field.select();
    toast(document.execCommand("copy") ? said : "Copying is not allowed by the browser");
    field.remove();
    focused?.focus();
  }
}

/** A radio group of buttons with arrow key navigation. */
export function segments(parent, choices, chosen, choose) {
  const buttons = choices.map(({ value, word, hint }) =>
    el("button", {
      type: "button",
      role: "radio",
      "aria-checked": String(value === chosen),
      tabindex: value === chosen ? 0 : -1,
      title: hint,
      data: { value },
      text: word,
      onclick: () => choose(value),
    }),
  );
  parent.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = buttons.indexOf(document.activeElement);
    const next = (at + step + buttons.length) % buttons.length;
    choose(choices[next].value);
    parent.children[next]?.focus();
  };
  const focused = parent.contains(document.activeElement);
  parent.replaceChildren(...buttons);
  if (focused) buttons.find((button) => button.tabIndex === 0)?.focus();
}
