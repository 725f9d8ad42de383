// Sets the theme before the first paint: the stored choice, else the system setting, also when it changes.
// A classic script in the head, so that the page does not flash in the wrong theme.
"use strict";
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = null;
    try {
      chosen = localStorage.getItem("crosshash-theme");
    } catch {
      // Storage may be disabled; the system setting is used then.
    }
    const known = chosen === "light" || chosen === "dark";
    document.documentElement.dataset.theme = known ? chosen : system.matches ? "dark" : "light";
  };
  system.addEventListener("change", apply);
  apply();
})();
