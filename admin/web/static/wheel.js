// The timing wheels of the shown purgatories, laid over each other: one ring per level, the finest innermost.
//
// The picture turns so that now is always at the top: a deadline stands as far round, clockwise, as it lies ahead, in
// parts of the ring's span. Which ring it is in follows the broker's own rule: the finest whose span reaches it, looked
// at again only when its bucket's time comes. Between two answers of the broker that is worked out here.

import { count, duration, find, fitCanvas, make, pointing, reconcile, setText, write } from "./dom.js";
import { colours, kindColour, kindName, OUTCOMES } from "./kinds.js";
import { shownOperations } from "./parked.js";
import { placeOfOperation, selection } from "./selection.js";

const TURN = 2 * Math.PI;
const LEAST_LEVELS = 4; // 1 ms, 20 ms, 400 ms, 8 s: a wheel that has not needed the coarse ones yet is drawn with them
const SLOW_MS = 5000; // rings that take longer for a turn show their buckets turning; faster ones would flicker
const SETTLE_MS = 90; // how quickly a dot follows its place
const LEAVING_MS = 900; // how long a finished dot is seen
const MAX_DOTS = 400;
const LEAST_PX = 120; // a canvas that is smaller, or hidden, is left as it is
const FALL = 0.9; // how far an expired dot falls towards the middle
const still = window.matchMedia("(prefers-reduced-motion: reduce)");

/** Draws the wheel, and the list of its rings. */
export class Wheel {
  #dots = new Map();
  #leaving = [];
  #levels = [];
  #outcomes = new Map();
  #drawnMs = 0;
  #describedMs = -Infinity;

  constructor(live, filters) {
    this.live = live;
    this.filters = filters;
    find(this, { canvas: "wheel", list: "levels" });
    this.pointed = null;
    pointing(this.canvas, (event) => this.#linesAt(event), (event) => {
      this.#linesAt(event);
      if (this.pointed !== null) selection.choose(placeOfOperation(this.pointed.operation));
    });
  }

  update(state) {
    this.#levels = mergeLevels(state, this.filters);
    for (const row of state.finished) this.#outcomes.set(`${row.broker}/${row.purgatory}/${row.id}`, row.outcome);
    const operations = shownOperations(state, this.filters).slice(0, MAX_DOTS);
    const present = new Set();
    for (const operation of operations) {
      present.add(operation.name);
      const dot = this.#dots.get(operation.name) ?? this.#enter(operation);
      dot.operation = operation;
      this.#anchor(dot);
    }
    for (const [name, dot] of this.#dots) if (!present.has(name)) this.#leave(name, dot);
    while (this.#outcomes.size > 2000) this.#outcomes.delete(this.#outcomes.keys().next().value);
    reconcile(this.list, this.#levels, (level) => level.tick, () => new LevelRow());
    this.#describe(operations.length);
  }

  #enter(operation) {
    const dot = { operation, level: 0, bucketMs: 0, x: null, y: null, jitter: jitterOf(operation), bornMs: performance.now() };
    this.#dots.set(operation.name, dot);
    return dot;
  }

  #leave(name, dot) {
    this.#dots.delete(name);
    const outcome = this.#outcomes.get(name);
    if (outcome === undefined && this.filters.kind(dot.operation.kind) && this.#dots.size >= MAX_DOTS) return;
    if (dot.x !== null && !still.matches) this.#leaving.push({ ...dot, outcome, leftMs: performance.now() });
  }

  /** Put a dot into the bucket that holds it according to the broker. */
  #anchor(dot) {
    const deadline = dot.operation.deadline_ms;
    for (const [index, level] of this.#levels.entries()) {
      const bucketMs = deadline - (deadline % level.tick);
      if (level.buckets.has(bucketMs)) {
        dot.level = index;
        dot.bucketMs = bucketMs;
        return;
      }
    }
    this.#descend(dot, this.live.now(), true);
  }

  /** Move a dot to the ring where it belongs now: a bucket whose time has come is emptied into finer ones. */
  #descend(dot, nowMs, force = false) {
    if (!force && (nowMs < dot.bucketMs || dot.level === 0)) return;
    const deadline = dot.operation.deadline_ms;
    const index = this.#levels.findIndex((level) => deadline < nowMs - (nowMs % level.tick) + level.span);
    dot.level = index < 0 ? this.#levels.length - 1 : index;
    const tick = this.#levels[dot.level]?.tick ?? 1;
    dot.bucketMs = deadline - (deadline % tick);
  }

  /** Draw one frame. */
  draw(localMs) {
    const width = this.canvas.parentElement.clientWidth;
    const size = Math.min(width, 620);
    if (size < LEAST_PX) return;
    const elapsedMs = Math.min(100, localMs - this.#drawnMs);
    if (still.matches && elapsedMs < 100) return;
    this.#drawnMs = localMs;
    const context = fitCanvas(this.canvas, width, size);
    context.clearRect(0, 0, width, size);
    const now = this.live.now(localMs);
    const g = { context, cx: width / 2, cy: size / 2 + 6, ...this.#radii(size), now, localMs };
    this.geometry = g;
    this.#levels.forEach((level, index) => this.#drawRing(g, level, index));
    this.#drawNow(g);
    for (const dot of this.#dots.values()) this.#drawDot(g, dot, elapsedMs);
    this.#leaving = this.#leaving.filter((dot) => localMs - dot.leftMs < LEAVING_MS);
    for (const dot of this.#leaving) drawLeaving(g, dot);
    this.#drawCounts(g);
    this.#drawCore(g);
  }

  #radii(size) {
    const outer = size / 2 - 16;
    const core = Math.max(34, size * 0.085);
    return { outer, core, step: (outer - core) / Math.max(LEAST_LEVELS, this.#levels.length) };
  }

  #drawRing({ context, cx, cy, core, step, now }, level, index) {
    const [inner, outer] = [core + index * step, core + (index + 1) * step];
    context.lineWidth = 1;
    context.strokeStyle = colours.ring;
    circle(context, cx, cy, outer);
    context.stroke();
    const slow = level.span >= SLOW_MS && !still.matches;
    const shift = slow ? (now % level.tick) / level.tick : 0;
    context.globalAlpha = slow ? 1 : 0.55;
    context.beginPath();
    for (let i = 0; i < level.size; i += 1) {
      const angle = ((i + 1 - shift) / level.size) * TURN - TURN / 4;
      const from = slow ? inner + 3 : outer - step * 0.22;
      context.moveTo(cx + Math.cos(angle) * from, cy + Math.sin(angle) * from);
      context.lineTo(cx + Math.cos(angle) * (outer - 1), cy + Math.sin(angle) * (outer - 1));
    }
    context.stroke();
    context.globalAlpha = 1;
    for (const [bucketMs, bucket] of level.buckets) {
      drawBucket({ context, cx, cy, inner, outer }, partOf(level, bucketMs, now), bucket);
    }
  }

  /** How many a bucket holds, where its ring is slow enough to read that. */
  #drawCounts({ context, cx, cy, core, step, now }) {
    context.font = "600 11px ui-sans-serif, system-ui, sans-serif"; // by which the texts are measured
    for (const [index, level] of this.#levels.entries()) {
      if (level.span < SLOW_MS) continue;
      for (const [bucketMs, bucket] of level.buckets) {
        const part = partOf(level, bucketMs, now);
        if (bucket.entries < 2 || part === null) continue;
        const angle = ((part.from + part.to) / 2) * TURN - TURN / 4;
        const radius = core + (index + 1) * step;
        const [x, y] = [cx + Math.cos(angle) * radius, cy + Math.sin(angle) * radius];
        const text = shortCount(bucket.entries);
        const half = context.measureText(text).width / 2 + 5;
        context.fillStyle = colours.panel;
        context.strokeStyle = colours.ring;
        context.lineWidth = 1;
        context.beginPath();
        context.roundRect(x - half, y - 8, half * 2, 16, 8);
        context.fill();
        context.stroke();
        write(context, text, x, y + 0.5, { colour: colours.text, font: "600 11px" });
      }
    }
  }

  #drawNow({ context, cx, cy, core, outer }) {
    context.strokeStyle = colours.text;
    context.globalAlpha = 0.75;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(cx, cy - core);
    context.lineTo(cx, cy - outer - 8);
    context.stroke();
    context.globalAlpha = 1;
    write(context, "now", cx, cy - outer - 8, { colour: colours.text, font: "600 12px", base: "bottom" }); // above the counts, which pass here
    this.#levels.forEach((level, index) => {
      const { step } = this.geometry;
      write(context, spanText(level.span), cx - 6, cy - core - (index + 0.5) * step, { colour: colours.muted, align: "right" });
    });
  }

  #place(g, dot) {
    const level = this.#levels[dot.level];
    if (level === undefined) return [g.cx, g.cy];
    const ahead = Math.max(0, Math.min(0.999, (dot.operation.deadline_ms - g.now) / level.span));
    const angle = ahead * TURN - TURN / 4;
    const arrived = dot.level === 0 && g.now >= dot.operation.deadline_ms;
    const radius = arrived ? g.core * 0.6 : g.core + (dot.level + 0.5 + dot.jitter) * g.step;
    return [g.cx + Math.cos(angle) * radius, g.cy + Math.sin(angle) * radius];
  }

  #drawDot(g, dot, elapsedMs) {
    this.#descend(dot, g.now);
    const [x, y] = this.#place(g, dot);
    if (dot.x === null) {
      const away = still.matches ? 1 : 1.25; // it comes in from outside
      dot.x = g.cx + (x - g.cx) * away;
      dot.y = g.cy + (y - g.cy) * away;
    }
    const follow = still.matches ? 1 : 1 - Math.exp(-elapsedMs / SETTLE_MS);
    dot.x += (x - dot.x) * follow;
    dot.y += (y - dot.y) * follow;
    const { context } = g;
    const produce = dot.operation.kind === "produce";
    context.fillStyle = kindColour(dot.operation.kind);
    const lit = selection.lights(placeOfOperation(dot.operation));
    const dim = lit ? 1 : 0.15;
    if (produce || (lit && selection.place)) {
      context.globalAlpha = 0.2 * dim;
      circle(context, dot.x, dot.y, 9);
      context.fill();
    }
    context.globalAlpha = dim * (produce ? 1 : 0.75);
    circle(context, dot.x, dot.y, produce ? 4.5 : 3.5);
    context.fill();
    context.globalAlpha = 1;
    if (dot === this.pointed || selection.place === placeOfOperation(dot.operation)) {
      context.strokeStyle = colours.text;
      context.lineWidth = 1.5;
      circle(context, dot.x, dot.y, 8);
      context.stroke();
    }
  }

  #drawCore({ context, cx, cy, core }) {
    circle(context, cx, cy, core - 4);
    context.fillStyle = colours.panel;
    context.fill();
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.stroke();
    let waiting = 0;
    for (const level of this.#levels) for (const bucket of level.buckets.values()) waiting += bucket.entries;
    const text = count(waiting);
    write(context, text, cx, cy - 4, { colour: waiting ? colours.text : colours.muted, font: `600 ${text.length > 4 ? 16 : 22}px`, face: "ui-serif, Georgia, serif" });
    write(context, "in the wheel", cx, cy + 13, { colour: colours.muted, font: "10px" });
  }

  #describe(shown) {
    const nowMs = performance.now();
    if (nowMs - this.#describedMs < 2000) return; // a screen reader is told now and then only
    this.#describedMs = nowMs;
    const rings = this.#levels.map((level) => `${level.entries} within ${spanText(level.span)}`);
    this.canvas.setAttribute("aria-label", `Timing wheel with ${shown} deadlines shown: ${rings.join(", ")}`);
  }

  /** What is at the pointer, as lines; it is `pointed` from then on. */
  #linesAt(event) {
    this.pointed = null;
    if (!event) return [];
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let nearest = null;
    let least = 16;
    for (const dot of this.#dots.values()) {
      const distance = dot.x === null ? Infinity : Math.hypot(dot.x - x, dot.y - y);
      if (distance < least) [nearest, least] = [dot, distance];
    }
    this.pointed = nearest;
    if (nearest === null) return [];
    const { operation } = nearest;
    const left = operation.deadline_ms - this.live.now();
    return [
      `${kindName(operation.kind)} #${operation.id} on broker ${operation.broker}`,
      operation.missing,
      `${duration(left)} left`,
    ];
  }
}

class LevelRow {
  constructor() {
    this.span = make("strong");
    this.says = make("span", "level-says");
    this.entries = make("span", "level-entries");
    this.element = make("li", "", [this.span, this.says, this.entries]);
  }

  update(level) {
    setText(this.span, spanText(level.span));
    setText(this.says, `${level.size} × ${spanText(level.tick)}`);
    setText(this.entries, level.exists ? count(level.entries) : "not needed yet");
    this.element.classList.toggle("busy", level.entries > 0);
  }
}

/** The wheels of the shown purgatories as one: by level, its buckets with their entries and the kind that colours them. */
function mergeLevels(state, filters) {
  const merged = new Map();
  let size = 20;
  for (const broker of state.brokers) {
    if (!filters.broker(broker.id)) continue;
    for (const purgatory of broker.purgatories) {
      for (const level of purgatory.wheel) size = level.wheel_size;
      addWheel(merged, purgatory, filters);
    }
  }
  let tick = Math.min(1, ...merged.keys());
  for (let i = 0; i < LEAST_LEVELS; i += 1, tick *= size) if (!merged.has(tick)) merged.set(tick, emptyLevel(tick, size, false));
  return [...merged.values()].sort((a, b) => a.tick - b.tick);
}

function emptyLevel(tick, size, exists) {
  return { tick, size, span: tick * size, entries: 0, exists, buckets: new Map() };
}

/** Add a purgatory's buckets. One that mixes kinds is counted by its operations of the shown kinds, which are listed. */
function addWheel(merged, purgatory, filters) {
  const kinds = new Set(purgatory.operations.map((operation) => operation.kind));
  const allShown = [...kinds].every((kind) => filters.kind(kind));
  const [kind] = [...kinds].filter((name) => filters.kind(name));
  for (const level of purgatory.wheel) {
    if (!merged.has(level.tick_ms)) merged.set(level.tick_ms, emptyLevel(level.tick_ms, level.wheel_size, true));
    const target = merged.get(level.tick_ms);
    target.exists = true;
    if (kind === undefined) continue;
    for (const bucket of level.buckets) {
      const from = bucket.expiration_ms;
      const inside = (operation) => operation.deadline_ms >= from && operation.deadline_ms < from + level.tick_ms && filters.kind(operation.kind);
      const entries = allShown ? bucket.entries : purgatory.operations.filter(inside).length;
      if (entries === 0) continue;
      const known = target.buckets.get(from);
      target.buckets.set(from, { entries: entries + (known?.entries ?? 0), kind: known?.kind === "produce" ? "produce" : kind });
      target.entries += entries;
    }
  }
}

/** Where a bucket stands in its ring, in parts of a turn from now; null once it is over. */
function partOf(level, bucketMs, now) {
  const from = Math.max(0, (bucketMs - now) / level.span);
  const to = Math.min(1, (bucketMs + level.tick - now) / level.span);
  return to > from ? { from, to } : null;
}

function drawBucket({ context, cx, cy, inner, outer }, part, bucket) {
  if (part === null) return;
  const [from, to] = [part.from * TURN - TURN / 4, part.to * TURN - TURN / 4];
  context.beginPath();
  context.arc(cx, cy, outer - 2, from, to);
  context.arc(cx, cy, inner + 2, to, from, true);
  context.closePath();
  context.globalAlpha = Math.min(0.5, 0.13 + 0.07 * Math.log2(1 + bucket.entries));
  context.fillStyle = kindColour(bucket.kind);
  context.fill();
  context.globalAlpha = 1;
}

/** A finished dot: freed ones rise out of the wheel, expired ones fall into its middle. */
function drawLeaving({ context, cx, cy, localMs }, dot) {
  const part = Math.min(1, (localMs - dot.leftMs) / LEAVING_MS);
  const eased = 1 - (1 - part) ** 3;
  const completed = dot.outcome === "completed" || dot.outcome === undefined;
  const factor = completed ? 1 + 0.18 * eased : 1 - FALL * eased;
  const [x, y] = [cx + (dot.x - cx) * factor, cy + (dot.y - cy) * factor];
  context.globalAlpha = (1 - part) * 0.9;
  context.fillStyle = context.strokeStyle = colours[dot.outcome in OUTCOMES ? dot.outcome : "muted"];
  circle(context, x, y, 4);
  context.fill();
  context.lineWidth = 1.5;
  circle(context, x, y, 4 + 10 * eased);
  context.stroke();
  context.globalAlpha = 1;
}

function circle(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, Math.max(0, radius), 0, TURN);
}

/** Where across its ring a dot sits, so that neighbours do not cover each other; the same in every frame. */
function jitterOf(operation) {
  const spread = ((operation.id * 7 + operation.broker * 3) % 11) / 11 - 0.45;
  return spread * 0.55;
}

/** A number in at most four characters, since a bucket is narrow: 999, 1.2k, 12k, 3.4M. */
function shortCount(number) {
  if (number < 1000) return String(number);
  const [unit, letter] = number < 999_500 ? [1000, "k"] : [1_000_000, "M"];
  const part = number / unit;
  return (part < 9.95 ? part.toFixed(1) : Math.round(part)) + letter;
}

/** Spans of rings and buckets: 20 ms, 8 s, 160 s. */
function spanText(ms) {
  return ms < 1000 ? `${ms} ms` : ms < 600_000 ? `${ms / 1000} s` : duration(ms);
}
