// This file owns the state of the cluster, and how a message of the stream changes it. The worker has one state for all
// pages of a browser, and each page has its own copy.
export const maxTold = 500;

export function newState() {
  return { jobs: new Map(), boxes: new Map(), told: [], over: [], synced: false, away: "", barred: false, now: 0, seq: 0, skew: 0 };
}

// Finished jobs stay in the state up to this number; then the oldest are removed.
const maxOver = 2000;

const changes = {
  job(state, job) {
    if (state.old?.jobs.delete(job.id)) state.jobs.delete(job.id);
    if (job.over && !state.jobs.get(job.id)?.over) {
      state.over.push(job.id);
      if (state.over.length > maxOver) state.jobs.delete(state.over.shift());
    }
    state.jobs.set(job.id, job);
  },
  box(state, box) {
    state.old?.boxes.delete(box.id);
    state.boxes.set(box.id, box);
  },
  gone(state, id) { state.boxes.delete(id); },
  group(state, { group, why }) {
    for (const job of state.jobs.values()) if (job.group === group) job.why = why;
  },
  told(state, told) { // in the order of time; events mostly arrive in this order
    let at = state.told.length;
    while (at > 0 && state.told[at - 1].at > told.at) at--;
    state.told.splice(at, 0, told);
  },
};

// restart forgets the state, because a complete one follows. With keep, earlier jobs and nodes stay until it is complete, so that a
// page does not become empty meanwhile.
function restart(state, keep) {
  state.old = keep ? { jobs: new Set(state.jobs.keys()), boxes: new Set(state.boxes.keys()) } : undefined;
  if (!keep) {
    state.jobs.clear();
    state.boxes.clear();
  }
  Object.assign(state, { told: [], over: [], seq: 0, synced: false, away: "" });
}

// complete removes what the new state does not have.
function complete(state) {
  for (const id of state.old?.jobs ?? []) state.jobs.delete(id);
  for (const id of state.old?.boxes ?? []) state.boxes.delete(id);
  Object.assign(state, { old: undefined, synced: true });
}

export function apply(state, piece, keep) {
  if (piece.fresh) restart(state, keep && !piece.barred);
  for (const [kind, value] of piece.changes ?? []) changes[kind]?.(state, value);
  if (state.told.length > maxTold) state.told.splice(0, state.told.length - maxTold);
  if (piece.synced) complete(state);
  state.seq = Math.max(state.seq, piece.seq ?? 0);
  if (piece.now) {
    state.now = piece.now;
    state.skew = piece.now - Date.now();
  }
  if (piece.away !== undefined) {
    state.away = piece.away;
    state.barred = Boolean(piece.barred);
  }
  return state;
}

// snapshot returns a message that turns a new state into a copy of this one.
export function snapshot(state) {
  const all = (kind, values) => [...values].map((value) => [kind, value]);
  return { fresh: true, synced: state.synced, now: state.now, seq: state.seq, away: state.away, barred: state.barred,
    changes: [...all("job", state.jobs.values()), ...all("box", state.boxes.values()), ...all("told", state.told)] };
}

// follow reads the stream forever, and calls take with each message and its text. A browser reconnects by itself if the server does
// not answer, but not after an HTTP error.
// After an error, follow requests /me: status 401 means that the session has ended; otherwise, follow tries again later.
export function follow(take) {
  const source = new EventSource("/stream");
  source.onmessage = (e) => take(JSON.parse(e.data), e.data);
  source.onerror = async () => {
    if (source.readyState !== EventSource.CLOSED) return take({ away: "The server cannot be reached. Retrying." });
    const answer = await fetch("/me").catch(() => undefined);
    if (answer?.status === 401) return take({ out: true, away: "The session has ended. Log in again." });
    take({ away: "The server refused the connection. Retrying." });
    setTimeout(() => follow(take), 3000);
  };
}

// receive calls take with each message of the stream, which one worker reads for all pages of the browser.
export function receive(take) {
  if (!window.SharedWorker) return follow(take);
  const worker = new SharedWorker("/worker.js", { type: "module" });
  worker.onerror = () => follow(take);
  worker.port.onmessage = ({ data }) => take(typeof data === "string" ? JSON.parse(data) : data);
  worker.port.start();
  addEventListener("pagehide", () => worker.port.postMessage("bye"));
}
