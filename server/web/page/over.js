// This file owns the timeline: per-minute sums as stacked area charts and tables.
import { empty, forbidden, h, milli, span, table, when } from "./words.js";

export const spans = { "1 hour": 3600_000, "6 hours": 6 * 3600_000, "1 day": 24 * 3600_000, "1 week": 7 * 24 * 3600_000,
  "1 month": 31 * 24 * 3600_000 };
const points = 240;

// stepOf returns the duration of each point of a chart: at least one minute, the resolution of the stored sums.
export const stepOf = (ms) => Math.max(60_000, Math.ceil(ms / points / 60_000) * 60_000);

// classes lists the classes of `synapse-cli efficiency`, from bottom to top. A class has the same colour as the equivalent
// state. GPU time that is lost later counts as productive in the chart; a separate table shows it.
const classes = [["productive", "productive", 0], ["starting", "starting", 5], ["stopping", "stopping", 6], ["reserved", "kept", 1],
  ["idle with demand", "idle_wanted", 7], ["idle without demand", "idle_unwanted", 2], ["unschedulable", "closed", 3],
  ["broken or unreachable", "broken", 4]];

// states lists the states in sums of earlier versions, which have no classes.
const states = [["in use", "used"], ["reserved", "kept"], ["free", "free"], ["unschedulable or backed off", "closed", "benched"],
  ["broken or unreachable", "broken", "unreachable"]];

// causes maps the reasons in sums of earlier versions to the codes of today.
const causes = { no_room: "Resources", nearer_place: "Topology", turn: "Priority", no_match: "NodeSelector", too_large: "Infeasible",
  held: "Held", begins_later: "BeginTime", evidence: "Unconfirmed", backoff: "Backoff", planning_halted: "Halted",
  not_looked_at: "Evaluating", limit: "QueueLimit" };

function svg(tag, props, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const wide = 480, high = 100;

// chart draws stacked layers and lines over them. Times without data stay empty.
function chart(label, sums, layers, lines, { from, until, step }) {
  const total = (sum) => layers.reduce((n, { of }) => n + of(sum), 0);
  const most = Math.max(...sums.map((sum) => Math.max(total(sum), ...lines.map(({ of }) => of(sum) ?? 0))), 1);
  const x = (at) => ((at - from) / Math.max(until - from, 1)) * wide, y = (n) => high - (n / most) * high;
  const runs = []; // consecutive sums
  for (const sum of sums) {
    if (!runs.length || sum.at > runs.at(-1).at(-1).at + 1.5 * step) runs.push([]);
    runs.at(-1).push(sum);
  }
  const picture = svg("svg", { viewBox: `0 0 ${wide} ${high}`, preserveAspectRatio: "none", role: "img", "aria-label": label, class: "chart" });
  const path = (list) => list.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(" ");
  for (const run of runs) {
    const ends = [...run.map((sum) => [sum, sum.at]), [run.at(-1), run.at(-1).at + step]];
    let below = ends.map(() => 0);
    layers.forEach(({ of, look }, i) => {
      const above = ends.map(([sum], k) => below[k] + of(sum));
      picture.append(svg("polygon", { class: `area${look ?? i}`, points: path([...ends.map(([, at], k) => [x(at), y(above[k])]),
        ...ends.map(([, at], k) => [x(at), y(below[k])]).reverse()]) }));
      below = above;
    });
    for (const { of } of lines) {
      const known = ends.filter(([sum]) => of(sum) !== undefined);
      if (known.length) picture.append(svg("polyline", { class: "mark", points: path(known.map(([sum, at]) => [x(at), y(of(sum))])) }));
    }
  }
  return [picture, most];
}

const day = (time) => new Date(time).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
const mean = (sums, of) => sums.reduce((n, sum) => n + of(sum) * sum.of, 0) / Math.max(sums.reduce((n, sum) => n + sum.of, 0), 1);

const numbers = (...all) => all.map((one) => h("td", { class: "n" }, one));

// figure returns a chart with its scale, and a table with one row per layer. More adds columns to the table.
function figure(title, sums, layers, range, show, average = (of) => mean(sums, of), more = []) {
  const [picture, most] = chart(`${title}; the table below has the same data`, sums, layers, [], range);
  const rows = layers.map((layer, i) => h("tr", {}, h("td", {}, h("span", { class: `chip key${layer.look ?? i}`, "aria-hidden": "true" }),
    layer.name), numbers(...more.map(([, value]) => value(layer)), show(average(layer.of)), show(Math.max(...sums.map(layer.of))),
    show(layer.of(sums.at(-1))))));
  return [h("h2", {}, title), h("p", { class: "scale" }, show(most)), picture,
    h("p", { class: "scale ends" }, when(range.from, day), when(range.until, day)),
    table(title, [["Kind"], ...more.map(([name]) => [name, "n"]), ["Average", "n"], ["Maximum", "n"], ["Last", "n"]], rows)];
}

// choice returns the buttons that select the time range.
function choice(page) {
  return h("div", { class: "choice", role: "group", "aria-label": "Time range" }, Object.keys(spans).map((name) =>
    h("button", { type: "button", "aria-pressed": String(name === page.span), onclick: () => page.spanned(name) }, name)));
}

const round = (n) => String(Math.round(n * 10) / 10);
const percent = (n, all) => `${(100 * n / Math.max(all, 1)).toFixed(1)}%`;
const gpus = (n) => milli(Math.round(n / 100) * 100);

const hours = (amount) => (amount / 3600_000_000).toFixed(amount < 36e10 ? 2 : 0); // from thousandths of a GPU times milliseconds

// classesOf returns the chart of GPUs by class. Productive time includes time that is lost later: a gang can lose work from
// before the time range, and a difference could be negative.
function classesOf(sums, range) {
  const known = sums.filter(({ time }) => time?.ms);
  if (!known.length) {
    return figure("GPUs", sums, states.map(([name, ...keys]) => ({ name, of: (sum) => keys.reduce((n, key) => n + (sum.gpus?.[key] ?? 0), 0) })),
      range, gpus);
  }
  const all = (amount) => known.reduce((n, { time }) => n + amount(time), 0), ms = all((time) => time.ms), capacity = all((time) => time.capacity);
  const layers = classes.map(([name, key, look]) => {
    const amount = ({ of }) => Math.max((of[key] ?? 0) + (key === "productive" ? of.lost ?? 0 : 0), 0);
    return { name, look, amount, of: ({ time }) => amount(time) / time.ms };
  });
  const lost = new Map();
  for (const { time } of known) for (const [cause, n] of Object.entries(time.lost ?? {})) lost.set(cause, (lost.get(cause) ?? 0) + n);
  const title = "Lost GPU time";
  return [figure("GPUs by class", known, layers, range, gpus, (of) => all((time) => of({ time }) * time.ms) / ms,
    [["GPU-hours", ({ amount }) => hours(all(amount))], ["Share", ({ amount }) => percent(all(amount), capacity)]]),
  sums[0].at < known[0].at - 2 * range.step && h("p", { class: "hint" }, `The classes are known from ${day(known[0].at)} on.`),
  h("h2", {}, title), !lost.size ? h("p", {}, "No GPU time was lost.")
    : table(title, [["Cause"], ["GPU-hours", "n"]], [...lost].sort(([, a], [, b]) => b - a)
      .map(([cause, n]) => h("tr", {}, h("td", {}, cause), numbers(hours(n))))),
  lost.size > 0 && h("p", { class: "hint" }, "The table shows all work that was lost when gangs ended in this time range, including work from before this time range.")];
}

export function over(page) {
  const { sums, range } = page.sums ?? {};
  const head = [h("h1", {}, "Over time"), choice(page)];
  if (page.trouble) return [...head, page.forbidden ? forbidden(page.trouble) : empty(page.trouble)];
  if (!sums) return [...head, empty("Loading…")];
  if (!sums.length) return [...head, empty("No data for this time range yet. One data point is stored per minute.")];
  const why = [...new Set(sums.flatMap((sum) => Object.keys(sum.waiting ?? {})))]
    .sort((a, b) => mean(sums, (s) => s.waiting?.[b] ?? 0) - mean(sums, (s) => s.waiting?.[a] ?? 0))
    .map((key) => ({ name: causes[key] ?? key, of: (sum) => sum.waiting?.[key] ?? 0 }));
  return [...head, page.since > range.from && h("p", { class: "hint" }, `Data begins at ${day(Math.max(sums[0].at, range.from))}.`),
    classesOf(sums, range),
    why.length ? figure("Waiting jobs by reason", sums, why, range, round)
      : [h("h2", {}, "Waiting jobs by reason"), h("p", {}, "No job waited.")],
    waits(sums), promises(sums)];
}

// waits returns the waiting times of the jobs that started in the time range.
function waits(sums) {
  const all = new Map();
  for (const sum of sums) {
    for (const [size, w] of Object.entries(sum.waits ?? {})) {
      const a = all.get(size) ?? { jobs: 0, ms: 0, most: 0 };
      all.set(size, { jobs: a.jobs + w.jobs, ms: a.ms + w.ms, most: Math.max(a.most, w.most) });
    }
  }
  const sizes = ["none", "up to 1", "2–8", "9–64", "65–512", "more than 512"].filter((size) => all.has(size));
  const title = "Waiting time by gang size";
  if (!sizes.length) return [h("h2", {}, title), h("p", {}, "No job started.")];
  return [h("h2", {}, title), table(title, [["GPUs"], ["Jobs started", "n"], ["Average wait", "n"], ["Longest wait", "n"]],
    sizes.map((size) => [size, all.get(size)]).map(([size, w]) => h("tr", {}, h("td", {}, size), h("td", { class: "n" }, String(w.jobs)),
      h("td", { class: "n" }, span(w.ms / w.jobs)), h("td", { class: "n" }, span(w.most)))))];
}

// promises returns the errors of the first start estimates.
function promises(sums) {
  const all = sums.reduce((a, { promises: p = {} }) => ({ jobs: a.jobs + (p.jobs ?? 0), late: a.late + (p.late ?? 0),
    early: a.early + (p.early ?? 0), near: a.near + (p.near ?? 0) }), { jobs: 0, late: 0, early: 0, near: 0 });
  const title = "Estimated and actual start times";
  if (!all.jobs) return [h("h2", {}, title), h("p", {}, "No job that had a start estimate started in this time range.")];
  const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];
  return [h("h2", {}, title), h("dl", { class: "facts" }, fact("Started jobs that had an estimate", String(all.jobs)),
    fact("Started within 5 minutes of the estimate", `${Math.round((100 * all.near) / all.jobs)}%`),
    fact("Average time by which jobs started after the estimate", span(all.late / all.jobs)),
    fact("Average time by which jobs started before the estimate", span(all.early / all.jobs)))];
}

const maxQueues = 12;

// queuesOver returns the usage of each queue over time, within its quota and borrowed.
export function queuesOver(page) {
  const { sums, range } = page.sums ?? {};
  if (!sums?.length) return [h("h2", {}, "Usage over time"), choice(page), h("p", { class: "hint" }, sums ? "No data for this time range yet." : "…")];
  const all = (sum) => Object.values(sum.gpus ?? {}).reduce((n, one) => n + one, 0);
  const use = (name) => (sum) => sum.queues?.[name]?.use ?? 0, quota = (name) => (sum) => sum.queues?.[name]?.quota;
  const beyond = (name) => (sum) => (quota(name)(sum) === undefined ? 0 : Math.max(use(name)(sum) - quota(name)(sum), 0));
  const names = [...new Set(sums.flatMap((sum) => Object.keys(sum.queues ?? {})))].sort((a, b) => mean(sums, use(b)) - mean(sums, use(a)));
  const rows = names.map((name) => h("tr", {}, h("td", {}, name || "–"), h("td", { class: "n" }, gpus(mean(sums, use(name)))),
    h("td", { class: "n" }, `${Math.round((100 * mean(sums, use(name))) / Math.max(mean(sums, all), 1))}%`),
    h("td", { class: "n" }, quota(name)(sums.at(-1)) === undefined ? "–" : gpus(quota(name)(sums.at(-1)))),
    h("td", { class: "n" }, gpus(mean(sums, beyond(name)))), h("td", { class: "n" }, gpus(mean(sums, (sum) => sum.queues?.[name]?.asked ?? 0)))));
  return [h("h2", {}, "Usage over time"), choice(page), table("Queues over time", [["Queue"], ["Average GPUs", "n"], ["Share of cluster", "n"],
    ["Quota", "n"], ["Average borrowed", "n"], ["Average requested", "n"]], rows),
  names.slice(0, maxQueues).map((name) => {
    const [picture, most] = chart(`GPUs of ${name || "no queue"} over time; the averages are in the table above`, sums,
      [{ of: (sum) => use(name)(sum) - beyond(name)(sum) }, { of: beyond(name) }], [{ of: quota(name) }], range);
    return h("section", { class: "small" }, h("h3", {}, name || "–"), h("p", { class: "scale" }, gpus(most)), picture);
  }), h("p", { class: "hint" }, h("span", { class: "chip key0", "aria-hidden": "true" }), "in use ", h("span", { class: "chip key1",
    "aria-hidden": "true" }), "borrowed; the line is the quota")];
}
