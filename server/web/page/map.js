// This file owns the map: nodes grouped by topology domain, and GPUs in the colour of their job. Zoomed out, each node is
// one tile; zoomed in, each GPU is a cell.
import { lookOf } from "./looks.js";
import { inOrder } from "./words.js";

const cellSize = 10, gap = 1, edge = 3, near = 3.5; // near: the smallest size in pixels at which a GPU is drawn
const band = 10, maxBands = 256; // the height of a node's name; more nodes have no space for their names

// layout places all nodes as nested boxes, and returns the size of the map.
export function layout(boxes, ratio) {
  const head = boxes.length > maxBands ? 0 : band, root = { children: new Map(), machines: [] };
  for (const box of inOrder(boxes, (b) => b.id)) {
    let at = root;
    for (const name of box.place ?? []) {
      if (!at.children.has(name)) at.children.set(name, { name, children: new Map(), machines: [] });
      at = at.children.get(name);
    }
    at.machines.push(box);
  }
  const tiles = [], frames = [];
  const size = measure(root, ratio, head);
  settle(root, 0, 0, tiles, frames, 0);
  return { tiles, frames, width: size.w, height: size.h, byID: new Map(tiles.map((t) => [t.box.id, t])) };
}

function tileSize(box, head) {
  const n = Math.max(box.gpus?.length ?? 0, 1);
  const columns = n <= 4 ? n : Math.ceil(n / 2), rows = Math.ceil(n / columns);
  return { columns, w: columns * (cellSize + gap) + 2 * edge, h: rows * (cellSize + gap) + 2 * edge + head, head };
}

// measure computes the size of a group. Items go into a row until the row has the target width; then a new row begins.
function measure(group, ratio, head) {
  group.parts = inOrder(group.children.values(), (g) => g.name);
  const title = group.name === undefined ? 0 : 14, pad = group.name === undefined ? 0 : 5;
  const items = group.parts.map((part) => ({ part, ...measure(part, ratio, head) }))
    .concat(group.machines.map((box) => ({ box, ...tileSize(box, head) })));
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
    else tiles.push({ box: item.box, columns: item.columns, head: item.head, x: x + item.x, y: y + item.y, w: item.w, h: item.h });
  }
}

const spot = (tile, i) => ({ x: tile.x + edge + (i % tile.columns) * (cellSize + gap),
  y: tile.y + tile.head + edge + Math.floor(i / tile.columns) * (cellSize + gap) });

// middle returns the middle of a GPU of a tile, or of the whole tile.
export function middle(tile, i) {
  const { x, y } = i < 0 ? tile : spot(tile, i);
  return { x: x + (i < 0 ? tile.w : cellSize) / 2, y: y + (i < 0 ? tile.h : cellSize) / 2 };
}

// close reports whether single GPUs are drawn at a scale.
export const close = (scale) => cellSize * scale >= near;

// cellAt returns the index of the GPU at a point of a tile, or -1.
export function cellAt(tile, x, y) {
  const column = Math.floor((x - tile.x - edge) / (cellSize + gap)), line = Math.floor((y - tile.y - tile.head - edge) / (cellSize + gap));
  const at = line * tile.columns + column;
  return column >= 0 && column < tile.columns && line >= 0 && at < (tile.box.gpus?.length ?? 0) ? at : -1;
}

export function palette() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { back: of("--back"), panel: of("--panel"), line: of("--line"), text: of("--text"), soft: of("--soft"),
    bad: of("--bad"), warn: of("--warn") };
}

// hatch returns the pattern of reserved nodes.
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

// draw paints the visible part of the map. In the view, { x, y } is the upper left corner, and scale is the zoom.
// A canvas without a graphics card cannot draw the rectangles of 10000 nodes thirty times per second. Therefore draw
// paints them as pixels of one image; only text uses the canvas functions.
export function draw(context, map, view, size, look) {
  const at = raster(look, context, size, view), { scale } = view, p = look.inks;
  at.pixels.fill(p.back);
  const right = view.x + size.w / scale, bottom = view.y + size.h / scale;
  const seen = (r) => r.x < right && r.y < bottom && r.x + r.w > view.x && r.y + r.h > view.y;
  const frames = map.frames.filter(seen);
  for (const f of frames) {
    at.fill(p.panel, f.x, f.y, f.w, f.h);
    at.frame(p.line, f, 1, 0);
  }
  const detailed = close(scale), width = Math.max(1, Math.round(1.5 * scale));
  for (const tile of map.tiles) {
    if (!seen(tile)) continue;
    paintTile(at, tile, look, detailed);
    const { box } = tile;
    if (look.kept.has(box.id)) at.hatch(p.text, { x: tile.x, y: tile.y + tile.head, w: tile.w, h: tile.h - tile.head });
    if (box.phase !== "up") at.cross(p.bad, tile, width);
    else if (box.state !== "up") at.frame(p.warn, tile, width, 4 * width);
    if (box.id === look.under) at.frame(p.text, tile, width, 0);
    if (box.id === look.at?.tile.box.id && look.at.gpu >= 0) at.frame(p.text, { ...spot(tile, look.at.gpu), w: cellSize, h: cellSize }, width, 0);
  }
  context.putImageData(at.image, 0, 0);
  if (11 * scale < 8) return;
  context.setTransform(scale, 0, 0, scale, -view.x * scale, -view.y * scale);
  context.font = "bold 9px system-ui, sans-serif";
  for (const tile of look.ranks?.size ? map.tiles.filter(seen) : []) {
    const ranks = look.ranks.get(tile.box.id);
    if (!ranks) continue;
    context.strokeStyle = look.palette.back;
    context.fillStyle = look.palette.text;
    context.lineWidth = 3;
    context.strokeText(ranks, tile.x + edge, tile.y + tile.h - edge, tile.w);
    context.fillText(ranks, tile.x + edge, tile.y + tile.h - edge, tile.w);
  }
  context.fillStyle = look.palette.soft;
  context.font = "10px system-ui, sans-serif";
  for (const f of frames) context.fillText(f.name, f.x + 5, f.y + 12, f.w - 8);
  drawNames(context, map.tiles.filter(seen), scale, look);
  context.setTransform(1, 0, 0, 1, 0, 0);
}

// drawNames writes the names of nodes if they are readable and have space: above the GPUs, or over them if a node is very large.
// A name that is too long keeps its end, because names of nodes mostly differ there.
function drawNames(context, tiles, scale, look) {
  const unit = devicePixelRatio / scale, size = Math.min(tiles[0]?.head ? 8 : 12 * unit, 13 * unit), smallest = 8 * unit;
  look.named = 0;
  if (size < smallest) return;
  context.font = `${size}px system-ui, sans-serif`;
  context.lineWidth = 3 * unit;
  context.strokeStyle = look.palette.back;
  context.fillStyle = look.palette.text;
  for (const tile of tiles) {
    if (!tile.head && tile.w < 90 * unit) continue;
    let text = tile.box.id;
    const room = tile.w - 2 * edge;
    while (text.length > 4 && context.measureText(text).width > room) text = `…${text.slice(text[0] === "…" ? 2 : 1)}`;
    if (context.measureText(text).width > room) continue;
    if (!tile.head) context.strokeText(text, tile.x + edge, tile.y + edge + size);
    context.fillText(text, tile.x + edge, tile.y + (tile.head ? edge + size - 1 : edge + size));
    look.named++;
  }
}

const inks = new Map();

// ink returns a colour as the bytes of a pixel.
function ink(colour) {
  if (!inks.has(colour)) {
    const n = parseInt(colour.slice(1), 16);
    inks.set(colour, (0xff000000 | ((n & 0xff) << 16) | (n & 0xff00) | (n >> 16)) >>> 0);
  }
  return inks.get(colour);
}

export const inksOf = (palette) => Object.fromEntries(Object.entries(palette).map(([name, colour]) => [name, ink(colour)]));

// raster is what is painted on: the pixels of the canvas, and how to paint in the units of the map.
function raster(look, context, size, view) {
  if (look.image?.width !== size.w || look.image?.height !== size.h) look.image = context.createImageData(size.w, size.h);
  const { image } = look, pixels = new Uint32Array(image.data.buffer), { w, h } = size, { scale } = view;
  const across = (x) => Math.round((x - view.x) * scale), down = (y) => Math.round((y - view.y) * scale);
  const bounds = (r) => ({ left: across(r.x), top: down(r.y), right: across(r.x + r.w), bottom: down(r.y + r.h) });
  const block = (colour, left, top, right, bottom) => {
    left = Math.max(left, 0);
    right = Math.min(right, w);
    for (let y = Math.max(top, 0), end = Math.min(bottom, h); y < end; y++) {
      const row = y * w;
      if (right - left > 24) pixels.fill(colour, row + left, row + right);
      else for (let x = row + left; x < row + right; x++) pixels[x] = colour;
    }
  };
  const fill = (colour, x, y, fw, fh) => { // never less than a pixel of what there is
    const left = across(x), top = down(y);
    block(colour, left, top, Math.max(across(x + fw), left + 1), Math.max(down(y + fh), top + 1));
  };
  const frame = (colour, r, width, dash) => {
    const b = bounds(r), step = dash || Math.max(b.right - b.left, b.bottom - b.top, 1);
    for (let at = 0; at < b.right - b.left; at += step + dash) {
      const end = Math.min(b.left + at + step, b.right);
      block(colour, b.left + at, b.top, end, b.top + width);
      block(colour, b.left + at, b.bottom - width, end, b.bottom);
    }
    for (let at = 0; at < b.bottom - b.top; at += step + dash) {
      const end = Math.min(b.top + at + step, b.bottom);
      block(colour, b.left, b.top + at, b.left + width, end);
      block(colour, b.right - width, b.top + at, b.right, end);
    }
  };
  const cross = (colour, r, width) => {
    const b = bounds(r), n = Math.max(b.right - b.left, b.bottom - b.top, 1);
    for (let i = 0; i <= n; i++) {
      const x = b.left + Math.round(((b.right - b.left - width) * i) / n), y = Math.round(((b.bottom - b.top - width) * i) / n);
      block(colour, x, b.top + y, x + width, b.top + y + width);
      block(colour, x, b.bottom - width - y, x + width, b.bottom - y);
    }
  };
  const hatch = (colour, r, side = 1) => { // the lines move with the map
    const b = bounds(r), shift = Math.round(view.x * scale) + side * Math.round(view.y * scale);
    for (let y = Math.max(b.top, 0); y < Math.min(b.bottom, h); y++) {
      for (let x = Math.max(b.left, 0); x < Math.min(b.right, w); x++) if ((x + side * y + shift) % 5 === 0) pixels[y * w + x] = colour;
    }
  };
  return { image, pixels, fill, frame, cross, hatch };
}

function paintTile(at, tile, look, detailed) {
  const { box } = tile, p = look.inks, gpus = box.gpus ?? [];
  at.fill(p.back, tile.x, tile.y, tile.w, tile.h);
  const paint = (id, x, y, w, h) => {
    if (look.picked && id !== look.picked) return at.fill(p.line, x, y, w, h);
    const { colour, stripe } = lookOf(id);
    at.fill(ink(colour), x, y, w, h);
    if (stripe) at.hatch(p.back, { x, y, w, h }, stripe === 1 ? 1 : -1);
  };
  if (!detailed || gpus.length === 0) {
    const jobs = box.jobs ?? [], used = box.gpu[1] ? box.gpu[0] / box.gpu[1] : box.cpu[1] ? box.cpu[0] / box.cpu[1] : 0;
    const first = look.picked && jobs.includes(look.picked) ? look.picked : jobs[0], top = tile.y + 1 + tile.head;
    at.fill(p.line, tile.x + 1, top, tile.w - 2, tile.h - 2 - tile.head);
    if (first) paint(first, tile.x + 1, top, (tile.w - 2) * Math.max(used, 0.05), tile.h - 2 - tile.head);
    return;
  }
  for (let i = 0; i < gpus.length; i++) {
    const gpu = gpus[i], { x, y } = spot(tile, i);
    at.fill(p.line, x, y, cellSize, cellSize);
    const part = gpu.jobs ? (cellSize * (gpu.taken ?? 0)) / 1000 / gpu.jobs.length : 0;
    for (let k = 0; k < (gpu.jobs?.length ?? 0); k++) paint(gpu.jobs[k], x, y + k * part, cellSize, part); // below each other
    if (gpu.lost) at.cross(p.bad, { x, y, w: cellSize, h: cellSize }, 1);
  }
}
