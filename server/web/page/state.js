// What is known of the cluster, and how a piece of the stream changes it. The worker keeps one for all pages of a browser,
// and each page one of its own.
export const maxTold = 500;

export function newState() {
  return { jobs: new Map(), boxes: new Map(), told: [], over: [], synced: false, away: "", now: 0, seq: 0, skew: 0 };
}

// Jobs that have ended are kept for a while: of very many the oldest go.
const maxOver = 2000;

const changes = {
  job(state, job) {
    if (job.over && !state.jobs.get(job.id)?.over) {
      state.over.push(job.id);
      if (state.over.length > maxOver) state.jobs.delete(state.over.shift());
    }
    state.jobs.set(job.id, job);
  },
  box(state, box) { state.boxes.set(box.id, box); },
  gone(state, id) { state.boxes.delete(id); },
  group(state, { group, why }) {
    for (const job of state.jobs.values()) if (job.group === group) job.why = why;
  },
  told(state, told) { state.told.push(told); },
};

export function apply(state, piece) {
  if (piece.fresh) {
    state.jobs.clear();
    state.boxes.clear();
    state.told = [];
    state.over = [];
    state.seq = 0;
    state.synced = false;
    state.away = "";
  }
  for (const [kind, value] of piece.changes ?? []) changes[kind]?.(state, value);
  if (state.told.length > maxTold) state.told.splice(0, state.told.length - maxTold);
  state.synced ||= Boolean(piece.synced);
  state.seq = Math.max(state.seq, piece.seq ?? 0);
  if (piece.now) {
    state.now = piece.now;
    state.skew = piece.now - Date.now();
  }
  if (piece.away !== undefined) state.away = piece.away;
  return state;
}

// snapshot is a piece that makes a new state the same.
export function snapshot(state) {
  const all = (kind, values) => [...values].map((value) => [kind, value]);
  return { fresh: true, synced: state.synced, now: state.now, seq: state.seq, away: state.away,
    changes: [...all("job", state.jobs.values()), ...all("box", state.boxes.values()), ...all("told", state.told)] };
}

// follow reads the stream, for ever. A browser tries again by itself where nobody answers, and not where it is refused:
// then what is asked tells whether this page is let in no longer, which is over, or there were too many.
export function follow(take) {
  const source = new EventSource("/stream");
  source.onmessage = (e) => take(JSON.parse(e.data));
  source.onerror = async () => {
    if (source.readyState !== EventSource.CLOSED) return take({ away: "whoever serves this page cannot be reached; trying again" });
    const answer = await fetch("/me").catch(() => undefined);
    if (answer?.status === 401) return take({ out: true, away: "this page is let in no longer" });
    take({ away: "this page was refused for the moment; trying again" });
    setTimeout(() => follow(take), 3000);
  };
}
