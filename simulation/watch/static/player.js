// The player of a recorded seed: play, step, speed, a line of time with its faults and failures, and what clients saw.
// It is served by `purgatorio simulate --watch` alone. The rest of the page shows each frame as it shows a living cluster.

import { fitCanvas, make, reconcile, setText } from "./dom.js";
import { colours } from "./kinds.js";

const INTERVAL_MS = 250;
const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8, 16];
const NEAR_MS = 700; // faults of so long before the moment are told

const button = (text, label, body) => {
  const made = make("button", "", text, { type: "button", "aria-label": label, title: label });
  made.addEventListener("click", () => ask("", typeof body === "function" ? body() : body));
  return made;
};
const heading = make("h2", "", "Seed", { id: "player-heading" });
const place = make("span", "player-place");
const fails = make("div", "player-fails", [], { role: "status" });
const canvas = make("canvas", "", [], { role: "img", "aria-label": "Faults, elections and failures" });
const slider = make("input", "", [], { type: "range", step: 1, "aria-label": "The moment of the seed that is shown" });
const told = make("p", "player-told", "", { role: "status" });
const play = button("Play", "Play or pause", () => ({ playing: !state.playing }));
const speed = make("select", "", SPEEDS.map((each) => make("option", "", `${each}×`, { value: each })), { "aria-label": "Speed" });
const lines = make("ol", "player-lines", [], { tabindex: 0, "aria-label": "What clients saw last" });
const player = make("section", "player panel", [
  make("div", "player-head", [heading, place]),
  fails,
  make("div", "player-line", [canvas, slider]),
  make("div", "player-buttons", [
    play, button("Step back", "One frame back", { step: -1 }), button("Step", "One frame forward", { step: 1 }),
    button("To the start", "To the start", () => ({ to_ms: state.begins_ms })), speed, told,
  ]),
  make("h3", "", "What clients saw, up to this moment"),
  lines,
], { "aria-labelledby": "player-heading" });

let state = null;
let marks = [];
let timer = 0;

const seconds = (ms) => `${((ms - state.begins_ms) / 1000).toFixed(3)} s`;

function show(answer) {
  state = answer;
  const { name, at_ms: at, begins_ms: begins, ends_ms: ends, frame, frames, playing, failures } = state;
  setText(heading, name[0].toUpperCase() + name.slice(1));
  setText(place, `${seconds(at)} of ${seconds(ends)}, frame ${frame + 1} of ${frames}`);
  setText(play, playing ? "Pause" : "Play");
  speed.value = state.speed;
  slider.min = begins;
  slider.max = ends;
  slider.value = at;
  slider.setAttribute("aria-valuetext", seconds(at));
  reconcile(fails, failures, ({ ms, says }) => `${ms} ${says}`, (each) => new Failed(each));
  const near = marks.findLast(({ ms, kind }) => ms <= at && kind === "fault");
  setText(told, near ? `${seconds(near.ms)}: ${near.says}${at - near.ms < NEAR_MS ? ", now" : ""}` : "No fault yet");
  reconcile(lines, state.lines.map((each, nth) => ({ ...each, nth: state.line_count - nth })), ({ nth, ms, says }) => `${nth} ${ms} ${says}`, (each) => new Line(each));
  if (playing || !lines.matches(":hover, :focus")) lines.scrollTop = lines.scrollHeight;
  draw();
}

class Failed {
  constructor({ ms, says }) {
    this.element = make("p", "", [make("strong", "", says), " ", button(`Go to ${seconds(ms)}`, `Go to the moment of this failure, ${seconds(ms)}`, { to_ms: ms })]);
    this.ms = ms;
  }

  update({ ms }) {
    this.element.classList.toggle("reached", state.at_ms >= ms);
  }
}

class Line {
  constructor({ ms, type, says, cluster }) {
    this.element = make("li", cluster ? "of-cluster" : "", [make("span", "", seconds(ms)), make("strong", "", type), make("span", "", says)]);
  }

  update() {}
}

function draw() {
  const width = canvas.parentElement.clientWidth;
  if (!width) return;
  const context = fitCanvas(canvas, width, 18);
  context.clearRect(0, 0, width, 18);
  const x = (ms) => 8 + ((width - 16) * (ms - state.begins_ms)) / (state.ends_ms - state.begins_ms || 1);
  for (const { ms, kind } of marks) {
    context.fillStyle = kind === "fault" ? colours.accent : colours.muted;
    context.fillRect(x(ms), kind === "fault" ? 3 : 10, 2, kind === "fault" ? 12 : 5);
  }
  context.fillStyle = colours.expired;
  for (const { ms } of state.failures) context.fillRect(x(ms) - 1, 0, 4, 18);
}

/** Ask for the player, or move it; shows the answer. */
async function ask(path, body) {
  const change = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  try {
    const answer = await (await fetch(`/api/v1/player${path}`, change)).json();
    if (path || answer.error) return answer;
    show(answer);
  } catch {
    // the page says already that there is no answer
  }
  return null;
}

async function poll() {
  clearTimeout(timer);
  if (!marks.length) marks = (await ask("/marks"))?.marks ?? [];
  if (!document.hidden) await ask("");
  timer = setTimeout(poll, INTERVAL_MS);
}

slider.addEventListener("input", () => ask("", { to_ms: Number(slider.value) }));
speed.addEventListener("change", () => ask("", { speed: Number(speed.value) }));
document.getElementById("main").prepend(player);
poll();
