// The state of the page and its URL: every view can be shared, reloaded and navigated back to.
//
//   q=words | item=ID&of=MODALITY | code=HEX&outputs=BASE64&from=drawing   the query
//   target, by, k, radius, labels (repeated), match=all, as the search settings
//   hit=ID                                                  the explained result
//   model, tab=model                                        the view
//
// A drawing or a picture is shared by its code and its outputs, one byte per bit, which rank the results. Its strokes
// or a thumbnail are kept in the history entry, so that back and reload restore them in this browser.

const DEFAULTS = {
  tab: "search",
  model: null,
  q: "",
  item: null,
  of: null,
  code: null,
  outputs: null,
  from: null,
  as: null,
  target: null,
  by: null,
  k: 24,
  radius: null,
  labels: [],
  match: "any",
  hit: null,
};
/** Fields that make up the query; setting one clears the others. */
export const NO_QUERY = { q: "", item: null, of: null, code: null, outputs: null, from: null, hit: null };

const whole = (text, low, high) => {
  const value = Number(text);
  return text !== null && text !== "" && Number.isInteger(value) && value >= low && value <= high ? value : null;
};

/** The state of a URL; invalid parameters are ignored. */
export function read(search) {
  const params = new URLSearchParams(search);
  const text = (name) => params.get(name) || null;
  const code = text("code");
  return {
    ...DEFAULTS,
    tab: params.get("tab") === "model" ? "model" : "search",
    model: text("model"),
    q: params.get("q") ?? "",
    item: text("item"),
    of: text("of"),
    code: code && /^([0-9a-f]{2})+$/i.test(code) ? code.toLowerCase() : null,
    outputs: /^[\w-]+$/.test(text("outputs") ?? "") ? text("outputs") : null,
    from: text("from"),
    as: text("as"),
    target: text("target"),
    by: ["meaning", "words"].includes(params.get("by")) ? params.get("by") : null,
    k: whole(params.get("k"), 1, 200) ?? DEFAULTS.k,
    radius: whole(params.get("radius"), 0, 1e6),
    labels: [...new Set(params.getAll("labels").filter(Boolean))],
    match: params.get("match") === "all" ? "all" : "any",
    hit: text("hit"),
  };
}

/** The URL of a state. */
export function write(state) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (name === "labels") value.forEach((label) => params.append("labels", label));
    else if (name === "target" ? value : value !== DEFAULTS[name] && value !== null) params.set(name, String(value));
  }
  const query = params.toString();
  return query ? `/?${query}` : "/";
}

/** Outputs (signed bytes) as text for a URL, and back. */
export const packOutputs = (values) =>
  btoa(String.fromCharCode(...Uint8Array.from(values))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
function unpackOutputs(text) {
  try {
    const bytes = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return [...Int8Array.from(bytes, (byte) => byte.charCodeAt(0))];
  } catch {
    return undefined; // not base64: the code alone is used
  }
}

/** The query for the API, or null. `code:HEX` and `item:ID` may be typed. */
export function queryOf(state, reader, target) {
  if (state.code) return state.outputs ? { code: state.code, outputs: unpackOutputs(state.outputs) } : { code: state.code };
  if (state.item) return { item: { id: state.item, modality: state.of } };
  const typed = state.q.trim();
  if (!typed) return null;
  const special = /^(code|item):\s*(.+)$/i.exec(typed);
  if (special?.[1].toLowerCase() === "code") return { code: special[2].replace(/^0x/i, "").toLowerCase() };
  if (special) return { item: { id: special[2], modality: state.as ?? state.target ?? target } };
  return reader ? { text: typed, modality: reader } : { text: typed };
}

/** The filter expression of the selected labels. Quotes cannot be escaped, so a name is quoted with the kind of
 *  quotes that it does not contain; a name with both kinds is replaced by its number. */
export function filterOf(state, names) {
  if (state.labels.length === 0) return undefined;
  const quoted = (name) => (!name.includes('"') ? `"${name}"` : !name.includes("'") ? `'${name}'` : String(names.indexOf(name)));
  if (state.match === "all") return state.labels.map((name) => `label in (${quoted(name)})`).join(" and ");
  return `label in (${state.labels.map(quoted).join(", ")})`;
}

const SAME_ACTION_MS = 1500;

/** The state, its URL and its history. `changed(how)` is called after every change. */
export class Store {
  constructor(changed) {
    this.changed = changed;
    this.state = read(location.search);
    this.extra = history.state?.extra ?? {};
    this.last = { key: null, at: 0 };
    addEventListener("popstate", (event) => {
      this.state = read(location.search);
      this.extra = event.state?.extra ?? {};
      this.last = { key: null, at: 0 };
      this.changed({ travelled: true });
    });
  }

  /** Changes the state. All changes of one action (`key`: typing, moving a slider) create one history entry;
   *  `replace` creates none. */
  go(patch, { key = null, replace = false, extra } = {}) {
    const now = performance.now();
    const before = write(this.state);
    this.state = { ...this.state, ...patch };
    if (extra !== undefined) this.extra = extra;
    const after = write(this.state);
    const same = replace || after === before || (key !== null && key === this.last.key && now - this.last.at < SAME_ACTION_MS);
    if (!replace) this.last = { key, at: now };
    const entry = { extra: this.extra };
    if (same) history.replaceState(entry, "", after);
    else history.pushState(entry, "", after);
    this.changed({ travelled: false });
  }
}
