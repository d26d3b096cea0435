// How it was over time: sums of minutes, as areas that stand on each other, and what they come to.
import { h, milli, span, table } from "./words.js";

export const spans = { "1 hour": 3600_000, "6 hours": 6 * 3600_000, "1 day": 24 * 3600_000, "1 week": 7 * 24 * 3600_000,
  "1 month": 31 * 24 * 3600_000 };
const points = 240;

// stepOf is how long each point of a span is: no shorter than what is kept.
export const stepOf = (ms) => Math.max(60_000, Math.ceil(ms / points / 60_000) * 60_000);

const states = [["in use", "used"], ["kept for a promise", "kept"], ["free", "free"], ["takes nothing new", "closed", "benched"],
  ["broken or out of reach", "broken", "unreachable"]];

const causes = { no_room: "not enough is free, or not close enough together", nearer_place: "a place closer together is awaited",
  turn: "others go first", no_match: "no machine is of its kind", too_large: "it would not fit were all idle", held: "somebody holds it",
  begins_later: "it is to begin later", evidence: "machines owe evidence of its last attempt", backoff: "it is tried again later",
  planning_halted: "nothing is planned at all", not_looked_at: "nobody has looked yet" };

function svg(tag, props, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const wide = 480, high = 100;

// chart draws layers that stand on each other, and lines across them. Where nothing is known nothing is drawn.
function chart(label, sums, layers, lines, { from, until, step }) {
  const total = (sum) => layers.reduce((n, { of }) => n + of(sum), 0);
  const most = Math.max(...sums.map((sum) => Math.max(total(sum), ...lines.map(({ of }) => of(sum) ?? 0))), 1);
  const x = (at) => ((at - from) / Math.max(until - from, 1)) * wide, y = (n) => high - (n / most) * high;
  const runs = []; // of sums that follow each other
  for (const sum of sums) {
    if (!runs.length || sum.at > runs.at(-1).at(-1).at + 1.5 * step) runs.push([]);
    runs.at(-1).push(sum);
  }
  const picture = svg("svg", { viewBox: `0 0 ${wide} ${high}`, preserveAspectRatio: "none", role: "img", "aria-label": label, class: "chart" });
  const path = (list) => list.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(" ");
  for (const run of runs) {
    const ends = [...run.map((sum) => [sum, sum.at]), [run.at(-1), run.at(-1).at + step]];
    let below = ends.map(() => 0);
    layers.forEach(({ of }, i) => {
      const above = ends.map(([sum], k) => below[k] + of(sum));
      picture.append(svg("polygon", { class: `area${i}`, points: path([...ends.map(([, at], k) => [x(at), y(above[k])]),
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

const day = (ms) => new Date(ms).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
const mean = (sums, of) => sums.reduce((n, sum) => n + of(sum) * sum.of, 0) / Math.max(sums.reduce((n, sum) => n + sum.of, 0), 1);

// figure is a chart with its scale, and what each layer comes to as a table.
function figure(title, sums, layers, lines, range, show, last) {
  const [picture, most] = chart(`${title}, as the table below has it`, sums, layers, lines, range);
  const rows = layers.map(({ name, of }, i) => h("tr", {}, h("td", {}, h("span", { class: `chip key${i}`, "aria-hidden": "true" }), name),
    h("td", { class: "n" }, show(mean(sums, of))), h("td", { class: "n" }, show(Math.max(...sums.map(of)))),
    h("td", { class: "n" }, show(of(sums.at(-1))))));
  return [h("h2", {}, title), h("p", { class: "scale" }, show(most)), picture,
    h("p", { class: "scale ends" }, h("span", {}, day(range.from)), h("span", {}, day(range.until))),
    table(title, [["What"], ["On average", "n"], ["At most", "n"], [last ?? "Last", "n"]], rows)];
}

// choice lets its user say of how long a time.
function choice(page) {
  return h("div", { class: "choice", role: "group", "aria-label": "Of how long a time" }, Object.keys(spans).map((name) =>
    h("button", { type: "button", "aria-pressed": String(name === page.span), onclick: () => page.spanned(name) }, name)));
}

const round = (n) => String(Math.round(n * 10) / 10);
const gpus = (n) => milli(Math.round(n / 100) * 100);

export function over(page) {
  const { sums, range } = page.sums ?? {};
  const head = [h("h1", {}, "Over time"), choice(page)];
  if (!sums) return [...head, h("p", {}, page.trouble || "…")];
  if (!sums.length) return [...head, h("p", {}, "Nothing is kept of this time yet: a sum is made each minute.")];
  const layers = states.map(([name, ...keys]) => ({ name, of: (sum) => keys.reduce((n, key) => n + (sum.gpus?.[key] ?? 0), 0) }));
  const why = [...new Set(sums.flatMap((sum) => Object.keys(sum.waiting ?? {})))]
    .sort((a, b) => mean(sums, (s) => s.waiting?.[b] ?? 0) - mean(sums, (s) => s.waiting?.[a] ?? 0))
    .map((key) => ({ name: causes[key] ?? key, of: (sum) => sum.waiting?.[key] ?? 0 }));
  return [...head, page.since > range.from && h("p", { class: "hint" }, `What is known begins at ${day(Math.max(sums[0].at, range.from))}.`),
    figure("GPUs", sums, layers, [], range, gpus),
    why.length ? figure("Jobs that waited, and why", sums, why, [], range, round)
      : [h("h2", {}, "Jobs that waited, and why"), h("p", {}, "None did.")],
    waits(sums), promises(sums)];
}

// waits are how long jobs had waited that began in the time.
function waits(sums) {
  const all = new Map();
  for (const sum of sums) {
    for (const [size, w] of Object.entries(sum.waits ?? {})) {
      const a = all.get(size) ?? { jobs: 0, ms: 0, most: 0 };
      all.set(size, { jobs: a.jobs + w.jobs, ms: a.ms + w.ms, most: Math.max(a.most, w.most) });
    }
  }
  const sizes = ["none", "up to 1", "2–8", "9–64", "65–512", "more than 512"].filter((size) => all.has(size));
  const title = "How long jobs waited, by the size of the gang";
  if (!sizes.length) return [h("h2", {}, title), h("p", {}, "No job began.")];
  return [h("h2", {}, title), table(title, [["GPUs"], ["Jobs that began", "n"], ["Waited on average", "n"], ["At most", "n"]],
    sizes.map((size) => [size, all.get(size)]).map(([size, w]) => h("tr", {}, h("td", {}, size), h("td", { class: "n" }, String(w.jobs)),
      h("td", { class: "n" }, span(w.ms / w.jobs)), h("td", { class: "n" }, span(w.most)))))];
}

// promises are by how much what jobs were told first was wrong.
function promises(sums) {
  const all = sums.reduce((a, { promises: p = {} }) => ({ jobs: a.jobs + (p.jobs ?? 0), late: a.late + (p.late ?? 0),
    early: a.early + (p.early ?? 0), near: a.near + (p.near ?? 0) }), { jobs: 0, late: 0, early: 0, near: 0 });
  const title = "What jobs were told of their start, and when they started";
  if (!all.jobs) return [h("h2", {}, title), h("p", {}, "No job began that had been told when it would.")];
  const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];
  return [h("h2", {}, title), h("dl", { class: "facts" }, fact("Jobs that were told and began", String(all.jobs)),
    fact("Within 5 minutes of it", `${Math.round((100 * all.near) / all.jobs)}%`),
    fact("Later than told, on average of all", span(all.late / all.jobs)), fact("Earlier, likewise", span(all.early / all.jobs)))];
}

const maxQueues = 12;

// queuesOver are the queues over time: what each had of what it is assured of, and what it had beyond that.
export function queuesOver(page) {
  const { sums, range } = page.sums ?? {};
  if (!sums?.length) return [h("h2", {}, "Over time"), choice(page), h("p", { class: "hint" }, sums ? "Nothing is kept of this time yet." : "…")];
  const all = (sum) => Object.values(sum.gpus ?? {}).reduce((n, one) => n + one, 0);
  const use = (name) => (sum) => sum.queues?.[name]?.use ?? 0, quota = (name) => (sum) => sum.queues?.[name]?.quota;
  const beyond = (name) => (sum) => (quota(name)(sum) === undefined ? 0 : Math.max(use(name)(sum) - quota(name)(sum), 0));
  const names = [...new Set(sums.flatMap((sum) => Object.keys(sum.queues ?? {})))].sort((a, b) => mean(sums, use(b)) - mean(sums, use(a)));
  const rows = names.map((name) => h("tr", {}, h("td", {}, name || "–"), h("td", { class: "n" }, gpus(mean(sums, use(name)))),
    h("td", { class: "n" }, `${Math.round((100 * mean(sums, use(name))) / Math.max(mean(sums, all), 1))}%`),
    h("td", { class: "n" }, quota(name)(sums.at(-1)) === undefined ? "–" : gpus(quota(name)(sums.at(-1)))),
    h("td", { class: "n" }, gpus(mean(sums, beyond(name)))), h("td", { class: "n" }, gpus(mean(sums, (sum) => sum.queues?.[name]?.asked ?? 0)))));
  return [h("h2", {}, "Over time"), choice(page), table("Queues over time", [["Queue"], ["GPUs on average", "n"], ["Share of all", "n"],
    ["Quota", "n"], ["Borrowed on average", "n"], ["Waited for on average", "n"]], rows),
  names.slice(0, maxQueues).map((name) => {
    const [picture, most] = chart(`GPUs of ${name || "no queue"} over time; the table above has the averages`, sums,
      [{ of: (sum) => use(name)(sum) - beyond(name)(sum) }, { of: beyond(name) }], [{ of: quota(name) }], range);
    return h("section", { class: "small" }, h("h3", {}, name || "–"), h("p", { class: "scale" }, gpus(most)), picture);
  }), h("p", { class: "hint" }, h("span", { class: "chip key0", "aria-hidden": "true" }), "in use ", h("span", { class: "chip key1",
    "aria-hidden": "true" }), "borrowed beyond the quota, which is the line")];
}
