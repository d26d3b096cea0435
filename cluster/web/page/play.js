// A record in place of a cluster: what was sent then is taken again, at the pace of then or faster, from any moment.
import { apply, newState, snapshot } from "./state.js";
import { h } from "./words.js";

const tick = 200;

// player makes one. Take is given what a stream would send, and moved is told after each jump.
export function player(record, take, moved) {
  const begins = record[0].now, ends = record.at(-1).now;
  let state, index, at = begins, kept, last, timer;
  const reset = () => {
    state = newState();
    index = 0;
    kept = { details: new Map(), starts: [], queues: undefined, me: undefined };
  };
  const notes = {
    me: (value) => { kept.me = value; }, starts: (value) => { kept.starts = value; },
    queues: (value) => { kept.queues = value; }, detail: (value) => { kept.details.set(value.row.id, value); },
  };
  // upTo takes all that was sent up to a moment, and answers how much that was.
  const upTo = (moment, each) => {
    for (; index < record.length && record[index].now <= moment; index++) {
      for (const [kind, value] of record[index].changes ?? []) notes[kind]?.(value);
      apply(state, record[index]);
      each?.(record[index]);
    }
  };
  const show = () => {
    slide.value = String(at);
    clock.textContent = new Date(at).toLocaleString();
    slide.setAttribute("aria-valuetext", clock.textContent);
  };
  const jump = (moment) => {
    if (moment < at) reset();
    at = moment;
    upTo(at);
    take({ ...snapshot(state), now: at });
    show();
    moved();
  };
  const go = () => {
    const now = Date.now(), moment = Math.min(at + (now - last) * Number(speed.value), ends);
    last = now;
    at = moment;
    upTo(moment, take);
    take({ now: at });
    show();
    if (at >= ends) stop();
  };
  const stop = () => {
    clearInterval(timer);
    timer = undefined;
    press.textContent = "Play";
  };
  const play = () => {
    if (at >= ends) jump(begins);
    last = Date.now();
    timer = setInterval(go, tick);
    press.textContent = "Pause";
  };
  const press = h("button", { type: "button", onclick: () => (timer ? stop() : play()) }, "Play");
  const slide = h("input", { type: "range", min: begins, max: Math.max(ends, begins + 1), step: 1, "aria-label": "Moment",
    oninput: () => jump(Number(slide.value)) });
  const speed = h("select", { "aria-label": "Pace" }, [1, 10, 60, 600].map((n) => h("option", { value: n }, `${n}×`)));
  const clock = h("output", {});
  reset();
  return {
    element: h("section", { id: "player", "aria-label": "A record" }, press, slide, speed, clock),
    start() {
      const first = record.find((piece) => piece.synced);
      jump(first ? first.now : begins);
      play();
    },
    // ask answers as the server did, as far as that is in the record.
    async ask(path, { id } = {}) {
      const answer = { "/me": kept.me ?? record[0].changes[0][1], "/waiting": kept.starts, "/queues": kept.queues,
        "/job": kept.details.get(id), "/explain": { text: state.jobs.get(id)?.why ?? "" } }[path];
      if (answer === undefined) throw new Error("the record has no more of it");
      return answer;
    },
  };
}
