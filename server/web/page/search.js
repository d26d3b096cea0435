// This file owns the search field: it shows results while the user types, and the arrow keys select one of them.
import { gpus, h } from "./words.js";

const maxFound = 10;

// rankOf returns how well a text fits: 0 is equal, 3 is not at all.
const rankOf = (text, word) => (!text ? 3 : text === word ? 0 : text.startsWith(word) ? 1 : text.includes(word) ? 2 : 3);

// resultsOf returns the jobs, nodes, queues and owners that fit a word, the best ones first.
export function resultsOf(state, word) {
  const found = [], queues = new Set(), owners = new Set();
  const add = (rank, kind, name, more, hash) => rank < 3 && found.push({ rank, kind, name, more, hash });
  for (const j of state.jobs.values()) {
    if (j.queue) queues.add(j.queue);
    if (j.owner) owners.add(j.owner);
    const rank = Math.min(rankOf(j.id.toLowerCase(), word), rankOf(j.name?.toLowerCase(), word));
    add(rank + (j.over ? 0.5 : 0), "job", j.name || j.id, [j.id, j.owner, gpus(j.gpus), j.phase].join(" · "), `#/job/${encodeURIComponent(j.id)}`);
  }
  for (const b of state.boxes.values()) add(rankOf(b.id.toLowerCase(), word), "node", b.id, b.state, `#/node/${encodeURIComponent(b.id)}`);
  for (const q of queues) add(rankOf(q.toLowerCase(), word), "queue", q, "its jobs", `#/jobs?${new URLSearchParams({ queue: q })}`);
  for (const o of owners) add(rankOf(o.toLowerCase(), word), "owner", o, "their jobs", `#/jobs?${new URLSearchParams({ owner: o })}`);
  return found.sort((a, b) => a.rank - b.rank).slice(0, maxFound);
}

// search shows results below the field. It calls narrow with the word after each change, and submit on Enter without a selected
// result.
export function search(page, form, narrow, submit) {
  const field = form.querySelector("input"), list = form.querySelector("ul");
  let found = [], at = -1;
  const close = () => {
    list.hidden = true;
    at = -1;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };
  const word = () => field.value.trim().toLowerCase();
  const go = ({ hash }) => {
    field.value = "";
    narrow("");
    close();
    page.go(hash);
  };
  const show = () => {
    list.replaceChildren(...found.map((one, i) => h("li", { role: "option", id: `found-${i}`, "aria-selected": String(i === at),
      onmousedown: (e) => { e.preventDefault(); go(one); } }, h("span", { class: "soft" }, `${one.kind} `), h("strong", {}, one.name), ` ${one.more}`)),
    ...(found.length ? [] : [h("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "No job, node, queue or owner matches.")]));
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
    if (at >= 0) field.setAttribute("aria-activedescendant", `found-${at}`);
    else field.removeAttribute("aria-activedescendant");
  };
  field.addEventListener("input", () => {
    narrow(word());
    at = -1;
    found = word() ? resultsOf(page.state, word()) : [];
    if (word()) show();
    else close();
  });
  field.addEventListener("keydown", (e) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (e.key === "Escape" && !list.hidden) close();
    else if (by && !list.hidden && found.length) at = at < 0 && by < 0 ? found.length - 1 : (at + by + found.length) % found.length;
    else return;
    if (by) show();
    e.preventDefault();
  });
  field.addEventListener("blur", close);
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    if (at >= 0) return go(found[at]);
    close();
    submit(field.value.trim());
  });
}
