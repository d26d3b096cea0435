// This file formats values and makes elements. Text goes only into text nodes, because names may contain markup.
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) element[name] = value; // a property, so that morph can replace it
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

export const milli = (n) => String(Math.round(n) / 1000);

export function bytes(n) {
  const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
  let at = 0;
  while (n >= 1000 && at < units.length - 1) {
    n /= 1024;
    at++;
  }
  return (n >= 100 ? n.toFixed(0) : n.toFixed(1).replace(/\.0$/, "")) + units[at];
}

export function span(ms) {
  const s = Math.floor(Math.max(ms, 0) / 1000);
  if (s < 120) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  const minutes = Math.floor(s / 60) % 60;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)}h${minutes ? `${minutes}m` : ""}`;
  return `${Math.floor(s / 86400)}d`;
}

// brief formats a duration that may be shorter than a second.
export const brief = (ms) => (ms < 1000 ? `${Math.max(ms, 0)} ms` : span(ms));

export const clock = (ms) => (ms ? new Date(ms).toLocaleString() : "–");

export const plural = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

const mood = { running: "good", succeeded: "good", up: "good", failed: "bad", "timed-out": "bad", dead: "bad",
  unknown: "bad", damaged: "bad", cancelled: "soft" };
export const moodOf = (word) => mood[word] ?? "warn";
export const phase = (word) => h("span", { class: moodOf(word) }, word);

// People with common kinds of colour blindness can distinguish these colours. All are readable in both themes.
const colours = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a600", "#7a5cc0", "#8c564b",
  "#2f9e9e", "#a0519c", "#6b8e23"];
const found = new Map();
export function colourOf(id) {
  if (!found.has(id)) {
    if (found.size > 20000) found.clear();
    found.set(id, colours[sumOf(id) % colours.length]);
  }
  return found.get(id);
}

function sumOf(id) {
  let sum = 2166136261;
  for (let i = 0; i < id.length; i++) sum = Math.imul(sum ^ id.charCodeAt(i), 16777619);
  return sum >>> 0;
}

export function chip(id) {
  const mark = h("span", { class: "chip", "aria-hidden": "true" });
  mark.style.background = colourOf(id);
  return mark;
}

// quote writes a word for a POSIX shell, so that a pasted command runs nothing else.
export const quote = (word) => (/^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

export const natural = new Intl.Collator("en", { numeric: true }).compare;

let answers;
export const answerBy = (how) => { answers = how; };

// ask sends a request to the server, or to the function of answerBy, such as a playback.
export async function ask(path, query = {}) {
  return answers ? answers(path, query) : askNow(path, query);
}

// askNow sends a request to the server.
export async function askNow(path, query = {}) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

// table returns a table. On a narrow screen, each row becomes a card, in which each cell shows the name of its column. The
// roles are explicit, because browsers drop the roles of a table that is not displayed as a table.
export function table(name, heads, rows) {
  for (const row of rows) {
    row.setAttribute("role", "row");
    [...row.cells].forEach((cell, i) => {
      cell.setAttribute("role", "cell");
      cell.setAttribute("data-label", heads[i][0]);
    });
  }
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, h("table", { role: "table", "aria-label": name },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map(([text, cls]) =>
      h("th", { class: cls, scope: "col", role: "columnheader" }, text)))),
    h("tbody", { role: "rowgroup" }, rows)));
}
