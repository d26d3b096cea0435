// This file owns the output of a task on the page of its job: any rank, followed or not, with a search.
import { h } from "./words.js";

const maxParts = 2000;

// output returns the element with the output of one rank, and a function that ends the reading. It calls closed when the user closes
// it, and choose when the user selects another rank.
export function output({ id, rank, ranks, closed, choose }) {
  const text = h("pre", { class: "logs", tabindex: "0", "aria-label": `Output of rank ${rank}` }), state = h("span", { role: "status", class: "hint" });
  let parts = [], stop = new AbortController();
  const lines = () => parts.join("").split("\n");
  const narrow = () => {
    const word = find.value.toLowerCase();
    if (!word) return void (text.textContent = parts.join(""));
    const all = lines(), matching = all.filter((line) => line.toLowerCase().includes(word));
    text.textContent = matching.join("\n");
    found.textContent = matching.length === 1 ? "1 line matches." : `${matching.length} lines match.`;
  };
  const find = h("input", { type: "search", id: "log-find", placeholder: "Show only lines that contain this text", autocomplete: "off",
    "aria-label": "Show only lines that contain this text", oninput: () => { found.textContent = ""; narrow(); } });
  const found = h("span", { role: "status", class: "hint" });
  const follow = h("input", { type: "checkbox", id: "log-follow", checked: true, onchange: () => read() });
  const number = h("input", { type: "number", id: "log-rank", min: "0", max: String(ranks - 1), value: String(rank) });
  // read reads the output from the beginning of what the server has. With follow, it continues until the task ends.
  const read = async () => {
    stop.abort();
    const own = stop = new AbortController(), words = new TextDecoder();
    parts = [];
    text.textContent = "";
    state.textContent = follow.checked ? "Following the output." : "Reading the output.";
    try {
      const answer = await fetch(`/logs?${new URLSearchParams({ id, rank, ...(follow.checked ? { follow: 1 } : {}) })}`, { signal: own.signal });
      if (!answer.ok) throw new Error((await answer.text()).trim());
      const from = answer.body.getReader();
      for (let part = await from.read(); !part.done; part = await from.read()) {
        const low = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
        parts.push(words.decode(part.value, { stream: true }));
        if (parts.length > maxParts) parts.shift();
        if (find.value) narrow();
        else text.append(parts.at(-1));
        while (text.childNodes.length > maxParts) text.firstChild.remove();
        if (low && follow.checked) text.scrollTop = text.scrollHeight;
      }
      state.textContent = !parts.length ? "The task has written no output." : follow.checked ? "The task has ended." : "This is the output so far.";
    } catch (e) {
      if (!own.signal.aborted) state.textContent = `The output cannot be read: ${e.message}`;
    }
  };
  const save = () => {
    const a = h("a", { href: URL.createObjectURL(new Blob([parts.join("")], { type: "text/plain" })), download: `${id}-${rank}.txt` });
    a.click();
    URL.revokeObjectURL(a.href);
  };
  const other = h("form", { class: "filters", onsubmit: (e) => { e.preventDefault(); choose(Number(number.value)); } },
    find, h("label", {}, follow, " Follow"), h("label", {}, "Rank ", number), h("button", { type: "submit" }, "Show rank"),
    h("button", { type: "button", onclick: save }, "Download"), h("button", { type: "button", onclick: closed }, "Close"));
  const element = h("section", { "aria-label": "Output" }, h("h2", {}, `Output of rank ${rank}`), other, h("p", {}, state, " ", found), text);
  element.alive = true;
  read();
  return { element, end: () => stop.abort() };
}
