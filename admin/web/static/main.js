// Puts the page together: one state comes in, and every view draws its part of it.

import { Answers } from "./answers.js";
import { Brokers } from "./brokers.js";
import { Clients } from "./clients.js";
import { setText } from "./dom.js";
import { Faults } from "./faults.js";
import { Groups } from "./groups.js";
import { Filters, readColours } from "./kinds.js";
import { Live } from "./live.js";
import { History } from "./history.js";
import { Matrix, partitionsOf } from "./matrix.js";
import { Parked } from "./parked.js";
import { selection } from "./selection.js";
import { Tier } from "./tier.js";
import { Timeline } from "./timeline.js";
import { Transactions } from "./transactions.js";
import { Wheel } from "./wheel.js";

const status = document.getElementById("status");
const alarm = document.getElementById("alarm");
let latest = null;

function show(state) {
  latest = state;
  answers.update(state);
  filters.update(state);
  brokers.update(state);
  parked.update(state);
  wheel.update(state);
  tier.update(state);
  faults.update(state);
  groups.update(state);
  transactions.update(state);
  timeline.update(state);
  matrix.update(state);
  selection.update(state);
  setText(document.getElementById("cluster"), `cluster ${state.cluster_id}`);
  const produces = state.brokers.flatMap((broker) => broker.purgatories).filter((purgatory) => purgatory.name === "Produce");
  const waiting = produces.reduce((sum, purgatory) => sum + purgatory.num_delayed, 0);
  const title = waiting ? `(${waiting}) Purgatorio` : "Purgatorio";
  if (document.title !== title) document.title = title;
}

function showStatus(state, text, why = "") {
  status.dataset.state = state;
  setText(status, text);
  document.documentElement.classList.toggle("silent", state === "silent");
  if (why) setText(alarm, why); // the same each second, of which a screen reader says it once
  alarm.hidden = state !== "silent";
}

const live = new Live((state) => history.take(state), showStatus);
const filters = new Filters(document.getElementById("kinds"), document.getElementById("broker-filter"), () => {
  if (latest === null) return;
  show(latest);
  timeline.showTable();
});
const answers = new Answers(live);
const brokers = new Brokers(document.getElementById("brokers"), live);
const parked = new Parked(live, filters);
const wheel = new Wheel(live, filters);
const tier = new Tier();
const faults = new Faults(live);
const groups = new Groups();
const transactions = new Transactions(live);
const timeline = new Timeline(live, filters);
const matrix = new Matrix(live, (answer) => {
  timeline.watchLeaders(partitionsOf(answer.rows), answer.cluster_id, answer.now_ms);
  return history.takeMatrix(answer);
});
const history = new History(live, show, (answer) => matrix.show(answer));
timeline.onMove = (ms, text) => history.event(ms, text, true);
new Clients();

function frame(localMs) {
  requestAnimationFrame(frame); // first, so that a frame that fails is not the last one
  wheel.draw(localMs);
  timeline.draw(localMs);
}

readColours();
window.matchMedia("(prefers-color-scheme: light)").addEventListener("change", readColours);
live.start();
requestAnimationFrame(frame);
