// This file owns the changes to a job file that let the job start now, one for each suggestion of `explain`.
import { h, when } from "./words.js";

const ways = [
  [/^with .*\((\d+) tasks?\)$/, ([, n], row) => ["gang:", row.tasks && `-  replicas: ${row.tasks}`, `+  replicas: ${n}`]],
  [/^with split any$/, () => ["gang:", "+  split: any"]],
  [/^with topology required (\S+)$/, ([, level]) => ["topology:", `+  required: ${level}`]],
  [/^with topology preferred (\S+)$/, ([, level]) => ["topology:", `-  required: ${level}`, `+  preferred: ${level}`]],
  [/^with GPU type (\S+)$/, ([, type]) => ["resources:", `+  gpuType: ${type}`]],
  [/^without label ([^=]+)=(.*)$/, ([, key, value]) => ["nodeSelector:", `-  ${key}: ${value}`]],
  [/^without excluding nodes$/, () => ["-exclude: […]"]],
  [/^on other nodes than those named$/, () => ["-nodes: […]"]],
  [/^without topology patience$/, () => ["topology:", "-  patience: …"]],
  [/^with --time-limit (\S+)(?: \(.*\))?$/, ([, limit]) => [`+timeLimit: ${limit}`]],
];

// changesOf returns the lines of the job file that a suggestion changes. It returns none if the job file need not change.
export function changesOf(way, row) {
  const lines = [];
  for (const part of way.split(/ and (?=topology|with )/)) {
    const text = /^topology/.test(part) ? `with ${part}` : part;
    const found = ways.map(([how, change]) => [text.match(how), change]).find(([match]) => match);
    if (!found) return [];
    lines.push(...found[1](found[0], row).filter(Boolean));
  }
  return lines;
}

// suggestion shows a change that would let the job start now. It unfolds to the change of the job file.
function suggestion(way, row) {
  const lines = changesOf(way, row);
  return lines.length ? h("details", {}, h("summary", {}, way), h("pre", {}, h("code", {}, `spec:\n${lines.map((line) =>
    (/^[+-]/.test(line) ? `${line[0]}   ${line.slice(1)}` : `    ${line}`)).join("\n")}`))) : way;
}

// facts shows an answer of `explain`: a title, and a table with one row for each kind of fact.
export function facts({ title, rows }, row) {
  const width = Math.max(1, ...rows.flatMap(({ lines }) => lines.map((cells) => cells.length)));
  const cell = (label, text) => (label === "To start now" ? suggestion(text, row) : when.inText(text));
  return [h("p", {}, when.inText(title)), rows.length > 0 && h("table", { class: "explained" }, h("tbody", {}, rows.map(({ label, lines }) =>
    lines.map((cells, at) => h("tr", {}, at === 0 && h("th", { scope: "rowgroup", rowspan: lines.length }, label), cells.map((text, i) =>
      h("td", { colspan: i === cells.length - 1 && cells.length < width ? width - i : undefined }, cell(label, text)))))).flat()))];
}
