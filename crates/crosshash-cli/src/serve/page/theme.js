// The theme, before anything is painted: what was chosen here last, else the system's, also when that changes.
// A classic script in the head, so that the page never flashes in the other colours.
"use strict";
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = null;
    try {
      chosen = localStorage.getItem("crosshash-theme");
    } catch {
      // Storage may be forbidden; then the system decides.
    }
    const known = chosen === "light" || chosen === "dark";
    document.documentElement.dataset.theme = known ? chosen : system.matches ? "dark" : "light";
  };
  system.addEventListener("change", apply);
  apply();
})();
