// This file owns the submit of a job: the job file with its errors, the dry run, and the copy of a job. The text of the job file
// stays in this page and in its requests: answers do not contain it.
import { bytes, gpus, h, milli, plural, when } from "./words.js";

const pause = 400; // after the last change, in milliseconds

// identifier returns an identifier for one submit, so that a repeated request submits no second job.
const identifier = () => [...crypto.getRandomValues(new Uint8Array(16))].map((n) => n.toString(16).padStart(2, "0")).join("");

// send sends a request. It returns the answer, or throws an error with the text of the server.
export async function send(path, body, signal) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

// again submits a copy of a job. The page does not get the job.
export const again = (of) => send("/again", { of, id: identifier() });

const amounts = (asks) => (asks ?? []).map(({ what, total }) => (what === "memory" ? `${bytes(total)} memory` : what === "GPUs" ? gpus(total)
  : `${milli(total)} ${what}`)).join(", ");

// form returns the form with the job file. It exists once, so that a visit of another view keeps the text.
export function form() {
  let id = identifier(), timer, running = new AbortController();
  const text = h("textarea", { id: "job-file", rows: "16", spellcheck: "false", autocomplete: "off", autocapitalize: "off",
    "aria-describedby": "job-hint job-state", oninput: () => later() });
  const pick = h("input", { type: "file", id: "job-pick", accept: ".yaml,.yml,.json", onchange: () => load() });
  const state = h("div", { id: "job-state", role: "status" }), act = (label, cls, run) => h("button", { type: "button", class: cls, onclick: run }, label);
  const attempt = act("Dry run", undefined, () => ask("/try", "The scheduler is asked…")), submit = act("Submit job", "strong", () => ask("/submit", "The job is sent…"));
  // jump moves the cursor to the place of an error.
  const jump = ({ line, column }) => {
    const before = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0), at = before + Math.max(0, (column || 1) - 1);
    text.focus();
    text.setSelectionRange(at, at);
  };
  const problem = (p) => h("li", {}, p.line ? act(`Line ${p.line}, column ${p.column}`, undefined, () => jump(p)) : "The file", " ",
    p.path && h("code", {}, p.path), p.path && ": ", p.text, p.hint && `; ${p.hint}`);
  const described = (a) => [h("strong", {}, a.name), a.asks?.length > 0 && `: ${amounts(a.asks)}`];
  const hint = (a) => a.hint && h("p", { class: "warn" }, a.hint);
  const show = (path, a) => {
    text.setAttribute("aria-invalid", String(Boolean(a.problems)));
    if (a.problems) return [h("p", { class: "bad" }, `${plural(a.problems.length, "error")} in the job file:`), h("ul", { id: "job-problems" }, a.problems.map(problem))];
    if (path === "/submit") {
      id = identifier();
      return [h("p", { class: "good", id: "job-done" }, "Submitted ", ...described(a), ` as ${a.user}: job `,
        h("a", { href: `#/job/${encodeURIComponent(a.job)}` }, a.job)), h("p", { class: "hint" }, `SHA-256 of the job file: ${a.hash}`), hint(a)];
    }
    if (path !== "/try") return [h("p", { class: "good" }, "The job file has no errors. ", ...described(a))];
    const { waits, ahead, nodes, free } = a.trial;
    return [h("p", { id: "job-trial" }, ...described(a), waits ? [" would wait: ", ...when.inText(waits), "."] : ` would start now on ${nodes?.join(", ")}.`),
      free && h("p", {}, "Enough capacity is expected to be free at ", when(free), ", if no other job takes it."),
      ahead > 0 && h("p", {}, ahead === 1 ? "1 job is ahead of it." : `${ahead} jobs are ahead of it.`), hint(a)];
  };
  // ask sends the file. A later request ends an earlier one, except a submit, whose result must be known.
  const ask = async (path, meanwhile) => {
    clearTimeout(timer);
    running.abort();
    const own = running = new AbortController(), sent = path === "/submit";
    attempt.disabled = submit.disabled = sent;
    if (meanwhile) state.replaceChildren(meanwhile);
    try {
      const answer = await send(path, { file: text.value, id }, sent ? undefined : own.signal);
      if (own === running || sent) state.replaceChildren(...show(path, answer).flat().filter(Boolean));
    } catch (e) {
      if (!own.signal.aborted) state.replaceChildren(h("p", { class: "bad", role: "alert" }, e.message));
    }
    attempt.disabled = submit.disabled = false;
  };
  const later = () => {
    clearTimeout(timer);
    id = identifier();
    if (!text.value.trim()) return running.abort(), state.replaceChildren();
    timer = setTimeout(() => ask("/check"), pause);
  };
  const load = async () => {
    const [file] = pick.files;
    if (!file) return;
    if (file.size > 65536) return state.replaceChildren(h("p", { class: "bad", role: "alert" }, "The file is larger than 64 KiB: submit it with synapse-cli submit."));
    text.value = await file.text();
    pick.value = "";
    later();
    text.focus();
  };
  const element = h("section", { "aria-label": "Job file", class: "submit" }, h("p", { id: "job-hint", class: "hint" },
    "Paste a job file, or choose one. The file goes to the scheduler, and no page shows its command, environment or script."),
  h("p", {}, h("label", { for: "job-pick" }, "Choose a file "), pick), h("label", { for: "job-file" }, "Job file (YAML or JSON)"), text,
  h("div", { class: "buttons" }, attempt, submit), state);
  element.alive = true;
  return element;
}
