// This file owns the views. Each returns its elements from the state, and is called again when the state changes.
import { waits } from "./jobs.js";
import { later } from "./morph.js";
import { bytes, chip, empty, forbidden, h, inOrder, milli, phase, plural, span, table, when } from "./words.js";

const maxRows = 300;
const live = (state) => [...state.jobs.values()].filter((j) => !j.over && !j.array); // an array counts by its elements
const age = (page, ms) => (ms ? span(Date.now() + page.state.skew - ms) : "–");
const link = (kind, id, text = id) => h("a", { href: `#/${kind}/${encodeURIComponent(id)}` }, text);

function fits(text, parts) {
  return !text || parts.some((part) => part?.toLowerCase().includes(text));
}

function more(all, shown) {
  return all > shown && h("p", { class: "hint" }, `${all - shown} more rows. Use the search field to narrow the list.`);
}

// figures returns the summary above the map and above the table of nodes.
export function figures(page) {
  const boxes = [...page.state.boxes.values()], jobs = live(page.state), waiting = jobs.filter((j) => j.phase === "queued");
  const sum = (list, of) => list.reduce((n, one) => n + of(one), 0);
  const open = boxes.filter((b) => b.state === "up");
  const whole = open.filter((b) => b.gpu[1] && b.gpu[0] === 0);
  const facts = [
    ["GPUs in use", `${milli(sum(boxes, (b) => b.gpu[0]))} of ${milli(sum(boxes, (b) => b.gpu[1]))}`],
    ["GPUs free on schedulable nodes", milli(sum(open, (b) => b.gpu[1] - b.gpu[0]))],
    ["GPUs free on idle nodes", milli(sum(whole, (b) => b.gpu[1]))],
    ["running jobs", String(jobs.length - jobs.filter(waits).length)],
    ["queued jobs", String(waiting.length)],
    ["GPUs requested by queued jobs", milli(sum(waiting, (j) => j.gpus))],
    ["unavailable nodes", String(boxes.length - open.length)],
  ];
  return h("dl", { class: "figures" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function nodes(page) {
  const all = inOrder([...page.state.boxes.values()].filter((b) => fits(page.find, [b.id, b.state, b.why, b.note,
    ...(b.place ?? []), ...(b.jobs ?? [])])), (b) => b.id);
  const rows = all.slice(0, maxRows).map((b) => later(b.id, JSON.stringify([b, new Date().getDate()]), () => h("tr", { "data-key": b.id },
    h("td", { class: "id" }, link("node", b.id)), h("td", {}, phase(b.state)), h("td", {}, (b.place ?? []).join("/")),
    h("td", { class: "n" }, `${milli(b.gpu[0])}/${milli(b.gpu[1])}`), h("td", { class: "n" }, `${milli(b.cpu[0])}/${milli(b.cpu[1])}`),
    h("td", { class: "n" }, `${bytes(b.mem[0])}/${bytes(b.mem[1])}`), h("td", { class: "n" }, String(b.jobs?.length ?? 0)),
    h("td", { class: "w" }, when.inText([b.why, b.note && `note by ${b.note}`].filter(Boolean).join("; "))))));
  const none = !page.state.synced ? "Loading nodes…" : page.state.boxes.size ? "No node matches the search."
    : "No nodes yet. Start synapse-node on each host: the node then appears here.";
  return [h("h1", {}, "Nodes"), figures(page), rows.length === 0 ? empty(none) : table("Nodes", [["Node"], ["State"], ["Topology domain"], ["GPUs", "n"], ["CPUs", "n"],
    ["Memory", "n"], ["Jobs", "n"], ["Reason and note"]], rows), more(all.length, rows.length)];
}

// usageOf returns the usage of each queue. The scheduler sends it. During playback, or if the scheduler does not send it,
// usageOf counts the jobs.
function usageOf(page) {
  const described = page.queues?.queues ?? [];
  if (page.queues?.usage) return page.queues.usage;
  const sums = new Map();
  const of = (name) => {
    if (!sums.has(name)) sums.set(name, { queue: name, use: 0, running: 0, waiting: 0, asked: 0, held: 0, oldest: 0 });
    return sums.get(name);
  };
  const parents = new Map(described.map((q) => [q.name, q.parent]));
  for (const q of described) of(q.name);
  for (const j of live(page.state)) {
    for (let name = j.queue || page.queues?.default || ""; name !== undefined; name = parents.get(name)) {
      const q = of(name);
      if (j.phase === "held") q.held++;
      else if (j.phase === "queued") {
        q.waiting++;
        q.asked += j.gpus;
        q.oldest = q.oldest ? Math.min(q.oldest, j.submitted) : j.submitted;
      } else {
        q.running++;
        q.use += j.gpus;
      }
      if (!parents.get(name)) break;
    }
  }
  return [...sums.values()];
}

// ownersOf returns the owners of a queue: its own list, and the lists of its parent queues, which also apply.
function ownersOf(described, name) {
  const named = (list) => list.slice(0, 5).join(", ") + (list.length > 5 ? ` and ${list.length - 5} more` : "");
  const lists = [];
  for (let q = described.find((one) => one.name === name); q; q = described.find((one) => one.name === q.parent)) {
    if (q.owners) lists.push((q.name === name ? "" : `in ${q.name}: `) + named(q.owners));
  }
  const mine = described.find((one) => one.name === name)?.barred ? " (you cannot submit to this queue)" : "";
  return (lists.join("; ") || "all users") + mine;
}

export function queues(page) {
  const described = page.queues?.queues ?? [], owned = described.some((q) => q.owners);
  const quota = (name, what) => {
    const q = described.find((one) => one.name === name)?.[what]?.gpu;
    return q === undefined ? "–" : milli(q);
  };
  const rows = usageOf(page).filter((q) => fits(page.find, [q.queue || "–"])).map((q) => h("tr", {},
    h("td", {}, q.queue || "–"), h("td", { class: "n" }, quota(q.queue, "quota")), h("td", { class: "n" }, quota(q.queue, "limit")),
    h("td", { class: "n" }, milli(q.use)), h("td", { class: "n" }, String(q.running)), h("td", { class: "n" }, String(q.waiting)),
    h("td", { class: "n" }, milli(q.asked)), h("td", { class: "n" }, String(q.held)), h("td", { class: "n" }, age(page, q.oldest)),
    owned && h("td", {}, ownersOf(described, q.queue))));
  if (page.trouble) return [h("h1", {}, "Queues"), page.forbidden ? forbidden(page.trouble) : empty(page.trouble)];
  if (!page.queues) return [h("h1", {}, "Queues"), empty("Loading queues…")];
  if (!rows.length) return [h("h1", {}, "Queues"), empty(page.find ? "No queue matches the search." : "No queues yet. A queue appears with its first job.")];
  return [h("h1", {}, "Queues"), described.length === 0 && h("p", { class: "hint" },
    "No queues are configured. The table shows the queue names of the jobs."),
  table("Queues", [["Queue"], ["Quota", "n"], ["Limit", "n"], ["GPUs in use", "n"], ["Running", "n"], ["Waiting", "n"],
    ["GPUs requested", "n"], ["Held", "n"], ["Longest wait", "n"], ...(owned ? [["Owners"]] : [])], rows), page.queuesOver?.(page)];
}

// toldOf shows an event: its time, the name of the job or node, and what has changed. An event of another day has a date.
function toldOf(page, t) {
  const at = t.of.indexOf("/"), kind = t.of.slice(0, at), id = t.of.slice(at + 1), start = `${kind} ${id} `;
  const name = t.name || (kind === "job" && page.state.jobs.get(id)?.name) || id;
  const today = new Date(t.at).toDateString() === new Date(page.now()).toDateString();
  return later(`${t.at} ${t.of} ${t.text}`, `${name} ${today}`, () => h("li", {},
    when(t.at, (date) => (today ? date.toLocaleTimeString() : date.toLocaleString())), link(kind, id, name), " ",
    name !== id && h("span", { class: "soft" }, `${id} `), when.inText(t.text.startsWith(start) ? t.text.slice(start.length) : t.text, t.at)));
}

const toldAs = (page, all) => Object.assign(h("ul", { class: "told" }), { wanted: all.map((t) => toldOf(page, t)) });

export function events(page) {
  const all = page.state.told.filter((t) => fits(page.find, [t.of, t.text, t.name])).slice(-maxRows).reverse();
  const none = !page.state.synced ? "Loading events…" : page.state.told.length ? "No event matches the search."
    : "No events yet. Changes of jobs and nodes appear here.";
  return [h("h1", {}, "Events"), h("p", { class: "hint" }, "Recent changes, newest first."), all.length ? toldAs(page, all) : empty(none)];
}

// lately returns the recent changes of one job or node that the page has received.
export function lately(page, of) {
  const all = page.state.told.filter((t) => t.of === of).reverse();
  return all.length > 0 && [h("h2", {}, "Recent changes"), toldAs(page, all)];
}

export function node(page, id) {
  const box = page.state.boxes.get(id);
  if (!box) return [h("h1", {}, id), empty(page.state.synced ? "Node not found. It may have been removed." : "Loading the node…")];
  const facts = h("dl", { class: "facts" });
  const fact = (name, ...value) => value.some(Boolean) && facts.append(h("dt", {}, name), h("dd", {}, ...value));
  fact("State", phase(box.state));
  fact("Reason", ...when.inText(box.why ?? ""));
  fact("Note", ...when.inText(box.note ?? ""));
  fact("Topology", (box.place ?? []).join(" / "));
  fact("GPUs", `${milli(box.gpu[0])} of ${milli(box.gpu[1])} in use`);
  fact("CPUs", `${milli(box.cpu[0])} of ${milli(box.cpu[1])} in use`);
  fact("Memory", `${bytes(box.mem[0])} of ${bytes(box.mem[1])} in use`);
  fact("Unconfirmed allocations", box.debts ? String(box.debts) : "");
  const of = page.kept.get(id);
  fact("Reserved for", ...(of ?? []).flatMap((j) => [link("job", j), " "]));
  const rows = (box.gpus ?? []).map((g, i) => h("tr", {}, h("td", { class: "n" }, String(i)), h("td", {}, g.type ?? box.type ?? ""),
    h("td", {}, g.lost ? h("span", { class: "bad" }, "out of service") : (g.taken ?? 0) < 1000 ? `${milli(1000 - (g.taken ?? 0))} free` : "in use"),
    h("td", { class: "w" }, (g.jobs ?? []).flatMap((j) => [chip(j), link("job", j, page.state.jobs.get(j)?.name || j), " "]))));
  return [h("h1", {}, id), facts, page.buttons("node", box), rows.length > 0 && [h("h2", {}, "GPUs"),
    table("GPUs", [["GPU", "n"], ["Type"], ["State"], ["Jobs"]], rows)], lately(page, `node/${id}`)];
}
