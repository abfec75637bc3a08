"use strict";
(() => {
  // plotly.js offers to upload a chart to its makers by default; a run's numbers are nobody else's
  const config = {
    displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["lasso2d", "select2d"],
  };
  const drawn = [];
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function themed(layout) {
    const axis = { gridcolor: ink("--line"), linecolor: ink("--line"), zerolinecolor: ink("--line"), automargin: true };
    const space = { ...axis, backgroundcolor: "rgba(0,0,0,0)" };
    const result = {
      ...layout,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 13, color: ink("--ink") },
      hoverlabel: { bgcolor: ink("--paper"), bordercolor: ink("--line"), font: { color: ink("--ink") }, align: "left" },
      hovermode: "closest",
      modebar: { bgcolor: "rgba(0,0,0,0)", color: ink("--soft"), activecolor: ink("--accent") },
    };
    for (const key of ["xaxis", "yaxis", "xaxis2", "yaxis2"]) {
      if (layout[key]) result[key] = { ...axis, ...layout[key] };
    }
    if (layout.scene) {
      result.scene = { ...layout.scene };
      for (const key of ["xaxis", "yaxis", "zaxis"]) result.scene[key] = { ...space, ...layout.scene[key] };
    }
    return result;
  }

  // parallel coordinates draw their own axes, in the page's ink
  function inked(trace) {
    if (trace.type !== "parcoords") return trace;
    const [label, tick] = [{ color: ink("--ink"), size: 13 }, { color: ink("--ink"), size: 12 }];
    return { ...trace, labelfont: label, tickfont: tick, rangefont: { color: "rgba(0,0,0,0)" } };
  }

  const hovers = document.getElementById("hovers-data") ? read("hovers-data") : {};

  function hovering(trace) {
    return trace.meta?.hovers ? { ...trace, hovertext: trace.meta.hovers.map((design) => hovers[design]) } : trace;
  }

  function draw(frame, figure) {
    const shown = { data: figure.data.map(inked).map(hovering), layout: themed(figure.layout), config };
    Plotly.react(frame, figure.frames ? { ...shown, frames: figure.frames } : shown);
    const known = drawn.find((entry) => entry.frame === frame);
    if (known) known.figure = figure;
    else drawn.push({ frame, figure });
  }

  function redraw() {
    for (const { frame, figure } of drawn) draw(frame, figure);
  }

  function layersFigure(content, design) {
    const rows = design.layers.map((_, row) => row);
    const total = (row) => design.energies.reduce((sum, values) => sum + (values[row] || 0), 0);
    const fraction = (level, row) => `${(100 * (design.energies[level][row] || 0) / (total(row) || 1)).toPrecision(3)} %`;
    const bars = content.names.map((name, level) => ({
      type: "bar", orientation: "h", name, x: design.energies[level], y: rows, hoverinfo: "text",
      hovertext: rows.map((row) => `${design.hovers[row]}<br>${name}: ${fraction(level, row)}`), marker: { color: content.colors[level] },
    }));
    bars.push({
      type: "bar", orientation: "h", name: "latency", x: design.cycles, y: rows, xaxis: "x2",
      hovertext: design.hovers, hoverinfo: "text", marker: { color: "#6b7785" }, showlegend: false,
    });
    const top = (values) => 1.04 * Math.max(0, ...values);
    const stacks = content.designs.flatMap((d) => d.layers.map((_, row) => d.energies.reduce((sum, e) => sum + (e[row] || 0), 0)));
    const layout = {
      barmode: "stack", bargap: 0.25,
      xaxis: { domain: [0, 0.58], title: { text: content.titles[0] }, range: [0, top(stacks)] },
      xaxis2: { domain: [0.64, 1], title: { text: content.titles[1] }, range: [0, top(content.designs.flatMap((d) => d.cycles))] },
      yaxis: { tickvals: rows, ticktext: design.layers, autorange: "reversed" },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" },
      margin: { l: 160, r: 16, t: 48, b: 52 },
    };
    return { data: bars, layout };
  }

  // below 1 the chosen design costs less than the baseline: bars grow from 1 on a logarithmic axis
  function ratiosFigure(content, design) {
    const rows = design.layers.map((_, row) => row);
    const bars = [["energy", "Energy"], ["cycles", "Latency"]].map(([key, name], index) => ({
      type: "bar", orientation: "h", name, y: rows, x: design.ratios[key].map((ratio) => ratio && ratio - 1), base: 1,
      hovertext: rows.map((row) => `${design.layers[row]}<br>${name}: ×${design.ratios[key][row]}`), hoverinfo: "text",
      marker: { color: content.ratioColors[index] },
    }));
    const far = Math.max(1.25, ...Object.values(design.ratios).flat().filter(Boolean).map((ratio) => Math.max(ratio, 1 / ratio)));
    const reach = 1.05 * Math.log10(far);
    const ticks = far < 1.3 ? [0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2, 1.25]
      : far < 2.5 ? [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.7, 2, 2.5]
        : [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];
    const layout = {
      barmode: "group", bargap: 0.3,
      xaxis: { type: "log", range: [-reach, reach], title: { text: "Design / baseline, less on the left" }, tickvals: ticks, ticktext: ticks.map((tick) => `×${tick}`) },
      yaxis: { tickvals: rows, ticktext: design.layers, autorange: "reversed" },
      shapes: [{ type: "line", x0: 1, x1: 1, y0: 0, y1: 1, yref: "paper", line: { width: 1, color: "#6b7785" } }],
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" },
      margin: { l: 160, r: 16, t: 48, b: 52 },
    };
    return { data: bars, layout };
  }

  // a cell is text, {strong: text}, or [text, the number to sort by]
  function tableRow(cells) {
    const row = document.createElement("tr");
    for (const content of cells) {
      const cell = row.insertCell();
      if (Array.isArray(content)) {
        cell.className = "number";
        cell.textContent = content[0];
        if (content[1] !== null) cell.dataset.sort = content[1];
      } else if (content.strong !== undefined) {
        cell.append(Object.assign(document.createElement("b"), { textContent: content.strong }));
      } else cell.textContent = content;
    }
    return row;
  }

  function fill(key, rows) {
    const body = document.getElementById(key);
    if (!body) return;
    body.replaceChildren(...rows.map(tableRow));
    body.closest("table").querySelectorAll("th").forEach((head) => head.removeAttribute("aria-sort"));
  }

  function drawIfThere(key, figure, rows, space) {
    const frame = document.getElementById(key);
    if (!frame) return;
    frame.style.height = `${space + 26 * rows}px`;
    draw(frame, figure);
  }

  function setUpChosen() {
    const select = document.getElementById("chosen-design");
    if (!select) return;
    const content = read("chosen-data");
    const show = () => {
      const design = content.designs[Number(select.value)];
      for (const name of ["metrics", "hardware", "certificates"]) fill(`chosen-${name}`, design[name]);
      drawIfThere("layers", layersFigure(content, design), design.layers.length, 130);
      // nothing to compare where the baseline itself is chosen
      document.getElementById("ratios")?.parentElement.toggleAttribute("hidden", design === content.designs[content.baseline]);
      drawIfThere("ratios", ratiosFigure(content, design), design.layers.length, 130);
      pickSchedule(select.selectedOptions[0].dataset.design);
    };
    select.addEventListener("change", show);
    show();
    for (const { frame: chart } of drawn) {
      chart.on("plotly_click", (event) => {
        const tag = event.points[0].customdata;
        const option = [...select.options].find((candidate) => tag && candidate.dataset.tag === tag);
        if (option) { select.value = option.value; show(); }
      });
    }
  }

  const COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7a6fbe"];

  function memoryFigure(plan) {
    const color = (tensor) => (tensor < 0 ? "#8a8f98" : COLORS[tensor % COLORS.length]);
    const step = (at) => (at < plan.order.length ? `${at} (${plan.order[at]})` : "the end");
    const hover = (i) => `<b>${plan.names[i]}</b><br>${plan.texts[i]}<br>from step ${step(plan.starts[i])}<br>until step ${step(plan.ends[i])}`;
    const middle = (i) => plan.addresses[i] + plan.sizes[i] / 2;
    const marks = (name, numbers, at, symbol) => ({
      type: "scatter", mode: "markers", name, x: numbers.map(at), y: numbers.map(middle), hoverinfo: "text",
      hovertext: numbers.map((i) => `${name} at step ${step(at(i))}<br>${hover(i)}`),
      marker: { symbol, size: 10, color: ink("--ink"), line: { width: 1, color: ink("--paper") } },
    });
    const blocks = {
      type: "bar", x: plan.starts.map((start, i) => (start + plan.ends[i]) / 2), width: plan.starts.map((start, i) => plan.ends[i] - start),
      base: plan.addresses, y: plan.sizes, hovertext: plan.names.map((_, i) => hover(i)), hoverinfo: "text", showlegend: false,
      marker: { color: plan.colors.map(color), opacity: 0.85, line: { width: 0.5, color: ink("--paper") } },
    };
    const layout = {
      barmode: "overlay",
      xaxis: { title: { text: "Timestep (operators in the order they run)" }, range: [0, plan.order.length] },
      yaxis: { title: { text: `Address (${plan.unit})` }, range: [0, 1.04 * plan.budget] },
      shapes: [{ type: "line", x0: 0, x1: 1, xref: "paper", y0: plan.budget, y1: plan.budget, line: { width: 1.5, dash: "dash", color: "#b3261e" } }],
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      showlegend: plan.spills.length + plan.retrievals.length > 0,
      margin: { l: 72, r: 16, t: 44, b: 52 },
    };
    const traces = [blocks];
    if (plan.spills.length) traces.push(marks("spill", plan.spills, (i) => plan.ends[i], "triangle-up"));
    if (plan.retrievals.length) traces.push(marks("retrieval", plan.retrievals, (i) => plan.starts[i], "triangle-down"));
    return { data: traces, layout };
  }

  function setUpMemory() {
    const select = document.getElementById("memory-plan");
    if (!select) return;
    const plans = read("memory-data");
    const show = () => drawIfThere("memory-map", memoryFigure(plans[Number(select.value)]), 0, 480);
    select.addEventListener("change", show);
    show();
  }

  function scheduleFigure(chart) {
    const hover = (i) => {
      const [from, to] = chart.samples[i];
      const last = chart.first[i] + chart.wide[i] - 1;
      return `<b>${chart.layers[chart.layer_of[i]]}</b><br>sample${to - from > 1 ? "s" : ""} ${to - from > 1 ? `${from} to ${to - 1}` : from}`
        + `<br>tile${chart.wide[i] > 1 ? `s ${chart.first[i]} to ${last}` : ` ${last}`}`
        + `<br>from ${chart.start[i]} to ${Number((chart.start[i] + chart.long[i]).toPrecision(6))}, ${chart.title}`;
    };
    const rectangles = {
      type: "bar", x: chart.start.map((start, i) => start + chart.long[i] / 2), width: chart.long, base: chart.first, y: chart.wide,
      hovertext: chart.layer_of.map((_, i) => hover(i)), hoverinfo: "text", showlegend: false,
      marker: { color: chart.layer_of.map((layer) => COLORS[layer % COLORS.length]), opacity: 0.85, line: { width: 0.5, color: ink("--paper") } },
    };
    const layout = {
      barmode: "overlay",
      xaxis: { title: { text: chart.title }, range: [0, chart.until] },
      yaxis: { title: { text: "Tile" }, range: [0, chart.tiles] },
      margin: { l: 64, r: 16, t: 24, b: 52 },
    };
    return { data: [rectangles], layout };
  }

  function trajectoriesFigure(trajectories) {
    const lines = trajectories.map(({ name, rounds, ratios, phases }, index) => ({
      type: "scatter", mode: "lines", name, x: rounds, y: ratios, line: { width: 1.5, color: COLORS[index % COLORS.length] },
      hovertext: rounds.map((round, i) => `${name}, ${phases[i]}<br>round ${round}: ×${ratios[i]}`), hoverinfo: "text",
    }));
    const layout = {
      xaxis: { title: { text: "Rounds, of all phases" }, rangemode: "tozero" },
      yaxis: { title: { text: "Objective / best found" }, type: "log" },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      showlegend: true,
      margin: { l: 64, r: 16, t: 44, b: 52 },
    };
    return { data: lines, layout };
  }

  function setUpSchedules() {
    const select = document.getElementById("schedule-pick");
    if (!select) return;
    const schedules = read("schedule-data");
    const show = () => {
      const { chart, tree, seeds, trajectories, operators } = schedules[Number(select.value)];
      drawIfThere("schedule-chart", scheduleFigure(chart), 0, Math.min(900, 240 + 8 * chart.tiles));
      drawIfThere("schedule-trajectories", trajectoriesFigure(trajectories), 0, 320);
      fill("schedule-seeds", seeds);
      fill("schedule-operators", operators);
      document.getElementById("schedule-tree").textContent = tree;
    };
    select.addEventListener("change", show);
    show();
  }

  function pickSchedule(design) {
    const select = document.getElementById("schedule-pick");
    const option = [...(select?.options ?? [])].find((candidate) => candidate.dataset.design === design);
    if (!option || select.selectedOptions[0].dataset.design === design) return;
    select.value = option.value;
    select.dispatchEvent(new Event("change"));
  }

  function sortable(table) {
    table.querySelectorAll("thead th").forEach((head, column) => {
      const cell = (row) => row.cells[column];
      const key = (row) => cell(row).dataset.sort === undefined ? cell(row).textContent : Number(cell(row).dataset.sort);
      const button = document.createElement("button");
      button.append(...head.childNodes);
      head.append(button);
      if (table.tBodies[0].rows[0] && cell(table.tBodies[0].rows[0]).className === "number") head.className = "number";
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
        const rows = [...table.tBodies[0].rows].sort((a, b) => (up ? 1 : -1) * compare(key(a), key(b)));
        table.tBodies[0].append(...rows);
      });
    });
  }

  for (const frame of document.querySelectorAll("[data-figure]")) draw(frame, read(frame.dataset.figure));
  setUpSchedules();
  setUpChosen();
  setUpMemory();
  document.querySelectorAll("table").forEach(sortable);
  // for the page that follows a run, whose figures come later
  window.archsweep = { draw, sortable };
  for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", redraw);
})();
