// Before anything is drawn: the colours that were chosen here the last time.
(() => {
  try {
    const chosen = localStorage.getItem("partita-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    /* no storage: as the system */
  }
})();
