// Time: freezing what is shown while the cluster runs on, the events of the last ten minutes on a ribbon, and the page as
// it was at a moment of them. A state is kept each second, as text, up to a limit of size.

import { count, duration, find, fitCanvas, plural, setText } from "./dom.js";
import { colours, LONG_POLLS } from "./kinds.js";

const KEPT_MS = 600_000;
const KEPT_CHARS = 16_000_000;
const STEP_MS = 1000;
const OPERATIONS = 15; // of each purgatory, in what is kept
const MOST_EVENTS = 1000;
const AHEAD_MS = 5000; // a smaller difference of the clocks is not worth a word

/** Keeps the last ten minutes, and shows a moment of them. */
export class History {
  #moments = []; // oldest first: {ms, text, matrix}
  #events = []; // oldest first: {ms, text, bad}
  #chars = 0;
  #matrix = "";
  #last = null;
  #latest = null;

  /** @param show draws a state; @param showMatrix draws rows of partitions */
  constructor(live, show, showMatrix) {
    Object.assign(this, { live, show, showMatrix });
    find(this, { canvas: "ribbon-events", slider: "moment", says: "moment-says", freeze: "freeze", ahead: "ahead" });
    this.slider.addEventListener("input", () => this.#goTo(this.#latest.now_ms + Number(this.slider.value) * 1000));
    this.freeze.addEventListener("click", () => (this.live.viewMs === null ? this.#goTo(this.#latest.now_ms) : this.#goOn()));
  }

  /** Take in a state, and show it if the page is not frozen. */
  take(state) {
    if (state.restarted) this.#forget();
    this.#notice(state);
    this.#latest = state;
    if (!this.#moments.length || state.now_ms - this.#moments.at(-1).ms >= STEP_MS) this.#keep(state);
    this.#tellClock(state);
    if (this.live.viewMs === null) this.show(state);
    this.#draw();
  }

  /** Take in the rows of the partitions; moments share them while they do not change. */
  takeMatrix(answer) {
    const text = JSON.stringify(answer.rows);
    const synced = (rows) => new Map(rows.map(([topic, partition, , , , replicas]) => [`${topic}-${partition}`, replicas.map(([id, , is]) => `${id} ${is}`).sort().join()]));
    if (this.#matrix && text !== this.#matrix) {
      const before = synced(JSON.parse(this.#matrix));
      const changed = [...synced(answer.rows)].filter(([name, isr]) => before.has(name) && before.get(name) !== isr).map(([name]) => name);
      if (changed.length) this.event(answer.now_ms, `in-sync replicas of ${changed.length === 1 ? changed[0] : plural(changed.length, "partition", "partitions")} changed`);
    }
    this.#matrix = text;
    return this.live.viewMs === null;
  }

  /** Put an event on the ribbon. */
  event(ms, text, bad = false) {
    this.#events.push({ ms, text, bad });
    if (this.#events.length > MOST_EVENTS) this.#events.shift();
  }

  #keep(state) {
    const slim = (purgatory) => ({ ...purgatory, operations: purgatory.operations.slice(0, OPERATIONS), watch_lists: [] });
    const brokers = state.brokers.map((broker) => ({ ...broker, purgatories: broker.purgatories.map(slim) }));
    const text = JSON.stringify({ ...state, brokers, finished: [] });
    this.#moments.push({ ms: state.now_ms, text, matrix: this.#matrix });
    this.#chars += text.length;
    while (this.#chars > KEPT_CHARS || state.now_ms - this.#moments[0].ms > KEPT_MS) this.#chars -= this.#moments.shift().text.length;
    while (this.#events.length && state.now_ms - this.#events[0].ms > KEPT_MS) this.#events.shift();
  }

  #forget() {
    this.#moments = [];
    this.#events = [];
    this.#chars = 0;
    this.#last = null;
    this.#goOn();
  }

  /** Compare a state with the one before. */
  #notice(state) {
    const now = factsOf(state);
    if (this.#last !== null) {
      for (const [name, text] of now) if (this.#last.get(name) !== text && (text || this.#last.has(name))) this.event(state.now_ms, text || `${name} is over`, name.startsWith("broker"));
      for (const name of this.#last.keys()) if (!now.has(name)) this.event(state.now_ms, `${name} is gone`);
      const isNew = ({ done_ms: ms, outcome, kind }) => ms > this.#latest.now_ms && outcome === "expired" && !LONG_POLLS.has(kind);
      const expired = state.finished.filter(isNew).length;
      if (expired) this.event(state.now_ms, `${plural(expired, "operation", "operations")} expired`, true);
    }
    this.#last = now;
  }

  /** Show the last moment that was kept before this time, by the cluster's clock. */
  #goTo(ms) {
    if (!this.#moments.length) return;
    if (this.#latest.now_ms - ms < STEP_MS && this.live.viewMs !== null) return this.#goOn();
    const moment = this.#moments.findLast((each) => each.ms <= ms) ?? this.#moments[0];
    this.live.viewMs = moment.ms;
    this.show({ ...JSON.parse(moment.text), finished: this.#latest.finished });
    if (moment.matrix) this.showMatrix({ ...this.#latest, rows: JSON.parse(moment.matrix) });
    this.#tell();
  }

  #goOn() {
    this.live.viewMs = null;
    this.slider.value = 0;
    if (this.#latest) this.show(this.#latest);
    this.#tell();
  }

  #tell() {
    const { viewMs } = this.live;
    const isPast = viewMs !== null;
    document.body.classList.toggle("past", isPast);
    setText(this.freeze, isPast ? "Go on" : "Freeze");
    this.freeze.setAttribute("aria-pressed", String(isPast));
    if (isPast) this.slider.value = Math.round((viewMs - this.#latest.now_ms) / 1000);
    const ago = isPast ? duration(Math.floor((this.#latest.now_ms - viewMs) / 1000) * 1000) : "";
    const near = [...this.#events].reverse().find((event) => event.ms <= (viewMs ?? Infinity));
    const last = near ? `${near.text}, ${duration(Math.floor((this.#latest.now_ms - near.ms) / 1000) * 1000)} ago` : "";
    setText(this.says, isPast ? `This is how it was ${ago} ago; the cluster runs on. ${last && `Last before: ${last}`}` : last || "No event in the last ten minutes");
    this.slider.setAttribute("aria-valuetext", isPast ? `${ago} ago` : "now");
  }

  #tellClock({ wall_ms: wall }) {
    const ahead = wall - Date.now();
    this.ahead.hidden = Math.abs(ahead) < AHEAD_MS;
    if (!this.ahead.hidden) setText(this.ahead, `this cluster's time is ${duration(Math.abs(ahead))} ${ahead > 0 ? "ahead" : "behind"}`);
  }

  #draw() {
    this.#tell();
    const width = this.canvas.parentElement.clientWidth;
    if (width === 0) return;
    const context = fitCanvas(this.canvas, width, 16);
    context.clearRect(0, 0, width, 16);
    for (const { ms, bad } of this.#events) {
      context.fillStyle = bad ? colours.expired : colours.accent;
      context.fillRect(8 + (width - 16) * (1 - (this.#latest.now_ms - ms) / KEPT_MS), bad ? 1 : 5, 2, bad ? 14 : 10);
    }
    this.canvas.setAttribute("aria-label", `${count(this.#events.length)} events in the last ten minutes`);
  }
}

/** What is told when it changes, by name: a state of things, such as holds and rules, in words; "" for the usual one. */
function factsOf({ brokers, faults = [], groups = [], waits = [] }) {
  const facts = new Map();
  for (const { id, state, follower, paused, fenced, cut_off_from: cut = [] } of brokers) {
    facts.set(`broker ${id}: its state`, state === "running" ? "" : `broker ${id} is ${state}`);
    facts.set(`broker ${id}: the hold of its fetches`, follower?.held ? `the fetches of broker ${id} are held` : "");
    facts.set(`broker ${id}: the delay of its fetches`, follower?.delay_ms ? `the fetches of broker ${id} are delayed` : "");
    facts.set(`broker ${id}: its standstill`, paused ? `broker ${id} stands still` : "");
    facts.set(`broker ${id}: its fencing`, fenced ? `broker ${id} has lost its lease` : "");
    facts.set(`broker ${id}: its separation`, cut.length ? `broker ${id} is cut off from broker ${cut.join(", ")}` : "");
  }
  for (const { id, text } of faults) facts.set(`fault rule ${id}`, `fault rule ${id}: ${text}`);
  for (const { id, epoch, state } of groups) facts.set(`group ${id}`, `group ${id} is ${state}, epoch ${epoch}`);
  for (const { kind, actor, says } of waits) if (kind === "QuotaExceeded") facts.set(`throttling by the ${actor}`, says.length ? `the ${actor} mutes clients` : "");
  return facts;
}
