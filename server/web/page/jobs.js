// This file owns the list of jobs: its filters and its order, which are part of the address, and the arrays as one row each.
import { lookOf } from "./looks.js";
import { later } from "./morph.js";
import { chip, empty, h, milli, natural, naturally, partsOf, phase, plural, span, table, when } from "./words.js";

const maxRows = 300;
export const waits = (j) => j.phase === "queued" || j.phase === "held";
const turn = (j) => (waits(j) ? 0 : j.over ? 2 : 1);
const usual = (a, b) => turn(a) - turn(b) || (a.over ? b.finished - a.finished : a.submitted - b.submitted);
const link = (id) => h("a", { href: `#/job/${encodeURIComponent(id)}` }, id);

// leftOf returns the time until the time limit of a running job.
const leftOf = (page, j) => (j.limit && j.started && j.phase === "running" ? Math.max(j.started + j.limit - page.now(), 0) : undefined);

const columns = [
  { name: "Job", key: "job", cls: "id", of: (page, j) => j.id },
  { name: "Name", key: "name", of: (page, j) => j.name },
  { name: "Phase", key: "phase", of: (page, j) => j.phase },
  { name: "Tasks", key: "tasks", cls: "n", of: (page, j) => Number(j.tasks) || 0 },
  { name: "GPUs", key: "gpus", cls: "n", of: (page, j) => j.gpus },
  { name: "Owner", key: "owner", of: (page, j) => j.owner },
  { name: "Queue", key: "queue", of: (page, j) => j.queue ?? "" },
  { name: "Age", key: "age", cls: "n", of: (page, j) => page.now() - j.submitted },
  { name: "Time left", key: "left", cls: "n", of: (page, j) => leftOf(page, j) ?? Infinity },
  { name: "Progress", key: "progress", of: (page, j) => j.progress?.percent ?? -1 },
  { name: "GPU use", key: "use", of: (page, j) => (j.use ? parseInt(j.use, 10) : -1) },
  { name: "Start and reason", cls: "w" },
];

// byColumn returns the order by a column. It computes the value of each job once.
function byColumn(page, column) {
  const known = new Map(), valueOf = (j) => {
    let value = known.get(j);
    if (value === undefined) {
      value = column.of(page, j);
      known.set(j, value = typeof value === "string" ? partsOf(value) : value);
    }
    return value;
  };
  return (one, other) => {
    const a = valueOf(one), b = valueOf(other);
    return a === b ? 0 : Array.isArray(a) ? naturally(a, b) : a < b ? -1 : a > b ? 1 : 0;
  };
}

// orderOf returns the order of the address, such as sort=-gpus. Without one, waiting jobs come first.
function orderOf(page) {
  const text = page.query.get("sort") ?? "", down = text.startsWith("-"), column = columns.find((c) => c.key && c.key === text.slice(down ? 1 : 0));
  const by = column && byColumn(page, column), order = column && ((a, b) => (down ? -1 : 1) * by(a, b) || usual(a, b));
  return { column, down, order: order ?? usual };
}

// keeper returns a function that reports whether a job passes the filters of the address and the search field.
function keeper(page) {
  const { find, labelled } = page, { mine, queue, owner, phase: state, label } = Object.fromEntries(page.query);
  return (j) => (!mine || j.owner === page.me?.name) && (!queue || (j.queue || "–") === queue) && (!owner || j.owner === owner) &&
    (!state || j.phase === state) && (!label || labelled?.label !== label || labelled.ids.has(j.id)) &&
    (!find || [j.id, j.name, j.owner, j.queue, j.phase].some((part) => part?.toLowerCase().includes(find)));
}

// folded returns the rows: jobs, and each array with the number of its elements. The elements of an open array follow it.
function folded(page) {
  const elements = new Map(), open = new Set((page.query.get("open") ?? "").split(",")), { order } = orderOf(page), kept = keeper(page), top = [];
  for (const j of page.state.jobs.values()) {
    const parent = j.parent && page.state.jobs.has(j.parent) ? j.parent : "";
    if (!kept(j)) continue;
    if (!parent) top.push(j);
    else if (elements.has(parent)) elements.get(parent).push(j);
    else elements.set(parent, [j]);
  }
  for (const id of elements.keys()) { // an element passes the filters, so its array is shown
    const array = page.state.jobs.get(id);
    if (!kept(array)) top.push(array);
  }
  return top.sort(order).flatMap((j) => {
    const own = elements.get(j.id) ?? [], opened = open.has(j.id);
    return [{ job: j, elements: own.length, opened }, ...(opened ? own.sort(order).map((job) => ({ job, inside: true })) : [])];
  });
}

function toggled(page, id) {
  const open = new Set((page.query.get("open") ?? "").split(",").filter(Boolean));
  if (!open.delete(id)) open.add(id);
  page.set({ open: [...open].join(",") });
}

// measured returns what nodes have measured of a job. Jobs that do not run, and arrays, have a dash.
const measured = (j, known) => known || (j.phase === "running" && !j.array ? h("span", { class: "soft" }, "not measured") : "–");

function progressOf(j) {
  if (!j.progress) return measured(j);
  const { percent, words } = j.progress;
  return h("span", {}, percent >= 0 && h("progress", { max: "100", value: String(percent), "aria-label": `Progress of ${j.name || j.id}` }), ` ${words}`);
}

// rowOf returns the row of a job, which is made again if one of its texts has changed.
function rowOf(page, { job: j, elements, opened, inside }) {
  const left = leftOf(page, j), age = span(page.now() - j.submitted), ends = left === undefined ? "–" : span(left);
  const reason = [...new Set([page.starts.get(j.id)?.words, j.why])].filter(Boolean).join(" · "), { colour, stripe } = lookOf(j.id);
  const sign = JSON.stringify([j, age, ends, reason, elements, opened, inside, colour, stripe, new Date().getDate()]);
  return later(j.id, sign, () => {
    const n = (text, title) => h("td", { class: "n", title }, text);
    const fold = elements > 0 && h("button", { type: "button", class: "fold", "aria-expanded": String(opened),
      onclick: () => toggled(page, j.id) }, `${opened ? "▾" : "▸"} ${plural(elements, "element")}`);
    return h("tr", { "data-revision": j.rev, "data-key": j.id, class: inside ? "inside" : undefined },
      h("td", { class: "id" }, chip(j.id), link(j.id)), h("td", {}, j.name, fold && [" ", fold]), h("td", { class: "id" }, phase(j.phase)),
      n(j.tasks), n(milli(j.gpus)), h("td", { class: "s" }, j.owner || "–"), h("td", { class: "s" }, j.queue || "–"),
      n(age, when.title(j.submitted)), n(ends, left === undefined ? undefined : `ends ${when.title(j.started + j.limit)}`),
      h("td", { class: "s" }, progressOf(j)), h("td", { class: "s" }, j.gpus ? measured(j, j.use) : "–"),
      h("td", { class: "w" }, when.inText(reason)));
  });
}

// heads returns the column heads. A button sorts by its column, and reverses the order if the list is already sorted by it.
function heads(page) {
  const { column, down } = orderOf(page);
  return columns.map((c) => [c.name, c.cls, c.key && h("button", { type: "button", class: "sort", id: `sort-${c.key}`, title: `Sort by ${c.name}`,
    onclick: () => page.set({ sort: c === column && !down ? `-${c.key}` : c.key }) }, c.name, c === column && (down ? " ↓" : " ↑")),
  c === column ? (down ? "descending" : "ascending") : undefined]);
}

function select(page, key, label, all, none) {
  const now = page.query.get(key) ?? "", options = [...new Set([...all, ...(now ? [now] : [])])].sort(natural);
  return h("label", {}, `${label} `, h("select", { id: `by-${key}`, onchange: (e) => page.set({ [key]: e.target.value }) },
    h("option", { value: "", selected: !now }, none), options.map((one) => h("option", { value: one, selected: one === now }, one))));
}

// filters returns the fields above the list.
function filters(page) {
  const all = [...page.state.jobs.values()], { query } = page, { column, down } = orderOf(page), mine = Boolean(query.get("mine"));
  const names = ["mine", "owner", "queue", "phase", "label"], wrong = page.labelled?.wrong;
  return h("div", { class: "filters", role: "group", "aria-label": "Filters" },
    h("button", { type: "button", id: "by-mine", "aria-pressed": String(mine), onclick: () => page.set({ mine: mine ? "" : "1" }) }, "My jobs"),
    select(page, "owner", "Owner", all.map((j) => j.owner).filter(Boolean), "all"), select(page, "queue", "Queue", all.map((j) => j.queue || "–"), "all"),
    select(page, "phase", "Phase", all.map((j) => j.phase), "all"),
    h("label", {}, "Label ", h("input", { id: "by-label", size: "14", placeholder: "KEY=VALUE", autocomplete: "off", value: query.get("label") ?? "",
      "aria-invalid": wrong ? "true" : undefined, "aria-describedby": wrong ? "label-wrong" : undefined,
      onchange: (e) => page.set({ label: e.target.value.trim() }) })),
    h("label", {}, "Sort by ", h("select", { id: "by-sort", onchange: (e) => page.set({ sort: e.target.value }) },
      h("option", { value: "", selected: !column }, "waiting first"),
      columns.filter((c) => c.key).map((c) => h("option", { value: c.key, selected: c === column }, c.name)))),
    column && h("button", { type: "button", id: "by-down", onclick: () => page.set({ sort: (down ? "" : "-") + column.key }) },
      down ? "Descending ↓" : "Ascending ↑"),
    names.some((name) => query.get(name)) && h("button", { type: "button", id: "by-none",
      onclick: () => page.set(Object.fromEntries(names.map((name) => [name, ""]))) }, "Clear filters"),
    wrong && h("p", { id: "label-wrong", role: "alert", class: "bad" }, wrong));
}

export function jobs(page) {
  const all = folded(page), rows = all.slice(0, maxRows).map((one) => rowOf(page, one));
  const none = !page.state.synced ? "Loading jobs…" : page.state.jobs.size ? "No job matches the search and the filters."
    : `No jobs yet. Submit the first job with ${page.me?.program ?? "synapse-cli"} submit.`;
  return [h("h1", {}, "Jobs"), filters(page), rows.length ? table("Jobs", heads(page), rows) : empty(none),
    all.length > rows.length && h("p", { class: "hint" }, `${all.length - rows.length} more rows. Use the filters or the search field to narrow the list.`)];
}
