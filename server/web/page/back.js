// Looking back at the cluster's own past: the page shows how it was, as long as its user wants that.
import { player } from "./play.js";
import { newState } from "./state.js";
import { askNow, h } from "./words.js";

const part = 10 * 60_000, begin = 15 * 60_000;

// back opens the past. Take is given what it was, and closed is told when its user wants to see how it is again.
export async function back(now, take, moved, closed) {
  const known = await askNow("/past", { at: now, until: now });
  if (!known.since || !known.record.length) throw new Error("nothing is kept of how it was yet");
  const source = { begins: known.since, ends: now, async load(at) {
    const { record, until } = await askNow("/past", { at: Math.floor(at), until: Math.floor(Math.min(at + part, now)) });
    if (!record.length) throw new Error("nothing is kept of this time");
    return { record, from: Math.min(at, record[0].now), until: Math.max(until, at) };
  } };
  const close = h("button", { type: "button", class: "strong", onclick: () => end() }, "Back to now");
  const plays = player(source, take, moved, close);
  const end = () => {
    plays.stop();
    plays.element.remove();
    closed();
  };
  return { state: newState(), element: plays.element, end, start: () => plays.jump(Math.max(known.since, now - begin)),
    // ask answers what can be known of then. What a queue is assured of is as it is now; its usage is counted from the jobs.
    async ask(path, query) {
      if (path === "/waiting") return [];
      if (path === "/explain") return { text: "Reasons of then are not kept." };
      if (path === "/job") throw new Error("no more of it is kept");
      if (path === "/queues") return { ...await askNow(path, query), usage: undefined };
      return askNow(path, query);
    } };
}
