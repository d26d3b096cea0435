// How it was, in place of how it is: what was sent then is taken again, at the pace of then or faster, from any moment.
// A source says from when to when there is something, and loads the part of it in which a moment is: pieces as a stream
// sends them, of which the first has all that there was.
import { apply, newState, snapshot } from "./state.js";
import { h } from "./words.js";

const tick = 200;

// recorded is a record as a source: one part, which is there.
export function recorded(record) {
  const first = record.find((piece) => piece.synced) ?? record[0];
  return { begins: record[0].now, ends: record.at(-1).now, first: first.now, me: record[0].changes[0][1],
    load: () => ({ record, from: -Infinity, until: Infinity }) };
}

// player plays a source. Take is given what a stream would send, and moved is told after each jump. More stands beside
// its buttons.
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
  // upTo takes all that was sent up to a moment.
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
    clock.textContent = new Date(at).toLocaleString();
    slide.setAttribute("aria-valuetext", clock.textContent);
  };
  const covers = (moment) => part && moment >= part.from && moment <= part.until;
  // jump shows a moment, or the first after it of which something is known. Of jumps that overtake each other the last counts.
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
    asked++; // what is on its way is of a moment that nobody wants any more
    at = moment;
    show();
    later = setTimeout(() => jump(moment), 150);
  };
  const press = h("button", { type: "button", onclick: () => (timer ? stop() : play()) }, "Play");
  const slide = h("input", { type: "range", min: begins, max: Math.max(ends, begins + 1), step: 1, "aria-label": "Moment",
    oninput: slid });
  const speed = h("select", { "aria-label": "Pace" }, [1, 10, 60, 600].map((n) => h("option", { value: n }, `${n}×`)));
  const clock = h("output", {});
  reset();
  return {
    element: h("section", { id: "player", "aria-label": "How it was" }, press, slide, speed, clock, more),
    jump, stop, play,
    // ask answers as the server did, as far as that is in a record.
    async ask(path, { id } = {}) {
      const answer = { "/me": kept.me ?? source.me, "/waiting": kept.starts, "/queues": kept.queues,
        "/job": kept.details.get(id), "/explain": { text: state.jobs.get(id)?.why ?? "" } }[path];
      if (answer === undefined) throw new Error("the record has no more of it");
      return answer;
    },
  };
}
