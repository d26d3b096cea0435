// This file owns the looks of jobs: a colour for each of up to 64 running jobs, and hatching for further ones. Jobs that are
// neighbours on the map never share a look, as long as there are enough looks.

// People with common kinds of colour blindness can distinguish the first twelve colours. All are readable in both themes.
const base = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a600", "#7a5cc0", "#8c564b",
  "#2f9e9e", "#a0519c", "#6b8e23", "#3f51d9", "#e0567a", "#1b6e4b", "#c2884a"];

// mixed returns a colour with a part of another one.
function mixed(colour, other, part) {
  const n = [1, 3, 5].map((at) => Math.round(parseInt(colour.slice(at, at + 2), 16) * (1 - part) + other * part));
  return `#${n.map((one) => one.toString(16).padStart(2, "0")).join("")}`;
}

const solid = [...base, ...base.map((c) => mixed(c, 0, 0.4)), ...base.map((c) => mixed(c, 255, 0.4)), ...base.map((c) => mixed(c, 0, 0.65))];

// looks lists all looks, the preferred ones first. A stripe is the direction of the hatching; 0: none.
export const looks = [0, 1, 2].flatMap((stripe) => solid.map((colour) => ({ colour, stripe })));

const given = new Map(); // job → index of its look
const users = looks.map(() => 0);

function sumOf(id) {
  let sum = 2166136261;
  for (let i = 0; i < id.length; i++) sum = Math.imul(sum ^ id.charCodeAt(i), 16777619);
  return sum >>> 0;
}

// lookOf returns the look of a job. A job that does not run has a colour that depends only on its ID.
export const lookOf = (id) => looks[given.get(id) ?? sumOf(id) % base.length];

// choose gives a job the look with the fewest users that no neighbour has. Among equal looks of one kind, the ID decides, so that
// a job mostly has the same colour on every page.
function choose(id, taken) {
  const own = given.get(id), first = sumOf(id) % base.length;
  if (own !== undefined) users[own]--;
  let best = 0, least = Infinity;
  for (let i = 0; i < looks.length; i++) {
    const cost = (taken?.has(i) ? 1e6 : 0) + users[i] * 1000 + Math.floor(i / base.length) * 20 + ((i - first + base.length) % base.length);
    if (cost < least) [best, least] = [i, cost];
  }
  users[best]++;
  given.set(id, best);
}

// share gives each running job a look, and frees the looks of jobs that no longer run. Until the state has its jobs, those on nodes
// run.
export function share(state) {
  if (!state.synced) for (const { jobs } of state.boxes.values()) for (const id of jobs ?? []) {
    if (!given.has(id) && !state.jobs.has(id)) choose(id);
  }
  const runs = (j) => j && !j.over && !j.array && j.phase !== "queued" && j.phase !== "held";
  for (const [id, look] of given) {
    if (runs(state.jobs.get(id)) || (!state.synced && !state.jobs.has(id))) continue;
    users[look]--;
    given.delete(id);
  }
  for (const j of state.jobs.values()) if (runs(j) && !given.has(j.id)) choose(j.id);
}

const reach = 33; // distance in units of the map up to which two nodes are neighbours, also in different racks

// nearOf returns the tiles near a tile. Tiles are found by a grid.
function nearOf(map, tile) {
  const size = 64, cells = map.grid ??= map.tiles.reduce((all, t) => {
    for (let x = Math.floor(t.x / size); x <= Math.floor((t.x + t.w) / size); x++) {
      for (let y = Math.floor(t.y / size); y <= Math.floor((t.y + t.h) / size); y++) {
        const key = `${x} ${y}`;
        if (all.has(key)) all.get(key).push(t);
        else all.set(key, [t]);
      }
    }
    return all;
  }, new Map());
  const near = new Set();
  for (let x = Math.floor((tile.x - reach) / size); x <= Math.floor((tile.x + tile.w + reach) / size); x++) {
    for (let y = Math.floor((tile.y - reach) / size); y <= Math.floor((tile.y + tile.h + reach) / size); y++) {
      for (const t of cells.get(`${x} ${y}`) ?? []) {
        if (t.x < tile.x + tile.w + reach && tile.x < t.x + t.w + reach && t.y < tile.y + tile.h + reach && tile.y < t.y + t.h + reach) near.add(t);
      }
    }
  }
  return near;
}

// part separates neighbours with the same look. This happens only if more jobs run than there are looks. Only nodes that have
// changed are examined.
export function part(map) {
  const changed = map.tiles.filter((t) => t.parted !== t.box);
  for (const t of changed) t.parted = t.box;
  if (given.size <= looks.length) return;
  let tilesOf;
  for (const tile of changed) {
    const around = new Set([...nearOf(map, tile)].flatMap((t) => t.box.jobs ?? []));
    for (const id of tile.box.jobs ?? []) {
      if (!given.has(id) || ![...around].some((other) => other !== id && given.get(other) === given.get(id))) continue;
      tilesOf ??= map.tiles.reduce((all, t) => {
        for (const job of t.box.jobs ?? []) all.has(job) ? all.get(job).push(t) : all.set(job, [t]);
        return all;
      }, new Map());
      const taken = new Set();
      for (const t of tilesOf.get(id)) {
        for (const n of nearOf(map, t)) for (const other of n.box.jobs ?? []) if (other !== id) taken.add(given.get(other));
      }
      choose(id, taken);
    }
  }
}

// neighbours returns the pairs of neighbours on the map that have the same look. The tests read it.
export function neighbours(map) {
  const pairs = new Set();
  for (const tile of map.tiles) {
    for (const near of nearOf(map, tile)) {
      for (const a of tile.box.jobs ?? []) for (const b of near.box.jobs ?? []) if (a < b && lookOf(a) === lookOf(b)) pairs.add(`${a} ${b}`);
    }
  }
  return [...pairs];
}
