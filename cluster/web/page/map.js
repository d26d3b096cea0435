// The map: every machine in its rack, block and zone, every GPU in the colour of the job that has it. From far away a
// machine is one tile; near enough, its GPUs are.
import { colourOf, natural } from "./words.js";

const cellSize = 10, gap = 1, edge = 3, near = 3.5; // near: pixels of a GPU from which it is drawn

// layout places all machines, as boxes in boxes, and says how large the whole is.
export function layout(boxes, ratio) {
  const root = { children: new Map(), machines: [] };
  for (const box of [...boxes].sort((a, b) => natural(a.id, b.id))) {
    let at = root;
    for (const name of box.place ?? []) {
      if (!at.children.has(name)) at.children.set(name, { name, children: new Map(), machines: [] });
      at = at.children.get(name);
    }
    at.machines.push(box);
  }
  const tiles = [], frames = [];
  const size = measure(root, ratio);
  settle(root, 0, 0, tiles, frames, 0);
  return { tiles, frames, width: size.w, height: size.h, byID: new Map(tiles.map((t) => [t.box.id, t])) };
}

function tileSize(box) {
  const n = Math.max(box.gpus?.length ?? 0, 1);
  const columns = n <= 4 ? n : Math.ceil(n / 2), rows = Math.ceil(n / columns);
  return { columns, w: columns * (cellSize + gap) + 2 * edge, h: rows * (cellSize + gap) + 2 * edge };
}

// measure finds how large a group is: its machines below each other in columns, its groups side by side until the row is
// as wide as the whole should be.
function measure(group, ratio) {
  group.parts = [...group.children.values()].sort((a, b) => natural(a.name, b.name));
  const title = group.name === undefined ? 0 : 14, pad = group.name === undefined ? 0 : 5;
  const items = group.parts.map((part) => ({ part, ...measure(part, ratio) }))
    .concat(group.machines.map((box) => ({ box, ...tileSize(box) })));
  const area = items.reduce((sum, i) => sum + (i.w + 6) * (i.h + 6), 0);
  const widest = items.reduce((most, i) => Math.max(most, i.w), 0);
  const limit = Math.max(widest, Math.sqrt(area * (group.parts.length ? ratio : 0.8)));
  let x = 0, y = 0, row = 0, w = 0;
  const space = group.parts.length ? 8 : 3;
  for (const item of items) {
    if (x > 0 && x + item.w > limit) {
      x = 0;
      y += row + space;
      row = 0;
    }
    item.x = x + pad;
    item.y = y + pad + title;
    x += item.w + space;
    row = Math.max(row, item.h);
    w = Math.max(w, x - space);
  }
  group.items = items;
  group.w = Math.max(w, title ? 40 : 0) + 2 * pad;
  group.h = y + row + 2 * pad + title;
  return { w: group.w, h: group.h };
}

function settle(group, x, y, tiles, frames, depth) {
  if (group.name !== undefined) frames.push({ name: group.name, x, y, w: group.w, h: group.h, depth });
  for (const item of group.items) {
    if (item.part) settle(item.part, x + item.x, y + item.y, tiles, frames, depth + 1);
    else tiles.push({ box: item.box, columns: item.columns, x: x + item.x, y: y + item.y, w: item.w, h: item.h });
  }
}

const spot = (tile, i) => ({ x: tile.x + edge + (i % tile.columns) * (cellSize + gap),
  y: tile.y + edge + Math.floor(i / tile.columns) * (cellSize + gap) });

// cellAt is the GPU of a tile at a point; -1 where there is none.
export function cellAt(tile, x, y) {
  const column = Math.floor((x - tile.x - edge) / (cellSize + gap)), line = Math.floor((y - tile.y - edge) / (cellSize + gap));
  const at = line * tile.columns + column;
  return column >= 0 && column < tile.columns && line >= 0 && at < (tile.box.gpus?.length ?? 0) ? at : -1;
}

export function palette() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { back: of("--back"), panel: of("--panel"), line: of("--line"), text: of("--text"), soft: of("--soft"),
    bad: of("--bad"), warn: of("--warn") };
}

// hatch is the pattern of room that is kept for somebody.
export function hatch(context, colour, size = 5) {
  const tile = new OffscreenCanvas(size, size), at = tile.getContext("2d");
  at.strokeStyle = colour;
  at.lineWidth = 1.2;
  at.beginPath();
  for (const shift of [-size, 0, size]) {
    at.moveTo(shift, size);
    at.lineTo(shift + size, 0);
  }
  at.stroke();
  return context.createPattern(tile, "repeat");
}

// draw paints what the view shows of the map: { x, y, scale } is what of it is at the upper left corner, and how large.
export function draw(context, map, view, size, look) {
  const p = look.palette, { scale } = view;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = p.back;
  context.fillRect(0, 0, size.w, size.h);
  context.setTransform(scale, 0, 0, scale, -view.x * scale, -view.y * scale);
  const right = view.x + size.w / scale, bottom = view.y + size.h / scale;
  const seen = (r) => r.x < right && r.y < bottom && r.x + r.w > view.x && r.y + r.h > view.y;
  for (const f of map.frames.filter(seen)) {
    context.fillStyle = p.panel;
    context.fillRect(f.x, f.y, f.w, f.h);
    context.strokeStyle = p.line;
    context.lineWidth = 1 / scale;
    context.strokeRect(f.x, f.y, f.w, f.h);
    if (11 * scale >= 8) {
      context.fillStyle = p.soft;
      context.font = "10px system-ui, sans-serif";
      context.fillText(f.name, f.x + 5, f.y + 12, f.w - 8);
    }
  }
  const fills = new Map(); // by colour: a change of colour is what takes the time
  const add = (colour, x, y, w, h) => {
    if (!fills.has(colour)) fills.set(colour, []);
    fills.get(colour).push(x, y, w, h);
  };
  const tiles = map.tiles.filter(seen), close = cellSize * scale >= near, crosses = [], kept = [];
  for (const tile of tiles) {
    paintTile(tile, { look, close, add, crosses });
    if (look.kept.has(tile.box.id)) kept.push(tile);
  }
  for (const [colour, rects] of fills) {
    context.fillStyle = colour;
    for (let i = 0; i < rects.length; i += 4) context.fillRect(rects[i], rects[i + 1], rects[i + 2], rects[i + 3]);
  }
  context.fillStyle = look.hatch;
  for (const tile of kept) context.fillRect(tile.x, tile.y, tile.w, tile.h);
  context.strokeStyle = p.bad;
  context.lineWidth = Math.max(1.2, 1 / scale);
  context.beginPath();
  for (const { x, y, w, h } of crosses) {
    context.moveTo(x, y);
    context.lineTo(x + w, y + h);
    context.moveTo(x + w, y);
    context.lineTo(x, y + h);
  }
  context.stroke();
  outline(context, tiles, look, scale);
}

function paintTile(tile, { look, close, add, crosses }) {
  const { box } = tile, p = look.palette, gpus = box.gpus ?? [];
  add(p.back, tile.x, tile.y, tile.w, tile.h);
  if (box.phase !== "up") crosses.push(tile);
  const shade = (id) => (look.picked && id !== look.picked ? p.line : colourOf(id));
  if (!close || gpus.length === 0) {
    const jobs = box.jobs ?? [], used = box.gpu[1] ? box.gpu[0] / box.gpu[1] : box.cpu[1] ? box.cpu[0] / box.cpu[1] : 0;
    const first = look.picked && jobs.includes(look.picked) ? look.picked : jobs[0];
    add(p.line, tile.x + 1, tile.y + 1, tile.w - 2, tile.h - 2);
    if (first) add(shade(first), tile.x + 1, tile.y + 1, (tile.w - 2) * Math.max(used, 0.05), tile.h - 2);
    return;
  }
  gpus.forEach((gpu, i) => {
    const { x, y } = spot(tile, i), jobs = gpu.jobs ?? [];
    add(p.line, x, y, cellSize, cellSize);
    jobs.forEach((id, k) => { // those that share it stand below each other
      const part = (cellSize * (1000 - (gpu.free ?? 0))) / 1000 / jobs.length;
      add(shade(id), x, y + k * part, cellSize, part);
    });
    if (gpu.lost) crosses.push({ x, y, w: cellSize, h: cellSize });
  });
}

// outline marks machines that take nothing new, and the one under the cursor.
function outline(context, tiles, look, scale) {
  context.lineWidth = Math.max(1.5, 1.5 / scale);
  context.strokeStyle = look.palette.warn;
  context.setLineDash([4, 3]);
  for (const { box, x, y, w, h } of tiles) if (box.phase === "up" && box.state !== "up") context.strokeRect(x, y, w, h);
  context.setLineDash([]);
  context.strokeStyle = look.palette.text;
  for (const tile of tiles) if (tile.box.id === look.under) context.strokeRect(tile.x, tile.y, tile.w, tile.h);
}
