// This file owns the player. It replays a stored stream from any moment, at the original speed or faster.
// A source has the time range of the stream, and loads the part that contains a moment. A part is a list of messages;
// its first message contains the full state.
import { apply, newState, snapshot } from "./state.js";
import { h, when } from "./words.js";

const tick = 200;

// recorded returns a recording as a source with one part, which is already loaded.
export function recorded(record) {
  const first = record.find((piece) => piece.synced) ?? record[0];
  return { begins: record[0].now, ends: record.at(-1).now, first: first.now, me: record[0].changes[0][1],
    load: () => ({ record, from: -Infinity, until: Infinity }) };
}

// player plays a source. It calls take for each message, and moved after each jump. The elements of more follow its buttons.
export function player(source, take, moved, ...more) {
  const { begins, ends } = source;
  let state, index, at = begins, reached = begins, part, kept, last, timer, later, asked = 0, loading = 0;
  const reset = () => {
    state = newState();
    index = 0;
    kept = { details: new Map(), starts: [], queues: undefined, me: undefined };
  };
  const notes = {
    me: (value) => { kept.me = value; }, starts: (value) => { kept.starts = value; },
    queues: (value) => { kept.queues = value; }, detail: (value) => { kept.details.set(value.row.id, value); },
  };
  // upTo applies all messages up to a moment.
  const upTo = (moment, each) => {
    const { record } = part;
    for (; index < record.length && record[index].now <= moment; index++) {
      for (const [kind, value] of record[index].changes ?? []) notes[kind]?.(value);
      apply(state, record[index]);
      each?.(record[index]);
    }
    reached = moment;
  };
  const show = () => {
    slide.value = String(at);
    clock.replaceChildren(when(at));
    slide.setAttribute("aria-valuetext", clock.textContent);
  };
  const covers = (moment) => part && moment >= part.from && moment <= part.until;
  // jump shows a moment, or the first moment after it that is stored. If several jumps overlap, the last one counts.
  const jump = async (moment) => {
    const question = ++asked;
    at = moment;
    show();
    if (!covers(moment)) {
      loading++;
      try {
        const got = source.load(moment), loaded = got.then ? await got : got;
        if (question !== asked) return;
        part = loaded;
      } catch (e) {
        if (question !== asked) return;
        stop();
        return take({ away: e.message });
      } finally {
        loading--;
      }
      reset();
      at = Math.max(moment, part.record[0].now);
      show();
    } else if (moment < reached) reset();
    upTo(at);
    take({ ...snapshot(state), now: at });
    moved();
  };
  const go = () => {
    const now = Date.now(), moment = Math.min(at + (now - last) * Number(speed.value), ends);
    last = now;
    if (loading) return;
    if (!covers(moment)) return void jump(part ? Math.min(part.until + 1, moment) : moment);
    at = moment;
    upTo(moment, take);
    take({ now: at });
    show();
    if (at >= ends) stop();
  };
  const stop = () => {
    clearInterval(timer);
    clearTimeout(later);
    timer = undefined;
    press.textContent = "Play";
  };
  const play = () => {
    if (at >= ends) jump(begins);
    last = Date.now();
    timer = setInterval(go, tick);
    press.textContent = "Pause";
  };
  const slid = () => {
    const moment = Number(slide.value);
    clearTimeout(later);
    if (covers(moment)) return jump(moment);
    asked++; // ignore the answer to the previous jump
    at = moment;
    show();
    later = setTimeout(() => jump(moment), 150);
  };
  const press = h("button", { type: "button", onclick: () => (timer ? stop() : play()) }, "Play");
  const slide = h("input", { type: "range", min: begins, max: Math.max(ends, begins + 1), step: 1, "aria-label": "Time",
    oninput: slid });
  const speed = h("select", { "aria-label": "Speed" }, [1, 10, 60, 600].map((n) => h("option", { value: n }, `${n}×`)));
  const clock = h("output", {});
  reset();
  return {
    element: h("section", { id: "player", "aria-label": "Playback" }, press, slide, speed, clock, more),
    jump, stop, play,
    // ask answers as the server did, if the recording contains the answer.
    async ask(path, { id } = {}) {
      const answer = { "/me": kept.me ?? source.me, "/waiting": kept.starts, "/queues": kept.queues,
        "/job": kept.details.get(id), "/explain": { title: state.jobs.get(id)?.why ?? "", rows: [] } }[path];
      if (answer === undefined) throw new Error("the recording contains no further details");
      return answer;
    },
  };
}
