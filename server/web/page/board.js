// This file owns the view of the map: pan and zoom, the card of what is pointed at, and when to redraw.
import { neighbours, part, share } from "./looks.js";
import { cellAt, close, draw, inksOf, layout, middle, palette } from "./map.js";
import { chip, gpus, h, milli, plural, span } from "./words.js";

// board makes the view. It uses state, kept (the jobs for which each node is reserved) and go(hash) of page.
export function board(page) {
  const canvas = h("canvas", { tabindex: "0", role: "application", "aria-roledescription": "map", "aria-label": "Map of the nodes",
    "aria-describedby": "map-keys" });
  const tip = h("div", { id: "tip", role: "status", hidden: true });
  const element = h("div", { id: "board", hidden: true }, canvas, tip, h("p", { id: "map-keys", hidden: true },
    "Arrow keys select a GPU or a node, Enter opens it, Shift and arrow keys move the map, + and - zoom, 0 shows the complete map."));
  const context = canvas.getContext("2d", { alpha: false });
  const view = { x: 0, y: 0, scale: 1 };
  const look = { palette: palette(), kept: page.kept, picked: undefined, under: undefined, at: undefined };
  let card; // what the card shows: a tile and a GPU, or a job
  let map, size = { w: 0, h: 0 }, shape = "", wanted = false, touched = false, placed = 0, later;

  const show = () => {
    wanted = false;
    if (!map || !size.w || !size.h) return;
    draw(context, map, view, size, look);
    element.dataset.named = look.named ?? 0; // read by the tests
    if (map.tiles.length && !performance.getEntriesByName("map").length) performance.mark("map", { detail: map.tiles.length }); // read by the tests
  };
  const again = () => {
    if (wanted) return;
    wanted = true;
    requestAnimationFrame(() => wanted && show());
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

  // update takes over the state. With now it also draws, because the next frame would be too late.
  const update = (now) => {
    // The layout depends only on the set of nodes, so it is computed again only when the set changes.
    const boxes = [...page.state.boxes.values()];
    const found = `${size.w > size.h} ${boxes.length} ${boxes.reduce((sum, b) => (sum * 31 + b.id.length +
      (b.gpus?.length ?? 0)) | 0, 7)} ${boxes[0]?.id} ${boxes.at(-1)?.id}`;
    const wait = placed + 500 - Date.now();
    if (map?.tiles.length && found !== shape && wait > 0) later ??= setTimeout(() => { later = undefined; update(); }, wait);
    else if (!map || found !== shape) {
      shape = found;
      placed = Date.now();
      map = layout(boxes, size.h ? size.w / size.h : 1.6);
      if (!touched) fit();
    } else {
      for (const tile of map.tiles) tile.box = page.state.boxes.get(tile.box.id) ?? tile.box;
    }
    share(page.state);
    part(map);
    look.kept = page.kept;
    look.ranks = page.rankOn;
    if (!look.under) look.picked = page.picked;
    const used = boxes.reduce((sum, b) => sum + b.gpu[0], 0), all = boxes.reduce((sum, b) => sum + b.gpu[1], 0);
    canvas.setAttribute("aria-label", `Map of ${plural(boxes.length, "node")}: ${milli(used)} of ${milli(all)} GPUs ` +
      "are in use. The Nodes view shows the same data as a table.");
    if (card?.tile) card.tile = map.byID.get(card.tile.box.id);
    if (card) card.tile || card.job ? fill() : hide();
    if (now) show();
    else again();
  };

  const jobAt = (at) => (at && at.gpu >= 0 ? at.tile.box.gpus[at.gpu].jobs?.[0] : undefined);
  const hide = () => {
    tip.hidden = true;
    card = look.at = look.under = undefined;
    look.picked = page.picked;
    again();
  };
  const fill = () => tip.replaceChildren(...(card.job ? jobLines(page, card.job) : cardOf(page, card)));
  // tell shows the card of a GPU, a node or a job at a point of the board.
  const tell = (what, x, y) => {
    card = what;
    look.under = what.tile?.box.id;
    look.picked = what.job ?? jobAt(what) ?? page.picked;
    tip.hidden = false;
    fill();
    const { width, height } = element.getBoundingClientRect();
    tip.style.left = `${Math.min(x + 14, Math.max(width - tip.offsetWidth - 6, 0))}px`;
    tip.style.top = `${Math.min(y + 14, Math.max(height - tip.offsetHeight - 6, 0))}px`;
    again();
  };
  const point = (e) => {
    const at = tileAt(e);
    canvas.classList.toggle("over", Boolean(at));
    look.at = undefined;
    if (at) tell(at, e.offsetX, e.offsetY);
    else hide();
  };
  const open = (at) => {
    const id = jobAt(at);
    page.go(id ? `#/job/${encodeURIComponent(id)}` : `#/node/${encodeURIComponent(at.tile.box.id)}`);
  };
  // stand selects a GPU or a node by the keyboard, and moves the map if it is not visible.
  const stand = (at) => {
    const m = middle(at.tile, at.gpu), x = () => (m.x - view.x) * view.scale, y = () => (m.y - view.y) * view.scale;
    if (x() < 0 || x() > size.w || y() < 0 || y() > size.h) pan(x() - size.w / 2, y() - size.h / 2);
    look.at = at;
    tell(at, x() / devicePixelRatio, y() / devicePixelRatio);
    look.at = at;
  };
  // step selects the nearest GPU or node in a direction. Without a selection, it selects the first one.
  const step = (dx, dy) => {
    const parts = (map?.tiles ?? []).flatMap((tile) => (close(view.scale) && tile.box.gpus?.length
      ? tile.box.gpus.map((_, gpu) => ({ tile, gpu })) : [{ tile, gpu: -1 }]));
    if (!parts.length) return;
    if (!look.at) return stand(parts[0]);
    const here = middle(look.at.tile, look.at.gpu);
    let best, least = Infinity;
    for (const one of parts) {
      const there = middle(one.tile, one.gpu), along = (there.x - here.x) * dx + (there.y - here.y) * dy;
      const aside = Math.abs((there.x - here.x) * dy) + Math.abs((there.y - here.y) * dx);
      if (along > 0.5 && along + 3 * aside < least) [best, least] = [one, along + 3 * aside];
    }
    if (best) stand(best);
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
    point(e);
  });
  canvas.addEventListener("pointerleave", hide);
  canvas.addEventListener("pointerup", (e) => {
    const at = moved < 5 && tileAt(e);
    from = undefined;
    if (at) open(at);
  });
  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    zoom(Math.exp(-e.deltaY / 400), e.offsetX * devicePixelRatio, e.offsetY * devicePixelRatio);
  }, { passive: false });
  canvas.addEventListener("keydown", (e) => {
    const far = 60 * devicePixelRatio, go = (x, y) => (e.shiftKey ? pan(x * far, y * far) : step(x, y));
    const action = { ArrowLeft: () => go(-1, 0), ArrowRight: () => go(1, 0), ArrowUp: () => go(0, -1), ArrowDown: () => go(0, 1),
      Enter: () => look.at && open(look.at), Escape: hide, "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: fit }[e.key];
    if (!action) return;
    e.preventDefault();
    action();
  });
  canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && step(0, 0));
  canvas.addEventListener("blur", hide);

  const dress = () => {
    look.palette = palette();
    look.inks = inksOf(look.palette);
    again();
  };
  const resize = () => {
    const w = Math.round(element.clientWidth * devicePixelRatio), h = Math.round(element.clientHeight * devicePixelRatio);
    if (w === size.w && h === size.h) return;
    size = { w, h };
    Object.assign(canvas, { width: w, height: h });
    if (map && !touched) fit();
    again();
  };
  const watcher = new ResizeObserver(resize);
  watcher.observe(element);
  dress();
  return { element, update, resize, dress, fit, zoom, pan, hide, point: (job) => tell({ job }, 0, 0), clashes: () => neighbours(map), end: () => { watcher.disconnect(); clearTimeout(later); } };
}

// jobLines describes a job on the card.
function jobLines(page, id) {
  const job = page.state.jobs.get(id);
  if (!job) return [chip(id), id];
  const left = job.limit && job.started && Math.max(job.started + job.limit - page.now(), 0);
  return [chip(id), h("strong", {}, job.name || id), ` ${[id, job.owner, gpus(job.gpus), job.phase, left && `${span(left)} left`,
    job.progress?.words].filter(Boolean).join(" · ")}`];
}

// cardOf describes a node, and the jobs of one of its GPUs or of the whole node.
function cardOf(page, { tile, gpu }) {
  const { box } = tile, lines = [], of = page.kept.get(box.id), jobs = (gpu >= 0 ? box.gpus[gpu].jobs : box.jobs) ?? [];
  lines.push(h("strong", {}, gpu >= 0 ? `${box.id}, GPU ${gpu}` : box.id), ` ${(box.place ?? []).join("/")} · ${box.state}`, h("br"));
  lines.push(`${milli(box.gpu[0])} of ${milli(box.gpu[1])} GPUs in use`);
  if (box.why) lines.push(h("br"), box.why);
  if (of) lines.push(h("br"), `reserved for ${of.map((id) => page.state.jobs.get(id)?.name || id).join(", ")}`);
  for (const id of jobs.slice(0, 8)) lines.push(h("br"), ...jobLines(page, id));
  if (jobs.length > 8) lines.push(h("br"), `and ${plural(jobs.length - 8, "more job")}`);
  if (gpu >= 0 && box.gpus[gpu].lost) lines.push(h("br"), "This GPU is out of service.");
  return lines;
}
