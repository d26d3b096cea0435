// This file owns the page of a job: its facts, its timeline, its ranks and its attempts.
import { lately } from "./views.js";
import { brief, bytes, chip, empty, forbidden, h, milli, phase, plural, span, table, when } from "./words.js";

const maxRows = 300;
const link = (kind, id, text = id) => h("a", { href: `#/${kind}/${encodeURIComponent(id)}` }, text);

// timeline draws the phases of a job: waiting, and for each attempt reserving, preparing, starting and running. Attempts of
// earlier versions, and attempts during a change of the leader, have fewer phases.
function timeline(page, row, attempts) {
  const now = Date.now() + page.state.skew, end = row.over ? row.finished || now : now, whole = Math.max(end - row.submitted, 1);
  const lane = h("div", { class: "lane", role: "img" }), all = [];
  let at = row.submitted;
  const part = (cls, until, what, known) => { // a known phase is drawn even if it took no time
    if (until < at && known) until = at;
    if (until < at || (until === at && !known)) return;
    all.push(`${what}: ${brief(until - at)}`);
    const piece = h("span", { class: cls, title: all.at(-1) });
    piece.style.width = `${(100 * (until - at)) / whole}%`;
    lane.append(piece);
    at = until;
  };
  for (const a of attempts) {
    part("waited", a.committed - (a.reserving ?? 0), "waited");
    part("reserved", a.committed, "reserved nodes", a.reserving);
    const ended = a.ended || end, began = a.started || ended;
    if (a.preparing) {
      part("made", Math.min(a.committed + a.preparing, began), "prepared nodes", true);
      part("reserved", began, "started tasks", true);
    } else {
      part("made", began, "prepared and started");
    }
    if (a.started) part("ran", ended, `attempt ${a.run} ran`);
  }
  part("waited", end, row.over ? "after the last attempt" : "waiting");
  lane.setAttribute("aria-label", all.join(", ") || "Just submitted");
  return lane;
}

// steps lists what has happened to a job, and its planned start, in the order of time.
function steps(page, row, d) {
  const all = [], add = (at, what, ...more) => at && all.push({ at, what, more });
  add(row.submitted, "submitted", row.owner && `by ${row.owner}`);
  for (const a of d.attempts ?? []) {
    const of = `attempt ${a.run}`;
    if (a.told) add(a.told.at, "planned", `for ${of}, first estimated for `, when(a.told.at + a.told.expected));
    if (a.reserving) add(a.committed - a.reserving, "reserving", `nodes for ${of}`);
    add(a.committed, "reserved", `nodes for ${of}`);
    if (a.preparing) add(a.committed + a.preparing, "prepared", `nodes of ${of}`);
    add(a.started, "started", `tasks of ${of}`);
    add(a.ended, "ended", `${of}: ${a.cause ?? "unknown cause"}`, a.detail && `, ${a.detail}`);
  }
  if (d.warning?.ends) add(d.warning.at, "warned", `${d.warning.cause}, the tasks end at `, when(d.warning.ends));
  else if (d.warning) add(d.warning.at, "notified", d.warning.cause);
  if (row.over) add(row.finished, "finished", row.phase);
  const start = page.starts.get(row.id) ?? d.start, now = page.now();
  if (!row.over && start?.at > now) add(start.at, "planned start", start.latest > now && ["guaranteed by ", when(start.latest)]);
  if (row.phase === "running" && row.limit && row.started) add(row.started + row.limit, "time limit", "ends the attempt");
  all.sort((a, b) => a.at - b.at); // a stable sort
  return h("ol", { class: "told steps", "aria-label": "Timeline" }, all.map(({ at, what, more }) =>
    h("li", { class: at > now ? "soft" : undefined }, when(at), h("strong", {}, what), " ", ...more.flat().filter(Boolean))));
}

// hours formats an amount of thousandths of a GPU times milliseconds as GPU-hours.
const hours = (amount) => {
  const n = amount / 3600_000_000;
  return n < 0.1 ? String(Number(n.toPrecision(2))) : n.toFixed(n < 100 ? 2 : 0);
};

export function job(page, id) {
  const row = { ...page.detail?.row, ...page.state.jobs.get(id) }; // lists do not contain the start time
  if (!row.id) return [h("h1", {}, id), !page.state.synced ? empty("Loading the job…") : page.forbidden ? forbidden(page.trouble)
    : empty(page.trouble || "Job not found. The list has only recent jobs; synapse-cli history has all finished ones.")];
  const d = page.detail, facts = h("dl", { class: "facts" });
  const fact = (name, ...value) => value.some(Boolean) && facts.append(h("dt", {}, name), h("dd", {}, ...value));
  fact("Phase", phase(row.phase));
  fact("Reason", ...when.inText(row.why ?? ""));
  fact("Starts", ...when.inText((page.starts.get(id) ?? d?.start)?.words.replace(/^starts /, "") ?? ""));
  fact("Owner", row.owner);
  fact("Queue", row.queue);
  fact("Requests", d?.asks?.map((a) => (a.what === "memory" ? bytes(a.total) : milli(a.total)) + ` ${a.what}`).join(", "),
    ` in ${plural(Number(row.tasks) || 0, "task")}`.replace(" in 0 tasks", ""));
  const done = d?.progress;
  fact("Progress", done && done.percent >= 0 && h("progress", { max: "100", value: String(done.percent), "aria-label": "Progress" }),
    done && ` ${done.words}`);
  if (!done && row.phase === "running") fact("Progress", h("span", { class: "soft" }, "not measured"));
  fact("Steps", done?.steps);
  fact("Slow", done?.slow);
  fact("Metrics", done?.metrics);
  const use = d?.use, unknown = h("span", { class: "soft" }, "not measured");
  if (row.phase === "running") {
    fact("CPU use", use ? `${use.cpu} cores` : unknown.cloneNode(true));
    fact("Memory use", use ? `${bytes(use.memory)}, highest peak of a task ${bytes(use.peak)}` : unknown.cloneNode(true));
    if (row.gpus) fact("GPU use", use?.gpu ? `${use.gpu}, ${use.hour} in the last hour` : unknown);
    fact("Idle", use?.idle > 0 && `for ${span(use.idle)}`);
  }
  fact("Time limit", d?.limit ? span(d.limit) : "");
  fact("Submitted", when(row.submitted));
  fact("Started", row.started ? when(row.started) : "");
  fact("Finished", row.finished ? when(row.finished) : "");
  fact("GPU-hours", d?.used > 0 && `${hours(d.used)} used, ${d.lost > 0 ? hours(d.lost) : "none"} lost`);
  fact("Attempts", row.runs ? String(row.runs) : "");
  fact("Unconfirmed on", d?.debts?.join(", "));
  fact("Location", d?.ranks?.length > 0 && !row.over && link("map", id, "show on the map"));
  const kept = (page.starts.get(id) ?? d?.start)?.kept ?? [];
  fact("Reserved nodes", ...kept.slice(0, 16).flatMap((n) => [link("node", n), " "]));
  return [h("h1", {}, chip(id), `${row.name || id} `, h("span", { class: "soft" }, id)), facts,
    page.buttons("job", row), page.reason(id, row), d && [h("h2", {}, "Timeline"), timeline(page, row, d.attempts ?? []), steps(page, row, d)],
    ranks(page, row, d), attempts(d), lately(page, `job/${id}`)];
}

function ranks(page, { id, owner }, d) {
  if (!d?.ranks?.length) return undefined;
  const reads = page.may("read-logs", owner);
  const exit = (e) => (!e ? "" : e.signal ? `signal ${e.signal}` : `${e.code}${e.oom ? ", out of memory" : ""}`);
  const rows = d.ranks.map((r) => h("tr", {}, h("td", { class: "n" }, String(r.rank)),
    h("td", {}, link("node", r.node)), h("td", { class: "n" }, String(r.gpus?.length ?? 0)), h("td", {}, exit(r.exit)),
    h("td", { class: "n" }, r.exit?.peak ? bytes(r.exit.peak) : ""),
    reads && h("td", {}, h("button", { type: "button", onclick: () => page.logs(id, r.rank) }, `Output of ${r.rank}`)),
    h("td", { class: "w" }, r.exit?.detail ?? "")));
  return [h("h2", {}, "Ranks"), table("Ranks", [["Rank", "n"], ["Node"], ["GPUs", "n"], ["Exit"], ["Peak memory", "n"], ...(reads ? [["Output"]] : []), ["Detail"]], rows),
    turn(page, d), !reads && h("p", { class: "hint" }, "Your role may not read the output of this job.")];
}

// turn returns the buttons that show earlier and later ranks.
function turn(page, d) {
  if (d.of <= d.ranks.length) return undefined;
  const first = d.ranks[0]?.rank ?? 0, last = first + d.ranks.length - 1, step = maxRows;
  const to = (text, from, there) => h("button", { type: "button", disabled: !there, onclick: () => page.ranks(from) }, text);
  return h("div", { class: "buttons" }, to("Earlier ranks", Math.max(first - step, 0), first > 0),
    to("Later ranks", last + 1, last + 1 < d.of), h("span", { class: "hint" }, `${first} to ${last} of ${d.of}`));
}

function attempts(d) {
  if (!d?.attempts?.length) return undefined;
  return [h("h2", {}, "Attempts"), table("Attempts", [["Attempt", "n"], ["Committed"], ["Started"], ["Ended"], ["GPU-hours", "n"], ["Lost", "n"], ["Cause"], ["Class"], ["Detail"]],
    d.attempts.map((a) => h("tr", {}, h("td", { class: "n" }, String(a.run)), h("td", {}, when(a.committed)),
      h("td", {}, when(a.started)), h("td", {}, when(a.ended)), h("td", { class: "n" }, a.used ? hours(a.used) : "–"),
      h("td", { class: "n" }, a.lost ? hours(a.lost) : "–"), h("td", {}, a.cause ?? ""),
      h("td", {}, a.class ? `${a.class}${a.charged ? "" : ", not counted"}` : ""),
      h("td", { class: "w" }, a.verdict ?? a.detail ?? ""))))];
}
