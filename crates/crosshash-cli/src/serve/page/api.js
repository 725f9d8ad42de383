// The server, as functions: JSON in and out, errors with the server's own words, a token when it asks for one.
import { $ } from "./dom.js";

const TOKEN = "crosshash-token";

/** What went wrong: the server's message, or that it cannot be reached. */
export class Problem extends Error {
  constructor(message, { status = 0, where = null, offline = false } = {}) {
    super(message);
    this.status = status;
    this.where = where;
    this.offline = offline;
  }
}

let token = null;
try {
  token = sessionStorage.getItem(TOKEN);
} catch {
  // Without storage the token is asked for again after a reload.
}

let asking = null;
/** Asks for the token once, however many requests wait for it. */
function askToken(again) {
  asking ??= new Promise((done) => {
    const dialog = $("token");
    const input = $("token-input");
    $("token-note").textContent = again
      ? "The server did not take that one. Try again: it is the one given to crosshash serve."
      : "It is the one given to crosshash serve. It stays in this browser tab only.";
    input.value = "";
    dialog.addEventListener(
      "close",
      () => {
        asking = null;
        const typed = input.value.trim();
        if (typed) {
          token = typed;
          try {
            sessionStorage.setItem(TOKEN, typed);
          } catch {
            // Kept in memory then.
          }
        }
        done(Boolean(typed));
      },
      { once: true },
    );
    dialog.showModal();
  });
  return asking;
}

async function send(path, options) {
  const headers = new Headers(options.headers);
  const used = token;
  if (used) headers.set("authorization", `Bearer ${used}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer.", { offline: true });
  }
  if (response.status === 401) {
    // Another request may have been given the token while this one was under way.
    if (token !== used || (await askToken(Boolean(used)))) return send(path, options);
  }
  return response;
}

async function json(path, options = {}) {
  const response = await send(path, options);
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (!response.ok || body === null) {
    const told = body?.error;
    throw new Problem(told?.message ?? `The server answered ${response.status} ${response.statusText}`, {
      status: response.status,
      where: told?.where ?? null,
    });
  }
  return { status: response.status, body };
}

const get = async (path, signal) => (await json(path, { signal })).body;

/** All models. */
export const models = () => get("/v1/models");
/** One model with its report, history and settings. */
export const model = (name, signal) => get(`/v1/models/${encodeURIComponent(name)}`, signal);
/** The points of the map; null while the server still computes them. */
export async function map(name, signal) {
  const { status, body } = await json(`/v1/models/${encodeURIComponent(name)}/map`, { signal });
  return status === 202 ? null : body.points;
}

/** Searches. A picture is sent as the file it is, everything else as JSON. */
export async function search(request, file, signal) {
  if (!file) {
    const headers = { "content-type": "application/json" };
    return (await json("/v1/search", { method: "POST", headers, body: JSON.stringify(request), signal })).body;
  }
  const form = new FormData();
  form.append("request", new Blob([JSON.stringify(request)], { type: "application/json" }));
  form.append("picture", file);
  return (await json("/v1/search", { method: "POST", body: form, signal })).body;
}

const itemPath = (model, modality, id, tail = "") =>
  `/v1/items/${encodeURIComponent(id)}${tail}?${new URLSearchParams({ model, modality })}`;

/** One item. */
export const item = (model, modality, id, signal) => get(itemPath(model, modality, id), signal);
/** Where the picture of an item is. */
export const picturePath = (model, modality, id) => itemPath(model, modality, id, "/picture");

/** Whether the server answers at all. */
export const alive = async () => {
  try {
    return (await fetch("/healthz", { cache: "no-store" })).ok;
  } catch {
    return false;
  }
};

const blobs = new Map();
/** Shows a picture of the server in `img`, as wide as `size`. An <img> cannot send a token, so with one the
 *  bytes are fetched and shown from memory. */
export async function show(img, path, size) {
  const url = `${path}${path.includes("?") ? "&" : "?"}size=${size}`;
  if (img.dataset.url === url) return;
  img.dataset.url = url;
  if (!token) {
    img.src = url;
    return;
  }
  try {
    if (!blobs.has(url)) blobs.set(url, send(url, {}).then((response) => response.blob()));
    const blob = await blobs.get(url);
    if (blobs.size > 500) blobs.delete(blobs.keys().next().value);
    if (img.dataset.url !== url) return;
    const local = URL.createObjectURL(blob);
    img.onload = img.onerror = () => URL.revokeObjectURL(local);
    img.src = local;
  } catch {
    img.removeAttribute("src");
  }
}
