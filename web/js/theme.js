// Before anything is drawn, and whenever it changes: the colours that were chosen here, else the system's.
(() => {
  const root = document.documentElement,
    dark = matchMedia("(prefers-color-scheme: dark)");
  const shade = () => {
    root.dataset.shade = root.dataset.theme || (dark.matches ? "dark" : "light");
  };
  try {
    const chosen = localStorage.getItem("partita-theme");
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  } catch {
    /* no storage: as the system */
  }
  dark.addEventListener("change", shade);
  new MutationObserver(shade).observe(root, { attributeFilter: ["data-theme"] });
  shade();
})();
