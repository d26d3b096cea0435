// This file formats values and makes elements. Text goes only into text nodes, because names may contain markup.
import { lookOf } from "./looks.js";

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

const pad = (n) => String(n).padStart(2, "0");
const utc = (ms) => new Date(ms).toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");

// when shows times in the time zone of the browser. Its tooltip has the same time in UTC, as the command line prints it.
export const when = (ms, format = (date) => date.toLocaleString()) => (ms
  ? h("time", { datetime: new Date(ms).toISOString(), title: utc(ms) }, format(new Date(ms))) : "–");
when.title = (ms) => `${new Date(ms).toLocaleString()} (${utc(ms)})`;

const days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const times = /\b(?:(\d{4}-\d\d-\d\d)[ T]|(Sun|Mon|Tue|Wed|Thu|Fri|Sat) )?(\d\d):(\d\d)(:\d\d)?Z/g;

// when.inText converts the UTC times in a text of the scheduler, such as "ends by Mon 17:26Z", to the time zone of the browser.
when.inText = (text, now = Date.now()) => {
  const parts = [];
  let at = 0;
  for (const m of text.matchAll(times)) {
    const [all, date, day, hours, minutes, seconds = ""] = m, then = date ? new Date(`${date}T00:00:00Z`) : new Date(now);
    if (day) then.setUTCDate(then.getUTCDate() + (days.indexOf(day) - then.getUTCDay() + 7) % 7);
    then.setUTCHours(Number(hours), Number(minutes), Number(seconds.slice(1)), 0);
    const today = then.toDateString() === new Date(now).toDateString(), short = `${pad(then.getHours())}:${pad(then.getMinutes())}${
      seconds && `:${pad(then.getSeconds())}`}`;
    const dated = `${then.getFullYear()}-${pad(then.getMonth() + 1)}-${pad(then.getDate())} `;
    parts.push(text.slice(at, m.index), h("time", { datetime: then.toISOString(), title: utc(then.getTime()) },
      `${today ? "" : date ? dated : `${days[then.getDay()]} `}${short}`));
    at = m.index + all.length;
  }
  return [...parts, text.slice(at)].filter((part) => part !== "");
};

export const plural = (n, what) => `${String(n).replace(/\B(?=(\d{3})+$)/g, ",")} ${what}${n === 1 ? "" : "s"}`;

// gpus formats an amount of GPUs in thousandths.
export const gpus = (n) => `${milli(n)} ${n === 1000 ? "GPU" : "GPUs"}`;

const mood = { running: "good", succeeded: "good", up: "good", failed: "bad", "timed-out": "bad", dead: "bad",
  unknown: "bad", damaged: "bad", cancelled: "soft" };
export const moodOf = (word) => mood[word] ?? "warn";
export const phase = (word) => h("span", { class: moodOf(word) }, word);

export function chip(id) {
  const { colour, stripe } = lookOf(id), mark = h("span", { class: stripe ? `chip stripe${stripe}` : "chip", "aria-hidden": "true" });
  mark.style.backgroundColor = colour;
  return mark;
}

// quote writes a word for a POSIX shell, so that a pasted command runs nothing else.
export const quote = (word) => (/^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

const knownParts = new Map(), maxKnown = 50_000;

// partsOf returns the parts of a name for naturally: numbers, and the text between them. It remembers the parts, because lists are put
// in order at each change.
export function partsOf(name) {
  let parts = knownParts.get(name);
  if (!parts) {
    parts = name.toLowerCase().split(/(\d+)/).map((part, i) => (i % 2 ? Number(part) : part));
    if (knownParts.size >= maxKnown) knownParts.clear();
    knownParts.set(name, parts);
  }
  return parts;
}

// naturally returns the order of two lists of parts.
export const naturally = (a, b) => {
  for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
  return a.length - b.length;
};

// natural compares two names, and numbers in them by their value. The collator of the browser is not used: to make it takes as long as
// to draw the map, and its comparisons of 10,000 names take too long for an update.
export const natural = (a, b) => naturally(partsOf(a), partsOf(b)) || (a < b ? -1 : a > b ? 1 : 0);

// inOrder returns a list in the natural order of the names of its elements. Each name is taken apart once.
export function inOrder(all, nameOf) {
  return [...all].map((one) => ({ one, name: nameOf(one), parts: partsOf(nameOf(one)) }))
    .sort((a, b) => naturally(a.parts, b.parts) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)).map(({ one }) => one);
}

let answers;
export const answerBy = (how) => { answers = how; };

// ask sends a request to the server, or to the function of answerBy, such as a playback.
export async function ask(path, query = {}) {
  return answers ? answers(path, query) : askNow(path, query);
}

// askNow sends a request to the server.
export async function askNow(path, query = {}) {
  const search = new URLSearchParams(query), answer = await fetch(search.size ? `${path}?${search}` : path); // the name of a preload
  if (!answer.ok) throw Object.assign(new Error((await answer.text()).trim()), { forbidden: answer.status === 403 });
  return answer.json();
}

// empty returns what a view shows instead of data: that the data is loading, that there is none, or that the user may not see it.
export const empty = (text) => h("p", { class: "empty", role: "status" }, text);
export const forbidden = (text) => empty(`You may not see this. ${text[0].toUpperCase()}${text.slice(1)}. Ask an admin for a role that may.`);

// table returns a table. On a narrow screen, each row becomes a card, in which each cell shows the name of its column. The
// roles are explicit, because browsers drop the roles of a table that is not displayed as a table.
export function table(name, heads, rows) {
  const dressed = (row) => {
    row.setAttribute("role", "row");
    [...row.cells].forEach((cell, i) => {
      cell.setAttribute("role", "cell");
      cell.setAttribute("data-label", heads[i][0]);
    });
    return row;
  };
  const body = h("tbody", { role: "rowgroup" }, rows.filter((row) => !row.make).map(dressed));
  if (rows[0]?.make) body.wanted = rows.map((row) => ({ ...row, make: () => dressed(row.make()) }));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, h("table", { role: "table", "aria-label": name },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map(([text, cls, button, sorted]) =>
      h("th", { class: cls, scope: "col", role: "columnheader", "aria-sort": sorted }, button || text)))), body));
}
