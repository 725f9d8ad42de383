// The theme, before anything is painted: what was chosen here last, else the system's.
// A classic script in the head, so that the page never flashes in the other colours.
"use strict";
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("crosshash-theme");
  } catch {
    // Storage may be forbidden; then the system decides.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
