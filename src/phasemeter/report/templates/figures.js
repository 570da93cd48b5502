"use strict";
// Draws every figure of the page and keeps its text and grid in the reader's colour scheme.
(() => {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const themed = () => {
    const changes = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      "font.color": colour("--ink"),
      "font.family": getComputedStyle(document.body).fontFamily,
      "font.size": 13,
      "modebar.bgcolor": "rgba(0,0,0,0)",
      "modebar.color": colour("--line"),
      "modebar.activecolor": colour("--soft"),
    };
    for (const axis of ["xaxis", "yaxis"]) {
      changes[axis + ".gridcolor"] = colour("--grid");
      changes[axis + ".linecolor"] = colour("--line");
    }
    return changes;
  };
  const nested = (layout, changes) => {
    for (const [path, value] of Object.entries(changes)) {
      const keys = path.split(".");
      const last = keys.pop();
      keys.reduce((node, key) => (node[key] ??= {}), layout)[last] = value;
    }
    return layout;
  };
  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"] };
  const drawn = [];
  for (const source of document.querySelectorAll("script[data-for]")) {
    const figure = JSON.parse(source.textContent);
    const place = document.getElementById(source.dataset.for);
    Plotly.newPlot(place, figure.data, nested(figure.layout, themed()), config);
    drawn.push(place);
  }
  scheme.addEventListener("change", () => drawn.forEach((place) => Plotly.relayout(place, themed())));
})();
