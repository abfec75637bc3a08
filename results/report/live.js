"use strict";
(() => {
  const EVERY = 2000;
  const grid = document.getElementById("grid");

  function frame(key, label) {
    let found = document.getElementById(key);
    if (!found) {
      found = Object.assign(document.createElement("div"), { id: key, className: "figure" });
      found.style.height = "400px";
      found.setAttribute("role", "img");
      const panel = Object.assign(document.createElement("div"), { className: "panel" });
      panel.append(found);
      grid.append(panel);
    }
    found.setAttribute("aria-label", label);
    return found;
  }

  function show(state) {
    for (const [key, html] of Object.entries(state.parts)) {
      const part = document.getElementById(key);
      // what has not changed stays, with the reader's selection in it
      if (part.dataset.shown === html) continue;
      part.innerHTML = html;
      part.dataset.shown = html;
      part.querySelectorAll("table").forEach(window.archsweep.sortable);
    }
    document.getElementById("charts").toggleAttribute("hidden", !Object.keys(state.figures).length);
    // first all frames, then what is in them: a chart takes the width that it finds
    const before = grid.childElementCount;
    const frames = Object.entries(state.figures).map(([key, figure]) => [frame(key, figure.label), figure]);
    for (const [found, figure] of frames) window.archsweep.draw(found, figure);
    if (before && grid.childElementCount > before) dispatchEvent(new Event("resize"));
  }

  async function follow() {
    let ended = false;
    try {
      const answer = await fetch("state", { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const state = await answer.json();
      show(state);
      ended = state.ended;
      document.getElementById("lost").hidden = true;
    } catch {
      document.getElementById("lost").hidden = false;
    }
    // an ended run may be resumed: look again, but not as often
    setTimeout(follow, ended ? 5 * EVERY : EVERY);
  }

  follow();
})();
