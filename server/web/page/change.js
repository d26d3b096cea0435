// This file owns the changes to a job file that let the job start now, one for each suggestion of `explain`.
import { h } from "./words.js";

const ways = [
  [/^with .*\((\d+) tasks?\)$/, ([, n], row) => ["gang:", row.tasks && `-  replicas: ${row.tasks}`, `+  replicas: ${n}`]],
  [/^with split any$/, () => ["gang:", "+  split: any"]],
  [/^with topology required (\S+)$/, ([, level]) => ["topology:", `+  required: ${level}`]],
  [/^with topology preferred (\S+)$/, ([, level]) => ["topology:", `-  required: ${level}`, `+  preferred: ${level}`]],
  [/^with GPU type (\S+)$/, ([, type]) => ["resources:", `+  gpuType: ${type}`]],
  [/^without label ([^=]+)=(.*)$/, ([, key, value]) => ["nodeSelector:", `-  ${key}: ${value}`]],
  [/^without excluding nodes$/, () => ["-exclude: […]"]],
  [/^on other nodes than those named$/, () => ["-nodes: […]"]],
  [/^with --time-limit (\S+)$/, ([, limit]) => [`+timeLimit: ${limit}`]],
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

// reason shows one part of an answer. Each suggestion unfolds to its change of the job file.
export function reason(text, row) {
  const [, begin, rest, end] = text.match(/^(would start now )(.*?)(, and be gone .*)?$/) ?? [];
  const all = rest?.split(", or ").map((way) => [way, changesOf(way, row)]);
  if (!all?.some(([, lines]) => lines.length)) return h("p", {}, text);
  return h("div", {}, h("p", {}, begin.trim(), end ?? "", ":"), all.map(([way, lines]) => (lines.length
    ? h("details", {}, h("summary", {}, way), h("pre", {}, h("code", {}, `spec:\n${lines.map((line) => (/^[+-]/.test(line)
      ? `${line[0]}   ${line.slice(1)}` : `    ${line}`)).join("\n")}`)))
    : h("p", {}, way))));
}
