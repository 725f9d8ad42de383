// The HTTP API as functions: JSON requests and responses, error messages of the server, token dialog.
import { $ } from "./dom.js";

const TOKEN = "crosshash-token";

/** An error: the message of the server, or that it is unreachable. */
export class ApiError extends Error {
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
  // Without storage the token must be entered again after a reload.
}

let dialogOpen = null;
/** Opens the token dialog once, for all waiting requests. */
function requestToken(again) {
  dialogOpen ??= new Promise((done) => {
    const dialog = $("token");
    const input = $("token-input");
    $("token-note").textContent = again
      ? "The token is not valid. Enter the token that crosshash serve was started with."
      : "Enter the token that crosshash serve was started with. It is stored in this browser tab only.";
    input.value = "";
    dialog.addEventListener(
      "close",
      () => {
        dialogOpen = null;
        const typed = input.value.trim();
        if (typed) {
          token = typed;
          try {
            sessionStorage.setItem(TOKEN, typed);
          } catch {
            // It is kept in memory only.
          }
        }
        done(Boolean(typed));
      },
      { once: true },
    );
    dialog.showModal();
  });
  return dialogOpen;
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
    throw new ApiError("The server is not responding.", { offline: true });
  }
  if (response.status === 401) {
    // Another request may have received the token in the meantime.
    if (token !== used || (await requestToken(Boolean(used)))) return send(path, options);
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
    const reported = body?.error;
    throw new ApiError(reported?.message ?? `The server returned ${response.status} ${response.statusText}`, {
      status: response.status,
      where: reported?.where ?? null,
    });
  }
  return { status: response.status, body };
}

const get = async (path, signal) => (await json(path, { signal })).body;

/** All models. */
export const models = () => get("/v1/models");
/** One model with its report, history and settings. */
export const model = (name, signal) => get(`/v1/models/${encodeURIComponent(name)}`, signal);
/** The points of the map; null while the server computes them. */
export async function map(name, signal) {
  const { status, body } = await json(`/v1/models/${encodeURIComponent(name)}/map`, { signal });
  return status === 202 ? null : body.points;
}

/** Searches. A picture is sent as a file, everything else as JSON. */
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
/** The path of the picture of an item. */
export const picturePath = (model, modality, id) => itemPath(model, modality, id, "/picture");

/** Whether the server responds. */
export const alive = async () => {
  try {
    return (await fetch("/healthz", { cache: "no-store" })).ok;
  } catch {
    return false;
  }
};

const blobs = new Map();
/** Shows a picture of the server in `img`, scaled to `size`. An <img> cannot send a token; with a token the bytes
 *  are fetched and shown from memory. */
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
