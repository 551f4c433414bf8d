// The lesson: scenes to choose from, or the scene that is played, with its next step, its figures and what to keep.
// It is served by `purgatorio learn` alone, and knows nothing of the rest of the page.

import { count, make, reconcile, setText } from "./dom.js";

const INTERVAL_MS = 400;
const RETRY_MS = 2000;

const heading = make("h2", "", "Lessons", { id: "lesson-heading" });
const place = make("span", "lesson-place");
const choice = make("select", "", [], { "aria-label": "Scene" });
const start = make("button", "way", "Start", { type: "button" });
const says = make("p", "lesson-says", "Thirteen scenes, each on this cluster, which is emptied before and after.", { role: "status" });
const why = make("p", "lesson-why");
const figures = make("dl", "lesson-figures");
const keep = make("p", "lesson-keep");
const next = make("button", "way", "", { type: "button" });
const end = make("button", "", "End the scene", { type: "button" });
const told = make("p", "lesson-told", "", { role: "status" });
const copies = ["pytest", "shell"].map((kind) =>
  make("button", "", kind === "pytest" ? "Copy this scene as a pytest" : "as a shell script", { type: "button" }));
const text = make("textarea", "lesson-text", [], { readonly: "", rows: 8, "aria-label": "The scene as text" });
const buttons = make("div", "lesson-buttons", [choice, start, next, end, ...copies]);
const lesson = make("section", "lesson panel", [
  make("div", "lesson-words", [make("div", "lesson-head", [heading, place]), says, why, keep, buttons, told, text]),
  figures,
], { "aria-labelledby": "lesson-heading" });

let playing = null;
let busy = false;
let timer = 0;

/** Show an answer to a request for the scenes. */
function show({ scenes, playing: shown }) {
  reconcile(choice, scenes, ({ name }) => name, ({ name, number, title }) =>
    ({ element: make("option", "", `${number} · ${title}`, { value: name }), update: () => {} }));
  if (playing === null && shown === null && !choice.asked) chooseByAddress(scenes);
  if (playing?.name !== shown?.name) text.hidden = true;
  playing = shown;
  lesson.classList.toggle("playing", shown !== null);
  for (const each of [choice, start]) each.hidden = shown !== null;
  for (const each of [end, figures, place]) each.hidden = shown === null;
  next.hidden = !shown?.button;
  why.hidden = !shown?.why;
  keep.hidden = !shown?.keep;
  start.disabled = next.disabled = busy || Boolean(shown?.busy);
  if (shown === null) return;
  setText(heading, `${shown.number} · ${shown.title}`);
  setText(place, shown.step ? `step ${shown.step} of ${shown.steps}` : `${shown.steps} steps`);
  setText(says, shown.says);
  setText(why, shown.why);
  setText(keep, shown.keep);
  setText(next, shown.button ?? "");
  if (shown.failed) setText(told, shown.failed);
  reconcile(figures, shown.figures, ({ says: label }) => label, () => new Figure());
}

/** A link with ?scene=acks-all chooses that scene; it begins by a click, since it empties the cluster. */
function chooseByAddress(scenes) {
  choice.asked = true;
  const name = new URLSearchParams(location.search).get("scene");
  if (scenes.some((each) => each.name === name)) choice.value = name;
}

class Figure {
  constructor() {
    this.label = make("dt");
    this.was = make("span", "was");
    this.now = make("strong");
    this.element = make("div", "", [this.label, make("dd", "", [this.was, this.now])]);
  }

  update({ says: label, unit, was, now }) {
    setText(this.label, label);
    setText(this.was, was === null ? "" : `was ${valueText(was, unit)}, now `);
    setText(this.now, valueText(now, unit));
    this.element.classList.toggle("changed", was !== null && was !== now);
  }
}

function valueText(value, unit) {
  if (value === null || value === "") return "–";
  return `${typeof value === "number" ? count(value) : value}${unit && ` ${unit}`}`;
}

/** Ask for something; returns the answer, or null after the reason was told. */
async function ask(path, body) {
  const change = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  try {
    const response = await fetch(`/api/v1/scenes${path}`, change);
    const answer = await response.json();
    if (response.ok) return answer;
    setText(told, answer.error ?? `status ${response.status}`);
  } catch {
    if (body) setText(told, "the broker does not answer");
  }
  return null;
}

/** Do something to a scene, while its buttons are off. */
async function change(path) {
  busy = true;
  start.disabled = next.disabled = true;
  setText(told, "");
  poll();
  await ask(path, {});
  busy = false;
  if (path.endsWith("stop")) {
    setText(heading, "Lessons");
    setText(says, keep.textContent || "The scene has ended; the cluster is empty.");
  }
  await poll();
  if (document.activeElement === document.body) (playing === null ? start : next.hidden ? end : next).focus();
}

async function poll() {
  clearTimeout(timer);
  const answer = document.hidden ? null : await ask("");
  if (answer) show(answer);
  clearTimeout(timer);
  timer = setTimeout(poll, answer ? INTERVAL_MS : RETRY_MS);
}

async function copy(kind) {
  const described = await ask(`/${playing?.name ?? choice.value}`);
  if (described === null) return;
  text.value = described[kind];
  text.hidden = false;
  text.select();
  try {
    await navigator.clipboard.writeText(described[kind]);
    setText(told, kind === "pytest" ? "Copied. It needs purgatorio, pytest and confluent-kafka." : "Copied. It needs purgatorio and curl.");
  } catch {
    setText(told, "The browser keeps its clipboard closed: copy the text.");
  }
}

start.addEventListener("click", () => change(`/${choice.value}/start`));
next.addEventListener("click", () => change(`/${playing.name}/step`));
end.addEventListener("click", () => change(`/${playing.name}/stop`));
copies.forEach((button, nth) => button.addEventListener("click", () => copy(nth ? "shell" : "pytest")));
text.hidden = why.hidden = keep.hidden = next.hidden = end.hidden = figures.hidden = place.hidden = true;
document.getElementById("ordinary").open = true; // a long poll is what some scenes are about
document.getElementById("main").prepend(lesson);
poll();
