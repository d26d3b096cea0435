// What is known of the cluster, and how a piece of the stream changes it. The worker keeps one for all pages of a browser,
// and each page one of its own.
export const maxTold = 500;

export function newState() {
  return { jobs: new Map(), boxes: new Map(), told: [], synced: false, away: "", now: 0, seq: 0, skew: 0 };
}

export function apply(state, piece) {
  if (piece.fresh) {
    state.jobs.clear();
    state.boxes.clear();
    state.told = [];
    state.seq = 0;
    state.synced = false;
    state.away = "";
  }
  for (const job of piece.jobs ?? []) state.jobs.set(job.id, job);
  for (const box of piece.boxes ?? []) state.boxes.set(box.id, box);
  for (const id of piece.gone ?? []) state.boxes.delete(id);
  for (const { group, why } of piece.groups ?? []) {
    for (const job of state.jobs.values()) if (job.group === group) job.why = why;
  }
  if (piece.told?.length) {
    state.told = state.told.concat(piece.told).sort((a, b) => a.at - b.at).slice(-maxTold);
  }
  state.synced ||= Boolean(piece.synced);
  state.seq = Math.max(state.seq, piece.seq ?? 0);
  if (piece.now) {
    state.now = piece.now;
    state.skew = piece.now - Date.now();
  }
  if (piece.away !== undefined || piece.fresh || piece.jobs || piece.boxes) state.away = piece.away ?? "";
  return state;
}

// snapshot is a piece that makes a new state the same.
export function snapshot(state) {
  return { fresh: true, synced: state.synced, now: state.now, seq: state.seq, jobs: [...state.jobs.values()],
    boxes: [...state.boxes.values()], told: state.told, away: state.away };
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
