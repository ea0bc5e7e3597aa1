// The page of `sweep serve`: requests answers, draws them, and keeps choices in the address.
"use strict";

const VIEWS = { progress: "Progress", orders: "Orders", drifts: "Drifts", work: "Work",
                chaos: "Chaos", structure: "Preserved", series: "Over time", scan: "Scan", sphere: "Sphere" };
const MEASURES = { evaluations: "evaluations", steps: "steps", cpu_time: "CPU time" };
const MARKERS = { o: "circle", s: "square", D: "diamond", "^": "triangle-up", v: "triangle-down",
                  P: "cross", X: "x", "<": "triangle-left", ">": "triangle-right", "*": "star",
                  h: "hexagon", p: "pentagon" };
const MOST_ROWS = 24;  // longer tables are folded
const FEWEST_FILTERED = 6;  // rows from which on a table can be filtered
const MOST_NAMED = 24;  // curves in a legend
const POLL = 1000;  // ms between two requests for the progress
const AGAIN = 5;  // pause before the next request, as a multiple of the duration of the last one

const dark = matchMedia("(prefers-color-scheme: dark)");
const $ = (id) => document.getElementById(id);
const narrow = () => window.innerWidth < 800;
let state = new URLSearchParams(location.search);
let known = [];  // experiments of the store with their choices
let version = null, shown = null, asked = 0, took = 0, answered = 0;

// --- elements: texts of stores are inserted as text nodes only -------------------------------

function el(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;")
  .replace(/>/g, "&gt;");  // Plotly interprets some HTML

// A table; the rows of an answer can be sorted by a column, and filtered if there are many.
function table(headers, rows, caption = "", ofAnswer = false) {
  const numeric = headers.map((_, i) => i > 0 && rows.every((row) => /^[–±≤+-]?[\d.]|^–|^±|^≤/.test(row[i])));
  const style = (i) => ({ className: numeric[i] ? "number" : "" });
  const lines = rows.map((row) => el("tr", {}, ...row.map((cell, i) => el("td", style(i), cell))));
  const body = el("tbody", {}, ...lines);
  const heads = headers.map((name, i) => {
    const head = el("th", { ...style(i), scope: "col" }, !ofAnswer ? name : el("button", { type: "button", title: "Sort", onclick: () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = rows.map((_, k) => k).sort((a, b) => compared(rows[a][i], rows[b][i], numeric[i], down));
      body.replaceChildren(...order.map((k) => lines[k]));
    } }, name));
    return head;
  });
  const filter = el("input", { type: "text", placeholder: "Filter rows", oninput: () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    lines.forEach((line, k) => { line.hidden = !words.every((word) => rows[k].join(" ").toLowerCase().includes(word)); });
  } });
  filter.setAttribute("aria-label", "Rows that contain");
  return el("div", {}, caption ? el("p", { className: "soft" }, caption) : null, ofAnswer && rows.length >= FEWEST_FILTERED ? filter : null,
    el("div", { className: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body)));
}

// Compares two cells of a sorted table; cells without a number come last in both directions.
function compared(one, other, numeric, down) {
  const sign = down ? -1 : 1;
  if (!numeric) return sign * one.localeCompare(other, "en", { numeric: true });
  const [a, b] = [one, other].map((text) => parseFloat(text.replace("−", "-").replace(/^[^\d.+-]+/, "")));
  return Number.isNaN(a) || Number.isNaN(b) ? Number.isNaN(a) - Number.isNaN(b) : sign * (a - b);
}

// A table with coloured verdicts, which come first if there is little room.
function verdictTable({ title, headers, rows }, styles) {
  const place = headers.indexOf("verdict");
  const ordered = (row) => place > 1 && narrow()
    ? [row[0], row[place], ...row.slice(1, place), ...row.slice(place + 1)] : row;
  const made = table(ordered(headers), rows.map(ordered), title, true);
  for (const cell of made.querySelectorAll("td")) {
    if (Object.hasOwn(styles, cell.textContent)) cell.classList.add(styles[cell.textContent]);
  }
  return made;
}

// A long table is folded.
function folded({ rows }, shown) {
  return rows.length <= MOST_ROWS ? shown
    : el("details", {}, el("summary", {}, `${count(rows.length)} rows`), shown);
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
      ? "The server does not answer: sweep serve has ended, or the connection is lost." : error.message;
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
  await askChoices();
}

// The choices of the store as the server has last opened it, which may lack the newest runs.
async function askChoices() {
  ({ experiments: known, version } = await ask("choices"));
}

function showViews() {
  const own = experiment();
  $("views").replaceChildren(...Object.entries(VIEWS).map(([name, title]) => {
    const button = el("button", { type: "button" }, title);
    button.disabled = name !== "progress" && !(own && own.views[name].length);
    if (name === view()) button.setAttribute("aria-current", "page");
    button.onclick = () => { for (const key of ["quantity", "against", "run"]) state.delete(key); choose("view", name); show(); };
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
      if (found.version !== version && performance.now() > answered + AGAIN * took) {
        await askChoices();
        showViews();
        if (view() !== "progress") { showChoices(); await showAnswer(); }
      }
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
    select("experiment", "Experiment", known.map((one) => [one.name, one.name]), own.name),
    quantities.length > 1 ? select("quantity", "Quantity", quantities.map((name) =>
      [name, name === "self" ? "difference between step sizes" : name.replaceAll("_", " ")]),
      state.get("quantity") || quantities[0]) : null,
    view() === "work" ? select("against", "Against", Object.entries(MEASURES),
      state.get("against") || "evaluations") : null,
    view() === "scan" ? select("against", "Against", own.axes.map((name) => [name, name.replaceAll("_", " ")]),
      state.get("against") || own.axes[0]) : null,
    ...own.boxes.map(boxes),
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

function boxes({ name, title, units, values }) {
  const texts = values.map((one) => one.text);
  if (texts.length < 2) return null;
  const chosen = state.getAll(name);
  const inputs = values.map((one) => el("input",
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
  const labels = values.map((one, i) => {
    const swatch = one.colour ? el("span", { className: "swatch" }) : null;
    if (swatch) swatch.style.background = colourOf(one.colour, looks());
    return el("label", { title: one.text }, inputs[i], swatch, ` ${one.label}`);
  });
  const short = values.every((one) => one.label.length < 9);
  return el("fieldset", {}, el("legend", {}, `${title}${units ? ` [${units}]` : ""} `, all(true), all(false)),
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
  if (mine !== asked) return;  // the choice has changed meanwhile
  took = performance.now() - began;
  answered = performance.now();
  $("figure").classList.remove("busy");
  $("figure").hidden = $("actions").hidden = $("tables").hidden = Boolean(error);
  $("title").textContent = own.title || own.name;
  $("sentence").replaceChildren(...(error ? [error.message] : found.sentences).map((text) => el("p", {}, text)));
  $("remark").textContent = error ? "" : found.remark;
  if (error) return;
  await draw($("figure"), found, `${shown}-${own.name}-${view()}`, true);
  $("tables").replaceChildren(...found.tables.flatMap((one) => [
    folded(one, verdictTable(one, found.verdict_styles)),
    ...one.notes.map((note) => el("p", { className: "soft" }, note))]));
  showActions(found);
}

function showActions(found) {
  const name = `${shown.replace(/.*\//, "").replace(/\.zarr$/, "")}-${experiment().name}-${view()}`;
  const flat = found.kind !== "spheres";
  const data = el("a", { href: `${address("data", state)}&token=${encodeURIComponent(state.get("token"))}`,
                         download: `${name}.csv` }, "Data (CSV)");
  const picture = (format) => el("button", { type: "button", onclick: () => {
    const { data, layout } = layoutOf(found, { width: 1000, text: "#1c1c1c", rule: "#d9d9d9" });
    layout.paper_bgcolor = "#ffffff";
    Plotly.downloadImage({ data, layout }, { format, filename: name, width: layout.width,
      height: layout.height, scale: format === "png" ? 2 : 1 });
  } }, `Figure (${format.toUpperCase()})`);
  const copy = el("button", { type: "button" }, "Copy address");
  copy.onclick = async () => {
    await navigator.clipboard.writeText(location.href);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy address"; }, 1500);
  };
  if (!found.panels.length) { $("actions").replaceChildren(copy); return; }
  $("actions").replaceChildren(copy, ...(flat ? [picture("svg")] : []), picture("png"), data);
}

// --- drawing -------------------------------------------------------------------------------------

const ROW = { curves: [430, 330], strips: [165, 165], spheres: [520, 360] };  // px of a row, narrow
const LEFT = 66, RIGHT = 14, BELOW = 44, LINE = 20;

const names = (found) => [...new Set(found.panels.flatMap((panel) => panel.curves.map((curve) => curve.name)))];

// The positions of all parts of a figure, in px.
function geometryOf(found, width) {
  const n = found.panels.length;
  const most = found.kind === "strips" ? (width > 1000 ? 2 : 1)
    : width > 1250 && n > 4 ? 3 : width > 700 ? 2 : 1;
  const columns = Math.min(most, n), rows = Math.ceil(n / columns);
  const high = ROW[found.kind][width < 500 ? 1 : 0];
  const own = names(found), legend = found.kind !== "strips" && own.length > 1 && own.length <= MOST_NAMED;
  const entry = Math.min(width - 60, 12 + 6.6 * Math.max(...own.map((name) => name.length)));
  const across = Math.max(1, Math.floor(width / (entry + 48)));
  const below = legend ? LINE * Math.ceil(own.length / across) + 8 : 0;
  return { width, columns, rows, high, wide: width / columns, legend, entry, below, plot: rows * high };
}

function layoutOf(found, look) {
  const place = geometryOf(found, look.width), legended = new Set();
  const layout = {
    width: place.width, height: place.plot + place.below, autosize: false, showlegend: place.legend,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", annotations: [], hovermode: "closest",
    font: { color: look.text, size: 12, family: "system-ui, -apple-system, Segoe UI, Roboto, Arial, sans-serif" },
    margin: { l: 0, r: 0, t: 0, b: place.below, autoexpand: false },
    dragmode: narrow() ? false : "zoom",
    legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", x: 0, itemclick: false,
              itemdoubleclick: false, tracegroupgap: 0, maxheight: 1, entrywidth: place.entry, entrywidthmode: "pixels" },
  };
  const data = [];
  found.panels.forEach((panel, k) => {
    const column = k % place.columns, row = Math.floor(k / place.columns), id = k ? String(k + 1) : "";
    const titles = [panel.title, panel.subtitle].filter(Boolean), top = 8 + 18 * titles.length;
    const flat = found.kind !== "spheres";
    const left = column * place.wide + (flat ? LEFT : 4), begin = row * place.high + top;
    const most = Math.floor((place.wide - LEFT) / 6.6);
    const cut = (text) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
    const x = [left / place.width, ((column + 1) * place.wide - RIGHT) / place.width];
    const y = [1 - ((row + 1) * place.high - (flat ? BELOW : 0)) / place.plot, 1 - begin / place.plot];
    if (flat) {
      layout[`xaxis${id}`] = axisOf(found, panel, "x", look, { domain: x, anchor: `y${id}` });
      layout[`yaxis${id}`] = axisOf(found, panel, "y", look, { domain: y, anchor: `x${id}` });
    } else {
      layout[`scene${id}`] = sphereScene(look, x, y);
      data.push(ball(`scene${id}`, look), stubs(`scene${id}`, look));
    }
    titles.forEach((text, j) => layout.annotations.push({
      text: j ? plain(cut(text)) : `<b>${plain(cut(text))}</b>`, showarrow: false, xref: "paper", yref: "paper",
      x: x[0], y: y[1], xanchor: "left", yanchor: "bottom", align: "left",
      yshift: 18 * (titles.length - 1 - j) + 2, font: { size: j ? 11.5 : 12.5 } }));
    for (const curve of panel.curves) data.push(...tracesOf(curve, panel, found.kind, id, look, legended));
  });
  return { data, layout };
}

function axisOf(found, panel, which, look, more) {
  const axis = panel[which], low = which === "y" && found.kind === "strips";
  const made = { ...more, title: { text: low ? "" : plain(axis.text), standoff: 6 }, gridcolor: look.rule,
                 linecolor: look.rule, zeroline: false, type: axis.log ? "log" : "linear" };
  const alike = axis.log ? found.panels.filter((other) => other[which].text === axis.text) : [panel];
  const values = alike.flatMap((other) => other.curves).flatMap((curve) => [curve[which], ...(which === "y" ? [curve.low, curve.high] : [])])
    .flat().filter((value) => value !== null && (!axis.log || value > 0));
  if (axis.log) {
    const ends = [Math.min(...values), Math.max(...values)].map(Math.log10);
    const pad = Math.max(0.04 * (ends[1] - ends[0]), 0.03);
    made.range = [ends[0] - pad, ends[1] + pad];
    return Object.assign(made, logTicks(made.range));
  }
  return { ...made, nticks: low ? 4 : 7, exponentformat: "power" };
}

// Ticks of a logarithmic axis: decades, or also 2, 5, … if there are few decades.
function logTicks([low, high]) {
  const span = high - low, every = Math.ceil(span / 7);
  const multiples = span < 0.7 ? [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8] : span < 2.3 ? [1, 2, 5] : [1];
  const tickvals = [];
  for (let power = Math.floor(low); power <= high; power++) {
    if (multiples.length > 1 || power % every === 0) tickvals.push(...multiples.map((m) => m * 10 ** power));
  }
  const seen = tickvals.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
  return { tickmode: "array", tickvals: seen, ticktext: seen.map(shortNumber) };
}

function shortNumber(value) {
  if (value >= 0.001 && value < 1e5) return String(Number(value.toPrecision(3)));
  const [digits, power] = value.toExponential(1).split("e");
  const raised = String(Number(power)).replace(/./g, (c) => c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]);
  return `${Number(digits) === 1 ? "" : `${Number(digits)}·`}10${raised}`;
}

// Recomputes the ticks for the visible range after a zoom.
function tickAnew(target, event) {
  const changed = {};
  for (const key of Object.keys(event)) {
    const axis = /^([xy]axis\d*)\.(range\[0\]|autorange)$/.exec(key)?.[1];
    const now = axis && target.layout[axis];
    if (now?.type === "log") {
      for (const [name, value] of Object.entries(logTicks(now.range))) changed[`${axis}.${name}`] = value;
    }
  }
  if (Object.keys(changed).length) Plotly.relayout(target, changed);
}

// The colour of a curve; on a dark page black becomes white, and other colours paler.
function colourOf(colour, look) {
  if (!look.dark) return colour;
  if (colour === "#000000") return look.text;
  return `#${[1, 3, 5].map((i) => Math.round(0.75 * parseInt(colour.slice(i, i + 2), 16) + 64)
    .toString(16).padStart(2, "0")).join("")}`;
}

function tracesOf(curve, panel, kind, id, look, legended) {
  const colour = colourOf(curve.colour, look);
  const base = { name: plain(curve.name), legendgroup: curve.name, showlegend: false,
                 customdata: curve.x.map((_, i) => curve.cells[curve.cells.length > 1 ? i : 0] || null) };
  const first = !legended.has(curve.name);
  legended.add(curve.name);
  if (kind === "spheres") {
    return [{ ...base, showlegend: first, type: "scatter3d", scene: `scene${id}`, x: curve.x, y: curve.y, z: curve.z,
      mode: curve.line ? "lines" : "markers", line: { color: colour, width: 3 },
      marker: { color: colour, size: 2 }, hovertemplate: "%{x:.4f}, %{y:.4f}, %{z:.4f}<extra>%{fullData.name}" +
        `${curve.part ? `, ${plain(curve.part)}` : ""}</extra>` }];
  }
  const made = [], axes = { xaxis: `x${id}`, yaxis: `y${id}` };
  const positive = curve.y.filter((value) => value > 0), floor = positive.length ? Math.min(...positive) : 0;
  const y = panel.y.log ? curve.y.map((value) => value > 0 ? value : null) : curve.y;
  const low = panel.y.log ? curve.low.map((value) => value > 0 ? value : floor) : curve.low;
  if (curve.band && low.length) {
    const there = curve.x.map((_, i) => i).filter((i) => curve.high[i] > 0 || !panel.y.log);
    const back = there.toReversed();
    made.push({ ...axes, showlegend: false, hoverinfo: "skip", type: "scatter", mode: "none",
      x: [...there, ...back].map((i) => curve.x[i]),
      y: [...there.map((i) => curve.high[i]), ...back.map((i) => low[i])],
      fill: "toself", fillcolor: faint(colour), line: { width: 0 } });
  }
  const symbol = MARKERS[curve.marker] || "circle";
  const trace = { ...base, ...axes, type: "scatter", x: curve.x, y,
    mode: curve.marks.length ? "lines+markers" : "lines",
    line: { color: colour, width: 1.4, dash: curve.dash },
    marker: { color: colour, line: { color: colour, width: 1.2 },
              symbol: curve.marks.map((mark) => mark === "open" ? `${symbol}-open` : symbol),
              size: curve.marks.map((mark) => mark === "large" ? 12 : 7) },
    hovertemplate: "%{x:.4g}, %{y:.3e}<extra>%{fullData.name}</extra>" };
  if (!curve.band && low.length) {
    trace.error_y = { type: "data", symmetric: false, color: colour, thickness: 1, width: 0,
      array: curve.y.map((value, i) => curve.high[i] - value), arrayminus: curve.y.map((value, i) => value - low[i]) };
  }
  const named = { ...trace, x: [null], y: [null], showlegend: first, error_y: {},
                  marker: { color: colour, symbol, size: 7 } };
  return [...made, trace, named];
}

function faint(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return `rgba(${r},${g},${b},0.2)`;
}

function sphereScene(look, x, y) {
  const axis = { range: [-1.2, 1.2], visible: false };
  return { domain: { x, y }, aspectmode: "cube", dragmode: "orbit", xaxis: axis, yaxis: axis, zaxis: axis,
           camera: { eye: { x: 1.0, y: 1.17, z: 0.63 } } };
}

// The points at which the axes leave the sphere.
function stubs(scene, look) {
  const ends = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
  const along = (i) => ends.flatMap((end) => [0.985 * end[i], 1.18 * end[i], null]);
  return { type: "scatter3d", scene, x: along(0), y: along(1), z: along(2), mode: "lines+text", hoverinfo: "skip",
    text: ["e₁", "e₂", "e₃"].flatMap((name) => ["", name, ""]), textposition: "top center", showlegend: false,
    line: { color: look.text, width: 2 }, textfont: { color: look.text } };
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
  return { width, dark: dark.matches, text: style.getPropertyValue("--text").trim(), rule: style.getPropertyValue("--rule").trim() };
}

async function draw(target, found, name, clickable) {
  target.hidden = !found.panels.length;
  if (target.hidden) return;
  const { data, layout } = layoutOf(found, looks(target.clientWidth || target.parentElement.clientWidth));
  await Plotly.react(target, data, layout, { displaylogo: false, displayModeBar: false, responsive: false, scrollZoom: false });
  target.found = found;
  if (clickable && !target.clicked) {
    target.clicked = true;
    target.on("plotly_relayout", (event) => tickAnew(target, event));
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
    el("h2", {}, "Compute it again"), el("pre", {}, found.script));
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
  show();
};
addEventListener("popstate", () => { state = new URLSearchParams(location.search); show(); });
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(redraw, 150); });
dark.addEventListener("change", show);
if (narrow()) $("choices").open = false;
show().then(poll);
