// This file owns the playback of earlier states that the scheduler has stored.
import { player } from "./play.js";
import { newState } from "./state.js";
import { askNow, h } from "./words.js";

const part = 10 * 60_000, begin = 15 * 60_000;

// back opens the playback. It calls take for each stored message, and closed when the user returns to the live view.
export async function back(now, take, moved, closed) {
  const known = await askNow("/past", { at: now, until: now });
  if (!known.since || !known.record.length) throw new Error("no earlier state is stored yet");
  const source = { begins: known.since, ends: now, async load(at) {
    const { record, until } = await askNow("/past", { at: Math.floor(at), until: Math.floor(Math.min(at + part, now)) });
    if (!record.length) throw new Error("nothing is stored for this time");
    return { record, from: Math.min(at, record[0].now), until: Math.max(until, at) };
  } };
  const close = h("button", { type: "button", class: "strong", onclick: () => end() }, "Back to live view");
  const plays = player(source, take, moved, close);
  const end = () => {
    plays.stop();
    plays.element.remove();
    closed();
  };
  return { state: newState(), element: plays.element, end, start: () => plays.jump(Math.max(known.since, now - begin)),
    // ask answers requests for the shown time. Queue quotas are the current ones; the usage is counted from the jobs.
    async ask(path, query) {
      if (path === "/waiting") return [];
      if (path === "/explain") return { title: "Earlier reasons are not stored.", rows: [] };
      if (path === "/job") throw new Error("no further details are stored");
      if (path === "/queues") return { ...await askNow(path, query), usage: undefined };
      return askNow(path, query);
    } };
}
