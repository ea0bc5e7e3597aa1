// The page of `sweep serve`: asks the server for answers, draws them, keeps choices in the address.
"use strict";

const VIEWS = { progress: "Progress", orders: "Orders", drifts: "Drifts", work: "Work",
                series: "Over time", sphere: "Sphere" };
const MEASURES = { evaluations: "evaluations", steps: "steps", cpu_time: "CPU time" };
const MARKERS = { o: "circle", s: "square", D: "diamond", "^": "triangle-up", v: "triangle-down",
                  P: "cross", X: "x", "<": "triangle-left", ">": "triangle-right", "*": "star",
                  h: "hexagon", p: "pentagon" };
const POLL = 1000;  // ms between two looks at the progress
const AGAIN = 5;  // times as long as the last answer took is the next one waited for

const $ = (id) => document.getElementById(id);
const narrow = () => window.innerWidth < 800;
let state = new URLSearchParams(location.search);
let known = [];  // experiments of the store and what there is to choose
let version = null, shown = null, asked = 0, took = 0, answered = 0;

// --- elements: text of stores comes in as text alone -----------------------------------------

function el(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;")
  .replace(/>/g, "&gt;");  // Plotly takes some of HTML

function table(headers, rows, caption = "") {
  const numeric = headers.map((_, i) => i > 0 && rows.every((row) => /^[–±≤+-]?[\d.]|^–|^±|^≤/.test(row[i])));
  const cells = (row, tag) => row.map((cell, i) =>
    el(tag, { className: numeric[i] ? "number" : "" }, cell));
  return el("div", { className: "scroll" }, el("table", {},
    caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, ...cells(headers, "th"))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells(row, "td"))))));
}

// --- the server --------------------------------------------------------------------------------

function address(name, parameters) {
  const query = new URLSearchParams(parameters);
  query.delete("token");
  return `api/${name}?${query}`;
}

async function ask(name, parameters = state) {
  const response = await fetch(address(name, parameters),
    { headers: { "X-Token": state.get("token") || "" } });
  const found = await response.json();
  if (!response.ok) throw new Error(found.error);
  return found;
}

function trouble(error) {
  $("trouble").hidden = !error;
  if (error) {
    $("trouble").textContent = error instanceof TypeError
      ? "The server does not answer: sweep serve has ended, or this machine has lost it." : error.message;
  }
}

// --- the address ---------------------------------------------------------------------------------

function remember(push = true) {
  const search = `?${state}`;
  if (search !== location.search) history[push ? "pushState" : "replaceState"](null, "", search);
}

function choose(name, values, push = true) {
  state.delete(name);
  for (const value of [values].flat()) if (value !== "") state.append(name, value);
  remember(push);
}

function view() { return VIEWS[state.get("view")] ? state.get("view") : "progress"; }
function experiment() { return known.find((one) => one.name === state.get("experiment")) || known[0]; }

// --- all -------------------------------------------------------------------------------------------

async function show() {
  try {
    if (shown === null || shown !== state.get("store")) await openStore();
    showViews();
    $("progress").hidden = view() !== "progress";
    $("answer").hidden = view() === "progress";
    if (view() === "progress") { await showProgress(); } else { showChoices(); await showAnswer(); }
    await showRun();
    trouble(null);
  } catch (error) { trouble(error); }
}

async function openStore() {
  const { stores } = await ask("stores");
  if (!stores.includes(state.get("store"))) choose("store", stores[0], false);
  const select = $("stores").querySelector("select");
  select.replaceChildren(...stores.map((name) => el("option", { value: name }, name)));
  select.value = state.get("store");
  shown = state.get("store");
  document.title = `${shown} – Geosweep`;
  known = (await ask("choices")).experiments;
}

function showViews() {
  const own = experiment();
  $("views").replaceChildren(...Object.entries(VIEWS).map(([name, title]) => {
    const button = el("button", { type: "button" }, title);
    button.disabled = name !== "progress" && !(own && own.views[name].length);
    if (name === view()) button.setAttribute("aria-current", "page");
    button.onclick = () => { state.delete("quantity"); state.delete("run"); choose("view", name); show(); };
    return button;
  }));
}

// --- progress ------------------------------------------------------------------------------------

async function showProgress() {
  const found = await ask("progress");
  const whole = found.total;
  const left = whole.runs - whole.done;
  const facts = [
    ["Rate", whole.rate ? `${Number(whole.rate.toPrecision(3))} runs/s` : left ? "–" : ""],
    ["Time left", left ? whole.time_left || "not known yet" : ""],
    ["Running now", left ? count(whole.running) : ""],
    ["Failed", count(whole.failed)],
    ["CPU time", found.cpu_time],
    ["Writing to it", found.holder || (left ? `nobody; sweep run ${state.get("store")} goes on` : "nobody")],
    ["Submitted", found.submission || ""],
    ["Workers", found.hosts.join("; ")],
  ].filter(([, text]) => text);
  const bar = el("progress", { max: Math.max(1, whole.runs), value: whole.done + whole.partly });
  bar.setAttribute("aria-label", "runs that are done");
  const rows = found.experiments.map((one) => [one.experiment, ...["runs", "done", "running", "pending",
    "failed"].map((key) => count(one[key])), one.rate ? one.rate.toPrecision(3) : "–", one.time_left || "–"]);
  $("progress").replaceChildren(
    el("p", { className: "far" }, `${count(whole.done)} of ${count(whole.runs)} runs are done`), bar,
    el("dl", {}, ...facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])),
    table(["experiment", "runs", "done", "running", "pending", "failed", "runs/s", "time left"], rows),
    ...(found.shared.length ? [el("h2", {}, "Failures"),
      ...found.shared.map((text) => el("p", { className: "bad" }, text))] : []));
  return found;
}

const count = (number) => Math.round(number).toLocaleString("en");

async function poll() {
  if (document.visibilityState === "visible" && shown !== null) {
    try {
      const found = view() === "progress" ? await showProgress() : await ask("progress");
      trouble(null);
      if (version !== null && found.version !== version && performance.now() > answered + AGAIN * took) {
        known = (await ask("choices")).experiments;
        if (view() !== "progress") { showViews(); showChoices(); await showAnswer(); }
        version = found.version;
      }
      version = version === null ? found.version : version;
    } catch (error) { trouble(error); }
  }
  setTimeout(poll, POLL);
}

// --- choices -------------------------------------------------------------------------------------

function showChoices() {
  const own = experiment();
  if (!own) { $("choices").hidden = true; return; }
  const form = $("choices").querySelector("form"), open = document.activeElement?.id;
  const quantities = own.views[view()];
  const parts = [
    select("experiment", "Experiment", known.map((one) => [one.name, one.title || one.name]), own.name),
    quantities.length > 1 ? select("quantity", "Quantity", quantities.map((name) =>
      [name, name === "self" ? "difference between step sizes" : name.replaceAll("_", " ")]),
      state.get("quantity") || quantities[0]) : null,
    view() === "work" ? select("against", "Against", Object.entries(MEASURES),
      state.get("against") || "evaluations") : null,
    boxes("integrator", "Integrators", own.integrators),
    boxes("step_size", "Step sizes", own.step_sizes),
    boxes("tolerance", "Tolerances", own.tolerances),
    ...own.scanned.map((one) => boxes(`axis:${one.axis}`, one.axis, one)),
    starts(own.starts),
  ];
  form.replaceChildren(...parts.filter(Boolean));
  if (open) $(open)?.focus();
}

function select(name, title, values, value) {
  const made = el("select", { id: `choice-${name}` }, ...values.map(([key, text]) =>
    el("option", { value: key }, text)));
  made.value = value;
  made.onchange = () => {
    if (name === "experiment") {
      for (const key of [...state.keys()]) if (!["token", "store", "view"].includes(key)) state.delete(key);
    }
    choose(name, made.value);
    show();
  };
  return el("fieldset", {}, el("legend", {}, title), made);
}

function boxes(name, title, axis) {
  const texts = axis.values.map((one) => one.text);
  if (texts.length < 2) return null;
  const chosen = state.getAll(name);
  const inputs = axis.values.map((one) => el("input",
    { type: "checkbox", value: one.text, checked: !chosen.length || chosen.includes(one.text) }));
  const settle = () => {
    const on = inputs.filter((box) => box.checked).map((box) => box.value);
    if (!on.length) return;
    choose(name, on.length === texts.length ? [] : on);
    showAnswer();
  };
  for (const box of inputs) box.onchange = settle;
  const all = (on) => el("button", { type: "button", onclick: () => {
    for (const box of inputs) box.checked = on;
    settle();
  } }, on ? "all" : "none");
  const labels = axis.values.map((one, i) => {
    const swatch = one.colour ? el("span", { className: "swatch" }) : null;
    if (swatch) swatch.style.background = one.colour === "#000000" ? "var(--text)" : one.colour;
    return el("label", {}, inputs[i], swatch, ` ${one.text}`);
  });
  const short = texts.every((text) => text.length < 9);
  return el("fieldset", {}, el("legend", {}, `${title}${axis.units ? ` [${axis.units}]` : ""} `, all(true), all(false)),
    el("div", { className: short ? "values short" : "values" }, ...labels));
}

function starts(own) {
  if (own.count < 2) return null;
  const every = own.shown < own.count
    ? [["", `${count(own.shown)} of ${count(own.count)}, spread evenly`], ["all", `all ${count(own.count)}`]]
    : [["", `all ${count(own.count)}`]];
  return select("starts", "Starts", [...every, ...own.values.map((label) => [label, label])],
    state.get("starts") || "");
}

// --- answers -------------------------------------------------------------------------------------

async function showAnswer() {
  const mine = ++asked, began = performance.now(), own = experiment();
  if (!own) throw new Error("The store has no run yet.");
  if (!state.get("experiment")) choose("experiment", own.name, false);
  $("figure").classList.add("busy");
  let found, error = null;
  try { found = await ask("figure"); } catch (problem) { error = problem; }
  if (mine !== asked) return;  // another choice was made meanwhile
  took = performance.now() - began;
  answered = performance.now();
  $("figure").classList.remove("busy");
  $("figure").hidden = $("actions").hidden = $("tables").hidden = Boolean(error);
  $("sentence").textContent = error ? error.message : [...found.sentences, ...found.remarks].join(" ");
  if (error) return;
  await draw($("figure"), found, `${shown}-${own.name}-${view()}`, true);
  $("tables").replaceChildren(...found.tables.flatMap((one) => [
    table(one.headers, one.rows, one.title),
    ...one.notes.map((note) => el("p", { className: "soft" }, note))]));
  showActions(found);
}

function showActions(found) {
  const name = `${shown.replace(/.*\//, "").replace(/\.zarr$/, "")}-${experiment().name}-${view()}`;
  const flat = found.kind !== "spheres";
  const data = el("a", { href: `${address("data", state)}&token=${encodeURIComponent(state.get("token"))}`,
                         download: `${name}.csv` }, "Data (CSV)");
  const picture = (format) => el("button", { type: "button", onclick: () => Plotly.downloadImage(
    { ...layoutOf(found, { width: 1000, text: "#1c1c1c", rule: "#d9d9d9" }), config: {} },
    { format, filename: name, width: 1000, height: heightOf(found, 1000), scale: format === "png" ? 2 : 1 }) },
    `Figure (${format.toUpperCase()})`);
  const copy = el("button", { type: "button" }, "Copy address");
  copy.onclick = async () => {
    await navigator.clipboard.writeText(location.href);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy address"; }, 1500);
  };
  $("actions").replaceChildren(copy, ...(flat ? [picture("svg")] : []), picture("png"), data);
}

// --- drawing -------------------------------------------------------------------------------------

function grid(found, width) {
  const n = found.panels.length;
  const most = found.kind === "strips" ? (width > 1000 ? 2 : 1) : width > 1250 && n > 4 ? 3 : width > 700 ? 2 : 1;
  const columns = Math.min(most, n), rows = Math.ceil(n / columns);
  const high = { curves: narrow() ? 330 : 430, strips: 170, spheres: narrow() ? 380 : 520 }[found.kind];
  return { columns, rows, high };
}

const names = (found) => [...new Set(found.panels.flatMap((panel) => panel.curves.map((curve) => curve.name)))];

function heightOf(found, width) {
  const { rows, high } = grid(found, width);
  const legend = found.kind === "strips" ? 0 : 24 * Math.ceil(names(found).length / Math.max(1, Math.floor(width / 330)));
  return rows * high + legend + 30;
}

function layoutOf(found, look) {
  const { columns, rows } = grid(found, look.width), legended = new Set();
  const height = heightOf(found, look.width);
  const layout = {
    height, width: look.width, autosize: false, showlegend: found.kind !== "strips",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: look.text, size: 12, family: "system-ui, -apple-system, Segoe UI, Roboto, Arial, sans-serif" },
    margin: { l: 0, r: 8, t: 8, b: 8 }, annotations: [], hovermode: "closest",
    legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", x: 0, itemclick: false, itemdoubleclick: false },
  };
  const data = [];
  const left = 62 / look.width, right = 12 / look.width;
  const top = 26 + (found.panels.some((panel) => panel.said) ? 16 : 0), bottom = 46;
  const legend = height - 30 - rows * grid(found, look.width).high;
  const usable = height - 16 - legend;
  found.panels.forEach((panel, k) => {
    const column = k % columns, row = Math.floor(k / columns), id = k ? String(k + 1) : "";
    const x = [column / columns + left, (column + 1) / columns - right];
    const yTop = 1 - (row * usable / rows + top) / (height - 16);
    const y = [1 - ((row + 1) * usable / rows - bottom) / (height - 16), yTop];
    if (found.kind === "spheres") {
      layout[`scene${id}`] = sphereScene(look, [column / columns, (column + 1) / columns], [y[0] - bottom / height, y[1]]);
      data.push(ball(`scene${id}`, look));
    } else {
      layout[`xaxis${id}`] = axisOf(panel.x, look, { domain: x, anchor: `y${id}` });
      layout[`yaxis${id}`] = axisOf(panel.y, look, { domain: y, anchor: `x${id}` });
    }
    for (const [j, text] of [panel.title, panel.said].entries()) {
      if (text) layout.annotations.push({ text: j ? plain(text) : `<b>${plain(text)}</b>`, showarrow: false,
        xref: "paper", yref: "paper", x: x[0], y: yTop, xanchor: "left", yanchor: "bottom", align: "left",
        yshift: j ? 1 : panel.said ? 17 : 3, font: { size: j ? 11.5 : 13 } });
    }
    for (const curve of panel.curves) data.push(...tracesOf(curve, found.kind, id, look, legended));
  });
  return { data, layout };
}

function axisOf(axis, look, more) {
  return { ...more, title: { text: plain(axis.text), standoff: 4 }, type: axis.log ? "log" : "linear",
    exponentformat: "power", showexponent: "all", gridcolor: look.rule, linecolor: look.rule, zeroline: false,
    dtick: null, minor: {}, automargin: false, nticks: axis.log ? 8 : 6, tickformat: axis.log ? "" : "~g" };
}

const colourOf = (colour, look) => colour === "#000000" ? look.text : colour;

function tracesOf(curve, kind, id, look, legended) {
  const colour = colourOf(curve.colour, look);
  const base = { name: plain(curve.name), legendgroup: curve.name, showlegend: !legended.has(curve.name),
                 customdata: curve.x.map((_, i) => curve.cells[curve.cells.length > 1 ? i : 0] || null) };
  legended.add(curve.name);
  if (kind === "spheres") {
    return [{ ...base, type: "scatter3d", scene: `scene${id}`, x: curve.x, y: curve.y, z: curve.z,
      mode: curve.line ? "lines" : "markers", line: { color: colour, width: 3 },
      marker: { color: colour, size: 2 }, hovertemplate: "%{x:.4f}, %{y:.4f}, %{z:.4f}<extra>%{fullData.name}</extra>" }];
  }
  const made = [], axes = { xaxis: `x${id}`, yaxis: `y${id}` };
  if (curve.band && curve.low.length) {
    made.push({ ...axes, legendgroup: curve.name, showlegend: false, hoverinfo: "skip", type: "scatter", mode: "none",
      x: [...curve.x, ...[...curve.x].reverse()], y: [...curve.high, ...[...curve.low].reverse()], fill: "toself",
      fillcolor: faint(colour), line: { width: 0 } });
  }
  const open = curve.marks.map((mark) => mark === "open");
  const symbol = MARKERS[curve.marker] || "circle";
  const trace = { ...base, ...axes, type: "scatter", x: curve.x, y: curve.y,
    mode: curve.marks.length ? (curve.line ? "lines+markers" : "markers") : "lines",
    line: { color: colour, width: 1.4, dash: curve.dash },
    marker: { color: colour, line: { color: colour, width: 1.2 }, symbol: open.map((one) => one ? `${symbol}-open` : symbol),
              size: curve.marks.map((mark) => mark === "large" ? 11 : 7) },
    hovertemplate: "%{x:.4g}, %{y:.3e}<extra>%{fullData.name}</extra>" };
  if (!curve.band && curve.low.length) {
    trace.error_y = { type: "data", symmetric: false, color: colour, thickness: 1, width: 0,
      array: curve.y.map((value, i) => curve.high[i] - value), arrayminus: curve.y.map((value, i) => value - curve.low[i]) };
  }
  return [...made, trace];
}

function faint(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return `rgba(${r},${g},${b},0.2)`;
}

function sphereScene(look, x, y) {
  const axis = (text) => ({ title: { text }, range: [-1.15, 1.15], showbackground: false, gridcolor: look.rule,
    zerolinecolor: look.rule, tickvals: [-1, 0, 1], color: look.text });
  return { domain: { x, y }, aspectmode: "cube", dragmode: "orbit", xaxis: axis("e₁"), yaxis: axis("e₂"), zaxis: axis("e₃"),
           camera: { eye: { x: 0.9, y: 1.05, z: 0.6 } } };
}

function ball(scene, look) {
  const n = 24, x = [], y = [], z = [];
  for (let i = 0; i <= n; i++) {
    const polar = Math.PI * i / n, rows = [[], [], []];
    for (let j = 0; j <= n; j++) {
      const around = 2 * Math.PI * j / n;
      rows[0].push(0.985 * Math.sin(polar) * Math.cos(around));
      rows[1].push(0.985 * Math.sin(polar) * Math.sin(around));
      rows[2].push(0.985 * Math.cos(polar));
    }
    x.push(rows[0]); y.push(rows[1]); z.push(rows[2]);
  }
  return { type: "surface", scene, x, y, z, opacity: 0.25, showscale: false, hoverinfo: "skip", showlegend: false,
    colorscale: [[0, look.rule], [1, look.rule]], contours: { x: { highlight: false }, y: { highlight: false }, z: { highlight: false } } };
}

function looks(width) {
  const style = getComputedStyle(document.documentElement);
  return { width, text: style.getPropertyValue("--text").trim(), rule: style.getPropertyValue("--rule").trim() };
}

async function draw(target, found, name, clickable) {
  const { data, layout } = layoutOf(found, looks(target.clientWidth || target.parentElement.clientWidth));
  await Plotly.react(target, data, layout, { displaylogo: false, displayModeBar: false, responsive: false, scrollZoom: false });
  target.found = found;
  if (clickable && !target.clicked) {
    target.clicked = true;
    target.on("plotly_click", (event) => {
      const cell = event.points[0].customdata;
      if (cell) openRun(cell);
    });
  }
}

// --- a run -----------------------------------------------------------------------------------------

async function openRun(cell, start = state.get("starts") || "") {
  try {
    const found = await ask("run", { ...about(), ...cell, starts: start });
    choose("run", String(found.row));
    await showRun(found);
  } catch (error) { trouble(error); }
}

const about = () => ({ store: shown, experiment: experiment().name });

async function showRun(given = null) {
  const row = state.get("run");
  $("run").hidden = row === null;
  if (row === null) return;
  const found = given || await ask("run", { ...about(), run: row, series: state.get("series") || "" });
  const series = el("select", { onchange: () => { choose("series", series.value, false); showRun(); } },
    ...found.series.map((name) => el("option", { value: name }, name.replaceAll("_", " "))));
  series.value = found.quantity;
  const labels = experiment().starts.values;
  const start = el("select", { onchange: () => openRun(found.cell, start.value) },
    ...(labels.includes(found.start) ? [] : [found.start]).concat(labels).map((label) => el("option", { value: label }, label)));
  start.value = found.start;
  const close = el("button", { type: "button", className: "close", onclick: () => { choose("run", []); $("run").hidden = true; } }, "Close");
  const figure = el("div");
  $("run").replaceChildren(close, el("h2", {}, `Run ${found.row}: ${found.title}`),
    el("p", {}, "Start ", start), el("p", {}, "Series ", series), figure,
    el("dl", {}, ...found.facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])),
    el("h2", {}, "Compute it again"), el("pre", {}, found.again));
  await draw(figure, found.figure, "run", false);
}

// --- begin -----------------------------------------------------------------------------------------

function redraw() {
  const found = $("figure").found;
  if (found && !$("answer").hidden) draw($("figure"), found, "", true);
}

$("stores").querySelector("select").onchange = (event) => {
  const kept = { token: state.get("token"), store: event.target.value, view: view() };
  state = new URLSearchParams(kept);
  remember();
  version = null;
  show();
};
addEventListener("popstate", () => { state = new URLSearchParams(location.search); show(); });
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(redraw, 150); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
if (narrow()) $("choices").open = false;
show().then(poll);
