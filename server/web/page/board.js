// This file owns the view of the map: pan and zoom, the tooltip, and when to redraw.
import { cellAt, draw, inksOf, layout, palette } from "./map.js";
import { chip, h, milli, plural } from "./words.js";

// board makes the view. It uses state, kept (the jobs for which each node is reserved) and go(hash) of page.
export function board(page) {
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Map of the nodes" });
  const tip = h("div", { id: "tip", hidden: true });
  const element = h("div", { id: "board" }, canvas, tip);
  const context = canvas.getContext("2d", { alpha: false });
  const view = { x: 0, y: 0, scale: 1 };
  const look = { palette: palette(), kept: page.kept, picked: undefined, under: undefined };
  let map, size = { w: 0, h: 0 }, shape = "", wanted = false, touched = false, placed = 0, later;

  const again = () => {
    if (wanted) return;
    wanted = true;
    requestAnimationFrame(() => {
      wanted = false;
      if (!map || !size.w || !size.h) return;
      draw(context, map, view, size, look);
      if (map.tiles.length && !performance.getEntriesByName("map").length) performance.mark("map"); // read by the tests
    });
  };
  const fit = () => {
    view.scale = Math.min(size.w / (map.width + 16), size.h / (map.height + 16), 3 * devicePixelRatio);
    view.x = -(size.w / view.scale - map.width) / 2;
    view.y = -(size.h / view.scale - map.height) / 2;
    touched = false;
    again();
  };
  const zoom = (factor, x = size.w / 2, y = size.h / 2) => {
    const scale = Math.min(Math.max(view.scale * factor, 0.02), 12 * devicePixelRatio);
    view.x += x / view.scale - x / scale;
    view.y += y / view.scale - y / scale;
    view.scale = scale;
    touched = true;
    again();
  };
  const pan = (x, y) => {
    view.x += x / view.scale;
    view.y += y / view.scale;
    touched = true;
    again();
  };
  const tileAt = (e) => {
    const x = view.x + (e.offsetX * devicePixelRatio) / view.scale, y = view.y + (e.offsetY * devicePixelRatio) / view.scale;
    const tile = map?.tiles.find((t) => x >= t.x && y >= t.y && x < t.x + t.w && y < t.y + t.h);
    return tile && { tile, gpu: cellAt(tile, x, y) };
  };

  const update = () => {
    // The layout depends only on the set of nodes, so it is computed again only when the set changes.
    const boxes = [...page.state.boxes.values()];
    const now = `${size.w > size.h} ${boxes.length} ${boxes.reduce((sum, b) => (sum * 31 + b.id.length +
      (b.gpus?.length ?? 0)) | 0, 7)} ${boxes[0]?.id} ${boxes.at(-1)?.id}`;
    const wait = placed + 500 - Date.now();
    if (map?.tiles.length && now !== shape && wait > 0) later ??= setTimeout(() => { later = undefined; update(); }, wait);
    else if (!map || now !== shape) {
      shape = now;
      placed = Date.now();
      map = layout(boxes, size.h ? size.w / size.h : 1.6);
      if (!touched) fit();
    } else {
      for (const tile of map.tiles) tile.box = page.state.boxes.get(tile.box.id) ?? tile.box;
    }
    look.kept = page.kept;
    look.ranks = page.rankOn;
    if (!look.under) look.picked = page.picked;
    const used = boxes.reduce((sum, b) => sum + b.gpu[0], 0), all = boxes.reduce((sum, b) => sum + b.gpu[1], 0);
    canvas.setAttribute("aria-label", `Map of ${plural(boxes.length, "node")}: ${milli(used)} of ${milli(all)} GPUs ` +
      "are in use. The Nodes view shows the same data as a table.");
    again();
  };

  const show = (e) => {
    const at = tileAt(e);
    look.under = at?.tile.box.id;
    const id = at && at.gpu >= 0 ? at.tile.box.gpus[at.gpu].jobs?.[0] : undefined;
    look.picked = id ?? page.picked;
    canvas.classList.toggle("over", Boolean(at));
    tip.hidden = !at;
    if (at) {
      tip.replaceChildren(...tipOf(page, at));
      const { width, height } = element.getBoundingClientRect();
      tip.style.left = `${Math.min(e.offsetX + 14, Math.max(width - tip.offsetWidth - 6, 0))}px`;
      tip.style.top = `${Math.min(e.offsetY + 14, Math.max(height - tip.offsetHeight - 6, 0))}px`;
    }
    again();
  };

  let from, moved = 0;
  canvas.addEventListener("pointerdown", (e) => {
    from = { x: e.clientX, y: e.clientY };
    moved = 0;
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", (e) => {
    if (from && e.buttons) {
      moved += Math.abs(e.clientX - from.x) + Math.abs(e.clientY - from.y);
      pan((from.x - e.clientX) * devicePixelRatio, (from.y - e.clientY) * devicePixelRatio);
      from = { x: e.clientX, y: e.clientY };
    }
    show(e);
  });
  canvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
    look.under = undefined;
    look.picked = page.picked;
    again();
  });
  canvas.addEventListener("pointerup", (e) => {
    const at = moved < 5 && tileAt(e), id = at && at.gpu >= 0 && at.tile.box.gpus[at.gpu].jobs?.[0];
    from = undefined;
    if (at) page.go(id ? `#/job/${encodeURIComponent(id)}` : `#/node/${encodeURIComponent(at.tile.box.id)}`);
  });
  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    zoom(Math.exp(-e.deltaY / 400), e.offsetX * devicePixelRatio, e.offsetY * devicePixelRatio);
  }, { passive: false });
  canvas.addEventListener("keydown", (e) => {
    const step = 60 * devicePixelRatio;
    const action = { ArrowLeft: () => pan(-step, 0), ArrowRight: () => pan(step, 0), ArrowUp: () => pan(0, -step),
      ArrowDown: () => pan(0, step), "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: fit }[e.key];
    if (!action) return;
    e.preventDefault();
    action();
  });

  const dress = () => {
    look.palette = palette();
    look.inks = inksOf(look.palette);
    again();
  };
  const watcher = new ResizeObserver(() => {
    size = { w: Math.round(element.clientWidth * devicePixelRatio), h: Math.round(element.clientHeight * devicePixelRatio) };
    Object.assign(canvas, { width: size.w, height: size.h });
    if (map && !touched) fit();
    again();
  });
  watcher.observe(element);
  dress();
  return { element, update, dress, fit, zoom, pan, end: () => { watcher.disconnect(); clearTimeout(later); } };
}

function tipOf(page, { tile, gpu }) {
  const { box } = tile, lines = [];
  lines.push(h("strong", {}, box.id), ` ${(box.place ?? []).join("/")} · ${box.state}`, h("br"));
  lines.push(`${milli(box.gpu[0])} of ${milli(box.gpu[1])} GPUs in use`);
  if (box.why) lines.push(h("br"), box.why);
  const of = page.kept.get(box.id);
  if (of) lines.push(h("br"), `reserved for ${of.join(", ")}`);
  for (const id of (gpu >= 0 ? box.gpus[gpu].jobs : box.jobs) ?? []) {
    const job = page.state.jobs.get(id);
    lines.push(h("br"), chip(id), job ? `${job.name || id} · ${job.owner} · ${milli(job.gpus)} GPUs · ${job.phase}` : id);
  }
  if (gpu >= 0 && box.gpus[gpu].lost) lines.push(h("br"), "this GPU is out of service");
  return lines;
}
