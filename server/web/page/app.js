// This file owns the page: the current view, the data from the server, and the actions of the user.
import { back } from "./back.js";
import { board } from "./board.js";
import { facts } from "./change.js";
import { job } from "./job.js";
import { jobs } from "./jobs.js";
import { output } from "./logs.js";
import { hatch } from "./map.js";
import { morph } from "./morph.js";
import { over, queuesOver, spans, stepOf } from "./over.js";
import { player, recorded } from "./play.js";
import { apply, newState, receive } from "./state.js";
import { search } from "./search.js";
import { again, form } from "./submit.js";
import * as views from "./views.js";
import { answerBy, ask, askNow, chip, empty, forbidden, gpus, h, quote } from "./words.js";

const $ = (id) => document.getElementById(id);
const main = $("main");

const live = newState(); // the current state; during playback the page shows an earlier one
const page = { state: live, span: "6 hours", sums: undefined, since: 0, queuesOver, find: "", starts: new Map(), kept: new Map(), queues: undefined, me: undefined,
  detail: undefined, trouble: "", picked: undefined, query: new URLSearchParams(), labelled: undefined,
  go: (hash) => { location.hash = hash; }, now: () => Date.now() + page.state.skew };
const source = globalThis.record && recorded(globalThis.record);
const played = source && player(source, (piece) => take(piece), () => askStarts());
let shown = { view: "", id: "" }, map, drawn = 0, drawnViews = 0;

// ---- what is shown

// plainly decodes a part of an address. It returns a part with a broken escape unchanged.
function plainly(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// set changes values after the ? of the address, such as the filters of a list. An empty value is removed.
page.set = (values) => {
  const query = new URLSearchParams(page.query);
  for (const [name, value] of Object.entries(values)) value ? query.set(name, value) : query.delete(name);
  page.go(location.hash.split("?")[0] + (query.size ? `?${query}` : ""));
};

function route() {
  const [path, query = ""] = location.hash.replace(/^#\//, "").split("?"), [view = "map", id = ""] = path.split("/");
  const next = { view: view || "map", id: plainly(id) };
  page.query = new URLSearchParams(query);
  if (next.view === shown.view && next.id === shown.id) return paint(), page.query.get("label") !== page.labelled?.label && refresh();
  shown = next;
  map?.end();
  map = undefined;
  closeLogs();
  page.detail = page.trouble = undefined;
  page.forbidden = false;
  page.explained = undefined;
  page.from = 0;
  page.picked = shown.view === "map" ? shown.id || undefined : undefined;
  page.rankOn = new Map();
  for (const a of document.querySelectorAll("nav a")) {
    const here = a.dataset.view === shown.view || (shown.view === "job" && a.dataset.view === "jobs") ||
      (shown.view === "node" && a.dataset.view === "nodes");
    if (here) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  document.title = `${shown.id || titles[shown.view]?.[0] || "Synapse"} · Synapse`;
  main.replaceChildren();
  paint();
  refresh();
  if (drawnViews++) main.scrollTop = 0; // this lays out the page, which the first view does not need
}

// titles has the title of each view, and whether the view needs the stream of jobs and nodes.
const titles = { map: ["Map", true], jobs: ["Jobs", true], nodes: ["Nodes", true], queues: ["Queues"], over: ["Over time"], events: ["Events", true],
  job: ["Job", true], node: ["Node", true], submit: ["Submit a job"] };

let pause = 200; // between two paints of a list: at most a fourth of the time is spent on them, unless they take very long
function paint() {
  const began = performance.now();
  paintNow();
  pause = Math.min(Math.max(3 * (performance.now() - began), 200), 400);
}

function paintNow() {
  drawn = Date.now();
  const { view, id } = shown, { state } = page, [title, streamed] = titles[view] ?? [];
  if (streamed && state.barred) {
    map?.end();
    map = undefined;
    return morph(main, [h("h1", {}, title), forbidden(state.away)]);
  }
  if (view === "map") return paintMap();
  const make = { over, jobs, job, submit }[view] ?? views[view];
  const parts = !make || view === "figures" ? [h("h1", {}, "View not found"), empty("Choose a view above.")] : make(page, id);
  keepFocus(() => morph(main, [...parts.flat(3).filter(Boolean), ...(view === "job" && logs ? [logs.element] : [])]));
}

// submit shows the form for a job file, if the user may submit jobs.
let filing;
function submit() {
  return [h("h1", {}, "Submit a job"), !page.me ? empty("Loading…") : !page.me.submits ? empty("This web UI does not submit jobs for you: use synapse-cli submit.")
    : page.state !== live ? empty("Close the look back to submit a job.") : (filing ??= form())];
}

// keepFocus changes the content. If the element with the focus is removed or moved, its successor gets the focus.
function keepFocus(change) {
  const at = document.activeElement, key = main.contains(at) && at !== main && (at.getAttribute("href") || at.id || at.textContent);
  change();
  if (key && document.activeElement !== at) {
    [...main.querySelectorAll("a, button, summary, input, select, [tabindex]")]
      .find((e) => (e.getAttribute("href") || e.id || e.textContent) === key)?.focus();
  }
}

let figures, named, none;
function paintMap() {
  if (!map) {
    map = board(page);
    figures = h("div");
    none = empty("");
    named = h("ul", { class: "legend", id: "jobs-on-map", "aria-label": "Jobs on the map" });
    const press = (text, label, act) => h("button", { type: "button", title: label, "aria-label": label, onclick: act }, text);
    main.replaceChildren(h("h1", {}, page.picked ? [`Map: nodes of ${page.state.jobs.get(page.picked)?.name || page.picked} `,
      h("a", { href: "#/map" }, "show all jobs")] : "Map"), figures, none, map.element,
      h("div", { class: "buttons" }, press("+", "Zoom in", () => map.zoom(1.4)), press("−", "Zoom out", () => map.zoom(1 / 1.4)),
        press("Fit", "Fit the whole map", () => map.fit())),
      named, h("ul", { class: "legend" }, legend()));
  }
  morph(figures, [views.figures(page)]);
  const first = map.element.hidden && page.state.boxes.size > 0;
  map.element.hidden = page.state.boxes.size === 0;
  none.hidden = !map.element.hidden;
  if (first) map.resize();
  none.textContent = page.state.synced ? "No nodes yet. Start synapse-node on each host: the node then appears here." : "Loading the map…";
  map.update(first);
  morph(named, onMap());
}

const maxNamed = 16;

// onMap returns the names of the largest running jobs. An entry with the focus or the pointer shows the card of the job.
function onMap() {
  const all = new Map();
  for (const { jobs } of page.state.boxes.values()) for (const id of jobs ?? []) if (!all.has(id)) all.set(id, page.state.jobs.get(id));
  const shown = [...all.values()].filter(Boolean).sort((a, b) => b.gpus - a.gpus || a.submitted - b.submitted);
  const entries = shown.slice(0, maxNamed).map((j) => h("li", { "data-key": j.id }, h("a", { href: `#/job/${encodeURIComponent(j.id)}`,
    onfocus: () => map?.point(j.id), onmouseenter: () => map?.point(j.id), onblur: () => map?.hide(), onmouseleave: () => map?.hide() },
  chip(j.id), j.name || j.id), ` ${gpus(j.gpus)}`));
  return shown.length > maxNamed ? [...entries, h("li", { "data-key": "more" }, h("a", { href: "#/jobs?phase=running&sort=-gpus" },
    `${shown.length - maxNamed} more jobs`))] : entries;
}

function legend() {
  const sign = (paintIt, text) => {
    const canvas = h("canvas", { width: "14", height: "14", "aria-hidden": "true" });
    const context = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    paintIt(context, (name) => style.getPropertyValue(name).trim());
    return h("li", {}, canvas, text);
  };
  const fill = (c, colour) => { c.fillStyle = colour; c.fillRect(0, 0, 14, 14); };
  return [
    sign((c) => { fill(c, "#0072b2"); c.fillStyle = "#e69f00"; c.fillRect(7, 0, 7, 14); }, "in use, one colour per job, with hatching if more than 64 jobs run"),
    sign((c, of) => fill(c, of("--line")), "free"),
    sign((c, of) => { fill(c, of("--line")); fill(c, hatch(c, of("--text"))); }, "reserved for a waiting job"),
    sign((c, of) => { c.strokeStyle = of("--warn"); c.lineWidth = 2; c.setLineDash([3, 2]); c.strokeRect(1, 1, 12, 12); },
      "unschedulable or backed off"),
    sign((c, of) => { c.strokeStyle = of("--bad"); c.lineWidth = 2; c.beginPath(); c.moveTo(1, 1); c.lineTo(13, 13);
      c.moveTo(13, 1); c.lineTo(1, 13); c.stroke(); }, "node down, or GPU out of service"),
  ];
}

// ---- requests

let asked = 0; // answers may arrive out of order: only the answer to the last request counts
async function refresh() {
  const { view, id } = shown, question = ++asked;
  try {
    if (view === "job") {
      const detail = await ask("/job", { id, from: page.from });
      if (question === asked) page.detail = detail;
    }
    if (view === "map" && id) {
      const { ranks } = await ask("/job", { id });
      if (question === asked) page.rankOn = ranksOn(ranks);
    }
    if (view === "jobs") await askLabelled(page.query.get("label"));
    if (view === "queues") page.queues = await ask("/queues");
    if ((view === "queues" || view === "over") && !played) await askSums(question);
    page.trouble = "";
  } catch (e) {
    Object.assign(page, { trouble: e.message, forbidden: e.forbidden });
  }
  if (view === shown.view && id === shown.id) paint();
}

// ranksOn returns the first and the last rank of a job on each node.
function ranksOn(ranks) {
  const all = new Map();
  for (const { rank, node } of ranks ?? []) all.set(node, [...(all.get(node) ?? []).slice(0, 1), rank]);
  return new Map([...all].map(([node, some]) => [node, some.join("–")]));
}

// askLabelled requests which jobs have a label. The labels themselves are never sent to the page.
async function askLabelled(label) {
  if (!label) return void (page.labelled = undefined);
  try {
    if (!label.split(",").every((one) => /^\s*[^=\s]+=/.test(one))) throw new Error("Write the label as KEY=VALUE, such as team=vision.");
    const ids = await ask("/matches", { label });
    if (label === page.query.get("label")) page.labelled = { label, ids: new Set(ids) };
  } catch (e) {
    page.labelled = { label, ids: new Set(), wrong: e.message };
  }
}

// askSums requests the sums of the selected time range.
async function askSums(question) {
  const now = Date.now() + live.skew, step = stepOf(spans[page.span]), from = Math.floor((now - spans[page.span]) / step) * step;
  const { since, record } = await ask("/past", { at: from, until: Math.floor(now), step });
  if (question === asked) Object.assign(page, { since, sums: { sums: record, range: { from, until: now, step } } });
}

page.spanned = (span) => {
  page.span = span;
  refresh();
};

page.ranks = (from) => { page.from = from; refresh(); };

async function askStarts() {
  if (document.hidden) return;
  try {
    const starts = await ask("/waiting");
    page.starts = new Map(starts.map((s) => [s.job, s]));
    page.kept = new Map();
    for (const s of starts) for (const node of s.kept ?? []) page.kept.set(node, [...(page.kept.get(node) ?? []), s.job]);
  } catch { /* the stream reports the error */ }
}

page.reason = (id, row) => {
  if (row.phase !== "queued" && row.phase !== "held") return undefined;
  if (page.explained?.id !== id) {
    page.explained = { id, title: "…", rows: [] };
    ask("/explain", { id }).catch((e) => ({ title: e.message, rows: [] })).then((answer) => {
      if (page.explained?.id === id) Object.assign(page.explained, answer);
      paint();
    });
  }
  return [h("h2", {}, "Why it is waiting"), ...facts(page.explained, row)];
};

// ---- actions

// may reports whether the user has a right on an object of an owner. Actions without a right are not shown.
page.may = (right, owner) => {
  const { me } = page;
  if (page.state !== live) return false; // an earlier state cannot be changed
  if (!me || me.all) return Boolean(me);
  return right in me.may && (me.may[right] || owner === me.name);
};

page.buttons = (kind, of) => {
  const verbs = kind === "job"
    ? of.over ? [] : [of.phase === "held" ? "release" : "hold", ...(of.started ? ["requeue"] : []), "cancel"]
    : [of.state === "up" ? "cordon" : "uncordon", "drain"].filter((v) => v !== "drain" || !/^drain/.test(of.state));
  const allowed = verbs.filter((verb) => page.may(verb === "uncordon" ? "cordon" : verb, of.owner));
  if (kind === "job" && page.me?.submits && page.may("read-private", of.owner)) allowed.unshift("again");
  return allowed.length > 0 && h("div", { class: "buttons" }, allowed.map((verb) =>
    h("button", { type: "button", onclick: () => confirmed(verb, kind, of) }, actOf(verb))));
};

const actOf = (verb) => (verb === "again" ? "Run again" : verb[0].toUpperCase() + verb.slice(1));

function confirmed(verb, kind, of) {
  const reason = $("ask-reason"), error = $("ask-error"), copies = verb === "again";
  const command = () => {
    const why = reason.value ? ` --reason ${quote(reason.value)}` : "";
    $("ask-command").textContent = copies ? `${page.me.program} submit --from ${quote(of.id)}`
      : `${page.me.program} ${verb} ${quote(of.id)}${["release", "uncordon"].includes(verb) ? "" : why}`;
  };
  $("ask-title").textContent = copies ? `Run ${of.name || of.id} again?` : `${actOf(verb)} ${of.name || of.id}?`;
  reason.hidden = reason.labels[0].hidden = copies;
  $("ask-text").textContent = { cancel: "The job ends and does not run again.", hold: "The job does not start until it is released. Running tasks continue.",
    release: "The job waits in the queue again.", requeue: "The attempt ends. The job returns to its old place in the queue.",
    cordon: "The node receives no new tasks. Running tasks continue.", uncordon: "The node receives tasks again.",
    drain: "The node receives no new tasks. Running tasks continue until they end.",
    again: `The scheduler submits a copy of the job as ${page.me.name}. The command and the environment stay in the scheduler.` }[verb];
  $("ask-yes").textContent = copies ? "Run again" : `${actOf(verb)} ${kind}`;
  $("ask-no").textContent = verb !== "cancel" ? "Go back" : of.phase === "queued" || of.phase === "held" ? "Keep waiting" : "Keep running";
  reason.value = "";
  error.hidden = true;
  reason.oninput = command;
  command();
  $("ask-yes").onclick = copies ? () => copy(of, error) : async () => {
    const answer = await fetch("/act", { method: "POST", body: JSON.stringify({ verb, of: of.id, reason: reason.value }) });
    error.hidden = answer.ok;
    error.textContent = answer.ok ? "" : (await answer.text()).trim();
    if (answer.ok) {
      $("ask").close();
      refresh();
    }
  };
  $("ask").showModal();
}

// copy submits a copy of a job, and opens the page of the copy. The button is disabled meanwhile, so that a double click submits one job.
async function copy(of, error) {
  $("ask-yes").disabled = true;
  try {
    const { job } = await again(of.id);
    $("ask").close();
    page.go(`#/job/${encodeURIComponent(job)}`);
  } catch (e) {
    error.hidden = false;
    error.textContent = e.message;
  }
  $("ask-yes").disabled = false;
}

// ---- output of tasks

let logs;
function closeLogs() {
  logs?.end();
  logs = undefined;
}

// logs shows the output of a rank below the facts of its job.
page.logs = (id, rank) => {
  closeLogs();
  logs = output({ id, rank, ranks: page.detail?.of ?? 1, closed: () => { closeLogs(); paint(); }, choose: (other) => page.logs(id, other) });
  paint();
  logs.element.scrollIntoView({ block: "nearest" });
};

// ---- the stream

// stands returns the phase and the revision of the job in view. The stream may skip intermediate states: a job that was
// running and is running may have moved to other nodes.
function stands() {
  const row = page.state.jobs.get(shown.id);
  return row && `${row.phase} ${row.rev}`;
}

function take(piece) {
  if (piece.out && page.me?.leaves) return location.reload(); // shows the login page
  const before = stands();
  apply(live, piece, !played);
  begun ||= Boolean(piece.fresh);
  if (page.state === live) changed(before);
}

// changed redraws the page. If the job in view has changed since before, it also requests the details again.
function changed(before) {
  $("away").hidden = !page.state.away;
  const { away, barred, now } = page.state;
  $("away").textContent = away ? `${page.state !== live ? "Look back" : barred ? "Not permitted" : `Data may be outdated${
    now ? `, it is from ${new Date(now).toLocaleTimeString()}` : ""}`}: ${away}` : "";
  main.classList.toggle("stale", Boolean(away));
  $("fresh").textContent = page.state.synced ? "" : "loading…";
  if (shown.view === "job" && stands() !== before) {
    page.explained = undefined;
    refresh();
  }
  due();
}

let pending, later, frame;
// due redraws the map once per frame, and other views at most five times per second, or less often if that takes long. In a playback, the map shows each
// moment at once.
function due() {
  if (shown.view === "map" && map) {
    if (map.element.hidden && page.state.boxes.size) paintMap();
    if (played || page.state !== live) map.update();
    else frame ??= requestAnimationFrame(() => { frame = undefined; map?.update(true); });
    return later ??= setTimeout(() => { later = undefined; if (map) paintMap(); }, 200);
  }
  if (shown.view === "over" && !page.state.barred) return; // the stream does not contain these sums
  pending ??= setTimeout(() => { pending = undefined; paint(); }, Math.max(0, drawn + pause - Date.now()));
}

// ---- playback

let then;
function lookBack() {
  if (then) return then.end();
  const opened = back(Math.floor(Date.now() + live.skew), (piece) => {
    const before = stands();
    apply(opened.state, piece);
    changed(before);
  }, turned, () => {
    then = undefined;
    page.state = live;
    answerBy(undefined);
    $("past").setAttribute("aria-pressed", "false");
    changed();
    turned();
    $("past").focus();
  });
  then = opened;
  page.state = then.state;
  answerBy(then.ask);
  document.body.insertBefore(then.element, main);
  $("past").setAttribute("aria-pressed", "true");
  changed();
  paint();
  then.start();
}

// turned requests the data that the stream does not contain, after a change to another time.
function turned() {
  page.explained = page.detail = undefined;
  askStarts();
  refresh();
}

// first shows the nodes before the stream begins: the browser has requested them together with this script. The worker for the stream
// starts when the map is drawn, because both need the processor.
let begun = false;
async function first() {
  if (!/^#\/map/.test(location.hash)) listen();
  else setTimeout(listen, 300);
  const nodes = await askNow("/nodes").catch(() => undefined); // the stream reports the error
  if (nodes && !begun) take(nodes);
  requestAnimationFrame(() => setTimeout(listen));
}

let listens = false;
function listen() {
  if (!listens) receive(take);
  listens = true;
}

addEventListener("hashchange", route);
search(page, $("search"), (word) => { page.find = word; due(); }, (word) => {
  const { jobs, boxes } = page.state;
  if (jobs.has(word)) page.go(`#/job/${encodeURIComponent(word)}`);
  else if (boxes.has(word)) page.go(`#/node/${encodeURIComponent(word)}`);
  else if (!["jobs", "nodes", "queues", "events"].includes(shown.view)) page.go("#/jobs");
});
$("leave").addEventListener("click", async () => {
  await fetch("/logout", { method: "POST" }).catch(() => undefined);
  location.reload();
});
$("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  map?.dress();
});
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, textarea") || $("ask").open) return;
  const view = { m: "map", j: "jobs", n: "nodes", q: "queues", t: "over", e: "events", ...(page.me?.submits ? { s: "submit" } : {}) }[e.key];
  if (e.key === "/") $("find").focus();
  else if (e.key === "p" && !played) lookBack();
  else if (view) page.go(`#/${view}`);
  else return;
  e.preventDefault();
});

if (!location.hash) location.replace("#/map");
if (played) {
  answerBy(played.ask);
  for (const id of ["past", "over"]) $(id).hidden = true; // a recording has neither
  document.body.insertBefore(played.element, main);
}
route();
if (played) {
  played.jump(source.first);
  played.play();
} else first();
$("past").addEventListener("click", lookBack);
document.querySelector(".skip").addEventListener("click", (e) => { // the page reads a # in the address as a view
  e.preventDefault();
  main.focus();
});
setInterval(() => ["over", "queues"].includes(shown.view) && !document.hidden && refresh(), 15_000); // a new sum may exist
setInterval(() => { // the progress and the GPU-hours have changed
  if (shown.view === "job" && page.detail && !page.state.jobs.get(shown.id)?.over && page.state === live && !played && !document.hidden) refresh();
}, 5000);
setInterval(async () => { // the usage changes with the jobs
  if (shown.view !== "queues" || document.hidden) return;
  page.queues = await ask("/queues").catch(() => page.queues);
  if (shown.view === "queues") paint();
}, 5000);
setInterval(askStarts, 5000);
setInterval(() => shown.view === "jobs" && page.labelled && !document.hidden && refresh(), 5000); // new jobs may have the label
askStarts();
setInterval(() => shown.view !== "map" && !$("ask").open && due(), 5000); // ages have changed
ask("/me").then((me) => {
  page.me = me;
  $("leave").hidden = !me.leaves;
  $("submits").hidden = !me.submits;
  $("whom").textContent = `${me.cluster ? `cluster ${me.cluster} · ` : ""}${me.version} · ${me.all
    ? "authentication is off: all users have all rights" : [me.name, me.role].filter(Boolean).join(", ")}`;
  paint();
}, (e) => { $("whom").textContent = e.message; });
