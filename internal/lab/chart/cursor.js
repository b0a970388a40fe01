// One upright line through all charts over time, where the pointer is in one of them.
// Without this script they still tell their values.
(() => {
  const plots = [...document.querySelectorAll(".together .plot")];
  for (const plot of plots) {
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const share = (event.clientX - box.left) / box.width;
      document.documentElement.style.setProperty("--cursor", `${share * 100}%`);
      for (const p of plots) p.classList.toggle("at", share >= 0 && share <= 1);
    });
    plot.addEventListener("pointerleave", () => plots.forEach((p) => p.classList.remove("at")));
  }
})();
