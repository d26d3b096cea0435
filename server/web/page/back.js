// This file owns the playback of earlier states that the scheduler has stored.
import { player } from "./play.js";
import { newState } from "./state.js";
import { askNow, h } from "./words.js";

const part = 10 * 60_000, begin = 15 * 60_000;

// back opens the playback at once, and loads the states when start is called. It calls take for each stored message, and closed
// when the user returns to the live view.
export function back(now, take, moved, closed) {
  const says = h("p", { role: "status" }, "Loading earlier states…"), state = newState();
  const close = h("button", { type: "button", class: "strong", onclick: () => end() }, "Back to live view");
  const element = h("div", {}, h("section", { id: "player", "aria-label": "Playback" }, says, close));
  let plays, ended = false;
  const end = () => {
    ended = true;
    plays?.stop();
    element.remove();
    closed();
  };
  const read = (at) => askNow("/past", { at: Math.floor(at), until: Math.floor(Math.min(at + part, now)) });
  const covered = (at, { record, until }) => {
    if (!record.length) throw new Error("Nothing is stored for this time.");
    return { record, from: Math.min(at, record[0].now), until: Math.max(until, at) };
  };
  const start = async () => {
    try {
      let first = await read(now - begin);
      if (!first.since) throw new Error("No earlier state is stored yet. The scheduler stores the state every 10 s.");
      const at = Math.max(first.since, now - begin);
      if (!first.record.length) first = await read(at);
      if (ended) return;
      const source = { begins: first.since, ends: now, async load(moment) {
        const known = moment === at && first;
        first = undefined;
        return covered(moment, known || await read(moment));
      } };
      plays = player(source, take, moved, close);
      element.replaceChildren(plays.element);
      await plays.jump(at);
    } catch (e) {
      says.textContent = e.message;
    }
  };
  return { state, element, end, start,
    // ask answers requests for the shown time. Queue quotas are the current ones; the usage is counted from the jobs.
    async ask(path, query) {
      if (path === "/waiting") return [];
      if (path === "/explain") return { title: "Earlier reasons are not stored.", rows: [] };
      if (path === "/job") throw new Error("No further details are stored.");
      if (path === "/queues") return { ...await askNow(path, query), usage: undefined };
      return askNow(path, query);
    } };
}
