// Finished operations: bars over the last half minute, and a table of the newest; and when leadership moved.

import { count, duration, find, fitCanvas, keysText, make, pointing, reconcile, setText, write } from "./dom.js";
import { pick, placeOfOperation, relativesOf, selection } from "./selection.js";
import { colours, FOLLOWERS, kindClass, kindName, LONG_POLLS, OUTCOMES } from "./kinds.js";

const WINDOW_MS = 30_000;
const KEPT = 2000;
const ROWS = 40;
const QUIET_ROWS = 6; // among them
const LANES = 16;
const LANE_PX = 11;
const MOVES = 12; // moves of leadership that are kept
const GAP_MS = 60; // between two bars of one lane
const CAUSES = { expired: "its deadline", cancelled: "being taken out", shutdown: "the broker's end", error: "a failure" };

/** Keeps the operations that finished while the page was open, and draws them. */
export class Timeline {
  #rows = []; // newest first
  #known = new Set();
  #lanes = [];
  #drawn = [];
  #leaders = new Map(); // of each partition: [leader, leader epoch]
  #moves = []; // newest first: {ms, text}
  #cluster = "";

  constructor(live, filters) {
    this.live = live;
    this.filters = filters;
    find(this, { canvas: "timeline", body: "finished", moved: "moved" });
    pointing(this.canvas, (event) => this.#linesAt(event), (event) => {
      const hit = this.#at(event);
      if (hit !== undefined) selection.choose(placeOfOperation(hit.row));
    });
    document.getElementById("legend").append(
      ...Object.entries(OUTCOMES).map(([outcome, { mark, says }]) =>
        make("li", `outcome-${outcome}`, [make("i", "mark", mark, { "aria-hidden": "true" }), outcome], { title: says })),
    );
  }

  /** Take in finished operations. Of a moment in the past, those that had ended are shown. */
  update(state) {
    if (state.restarted) {
      this.#rows = [];
      this.#known.clear();
      this.#lanes = [];
    }
    this.#tellMoved(state.now_ms);
    const fresh = state.finished.filter((row) => {
      row.name = `${row.broker}/${row.purgatory}/${row.id}`;
      return !this.#known.has(row.name);
    });
    for (const row of fresh.reverse()) {
      this.#known.add(row.name);
      this.#rows.unshift(row);
    }
    for (const row of this.#rows.splice(KEPT)) this.#known.delete(row.name);
    this.showTable();
  }

  /** Notice which partitions have another leader than before. */
  watchLeaders(partitions, cluster, nowMs) {
    if (cluster !== this.#cluster) {
      this.#leaders.clear();
      this.#moves = [];
    }
    this.#cluster = cluster;
    const moves = new Map(); // by whom from and whom to: partitions
    for (const { topic, partition, leader, epoch } of partitions) {
      const name = `${topic}-${partition}`;
      const [before, epochBefore] = this.#leaders.get(name) ?? [leader, epoch];
      this.#leaders.set(name, [leader, epoch]);
      if (epoch <= epochBefore) continue;
      const move = leader < 0 ? `offline, broker ${before} led` : before < 0 ? `led by broker ${leader} again` : `broker ${before} → ${leader}`;
      moves.set(move, [...(moves.get(move) ?? []), name]);
    }
    for (const [move, names] of moves) {
      const shown = names.slice(0, 3).join(", ") + (names.length > 3 ? ` and ${count(names.length - 3)} more` : "");
      this.#moves.unshift({ ms: nowMs, text: `${shown}: ${move}` });
      this.onMove?.(nowMs, `leadership moved: ${shown}: ${move}`);
    }
    this.#moves.splice(MOVES);
  }

  #tellMoved(nowMs) {
    const [last] = this.#moves;
    this.moved.hidden = last === undefined;
    if (last !== undefined) setText(this.moved, `Leadership moved ${duration(Math.max(1000, nowMs - last.ms))} ago. ${last.text}`);
  }

  /** Show the newest of the kinds that are wanted. */
  showTable() {
    let quiet = 0; // long polls that found nothing end all the time, and would push all else out of sight
    const telling = (row) => !isQuiet(row) || (quiet += 1) <= QUIET_ROWS;
    const rows = this.#rows.filter((row) => this.#shown(row) && this.#visible(row) && telling(row)).slice(0, ROWS);
    const now = this.live.now();
    reconcile(this.body, rows.map((row) => ({ row, now })), ({ row }) => row.name, ({ row }) => new FinishedRow(row));
  }

  #shown(row) {
    return this.filters.kind(row.kind) && this.filters.broker(row.broker);
  }

  #visible(row) {
    return this.live.viewMs === null || row.done_ms <= this.live.viewMs;
  }

  /** Draw one frame. */
  draw(localMs) {
    const width = this.canvas.parentElement.clientWidth;
    const height = LANES * LANE_PX + 30;
    if (width === 0) return; // hidden
    const context = fitCanvas(this.canvas, width, height);
    context.clearRect(0, 0, width, height);
    const now = this.live.now(localMs);
    const windowMs = width < 600 ? WINDOW_MS / 2 : WINDOW_MS;
    const x = (ms) => width - 8 - ((now - ms) / windowMs) * (width - 16);
    drawAxis(context, { width, height, x, now, windowMs });
    this.#drawMoves(context, { width, height, x, now, windowMs });
    this.#drawn = [];
    for (let i = this.#rows.length - 1; i >= 0; i -= 1) {
      const row = this.#rows[i];
      if (row.done_ms < now - windowMs || !this.#shown(row) || !this.#visible(row)) continue;
      this.#drawBar(context, row, x);
    }
    if (this.#drawn.length === 0) {
      write(context, `Nothing ended in the last ${windowMs / 1000} s.`, width / 2, height / 2 - 8, { colour: colours.muted, font: "13px" });
    }
  }

  /** A line where leadership moved; the partitions are written beside it, on the side that has the room. */
  #drawMoves(context, { width, height, x, now, windowMs }) {
    context.save();
    context.strokeStyle = colours.accent;
    context.setLineDash([4, 3]);
    context.font = "11px ui-sans-serif, system-ui, sans-serif";
    this.#moves.forEach(({ ms, text }, index) => {
      if (ms < now - windowMs || ms > now) return;
      const at = Math.round(x(ms)) + 0.5;
      context.beginPath();
      context.moveTo(at, 4);
      context.lineTo(at, height - 20);
      context.stroke();
      const left = at > width / 2;
      const [from, y] = [at + (left ? -5 : 5), height - 26 - (index % 4) * 13];
      const wide = context.measureText(text).width;
      context.fillStyle = colours.panel;
      context.fillRect(left ? from - wide : from, y - 10, wide, 13);
      write(context, text, from, y, { colour: colours.accent, align: left ? "right" : "left", base: "alphabetic" });
    });
    context.restore();
  }

  #drawBar(context, row, x) {
    const lane = (row.lane ??= this.#lane(row));
    const [from, to] = [Math.max(0, x(row.parked_ms)), x(row.done_ms)];
    const y = 8 + lane * LANE_PX;
    const long = to - from;
    context.fillStyle = colours[row.outcome] ?? colours.muted;
    const dim = (row.places ??= relativesOf(row)).some((place) => selection.lights(place)) ? 1 : 0.2;
    context.globalAlpha = dim * (row.kind === "produce" ? 0.55 : 0.25);
    if (long > 1) context.fillRect(from, y + 2, long, 5);
    context.globalAlpha = dim * (isQuiet(row) || FOLLOWERS.has(row.kind) ? 0.55 : 1);
    context.beginPath();
    if (row.outcome === "completed") context.arc(to, y + 4.5, 3.2, 0, 2 * Math.PI);
    else context.rect(to - 3.2, y + 1.3, 6.4, 6.4); // another shape, too, not only another colour
    context.fill();
    context.globalAlpha = 1;
    this.#drawn.push({ row, from, to, y });
  }

  /** The highest lane that is free when the bar begins; if none is, the one that is free first. */
  #lane(row) {
    let best = 0;
    for (let lane = 0; lane < LANES; lane += 1) {
      const busyUntil = this.#lanes[lane] ?? -Infinity;
      if (busyUntil + GAP_MS <= row.parked_ms) {
        best = lane;
        break;
      }
      if (busyUntil < (this.#lanes[best] ?? -Infinity)) best = lane;
    }
    this.#lanes[best] = row.done_ms;
    return best;
  }

  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    return this.#drawn.findLast(({ from, to, y }) => px >= Math.min(from, to - 5) && px <= to + 5 && py >= y && py <= y + LANE_PX);
  }

  #linesAt(event) {
    const hit = event && this.#at(event);
    if (hit === undefined) return [];
    const { row } = hit;
    return [
      `${OUTCOMES[row.outcome]?.mark ?? "?"} ${row.outcome}: ${kindName(row.kind)}, ${whereText(row)}`,
      keysText(row),
      `waited ${duration(row.waited_ms)}, ended by ${causeText(row)}`,
      ...(row.detail ? [row.detail] : []),
    ];
  }
}

function drawAxis(context, { width, height, x, now, windowMs }) {
  context.strokeStyle = colours.line;
  context.lineWidth = 1;
  const step = 5000;
  for (let ago = 0; ago <= windowMs; ago += step) {
    const at = Math.round(x(now - ago)) + 0.5;
    context.beginPath();
    context.moveTo(at, 4);
    context.lineTo(at, height - 20);
    context.stroke();
    const [align, from] = ago === 0 ? ["right", width - 4] : ago === windowMs ? ["left", 4] : ["center", at];
    write(context, ago === 0 ? "now" : `${ago / 1000} s ago`, from, height - 5, { colour: colours.muted, align, base: "alphabetic" });
  }
}

/** A long poll that found nothing new ends by its deadline; that is nothing to be alarmed about. */
function isQuiet(row) {
  return row.outcome === "expired" && LONG_POLLS.has(row.kind);
}

/** The broker and the client of an operation. */
function whereText(row) {
  return `broker ${row.broker} · #${row.id}` + (row.client ? ` · ${row.client}` : "");
}

/** The event that ended a wait; of a produce request also the follower that had the records last. */
function causeText(row) {
  const cause = CAUSES[row.cause] ?? row.cause;
  return row.outcome === "completed" && row.held_by.length ? `${cause}: broker ${row.held_by.join(", ")} came last` : cause;
}

/** The event that ended a wait, and the condition that was still missing then. */
function causeOf(row) {
  const cause = isQuiet(row) ? "its deadline, as long polls do" : causeText(row);
  if (!row.detail) return cause;
  return [cause, make("span", "detail", row.outcome === "error" ? row.detail : `still missing: ${row.detail}`)];
}

class FinishedRow {
  constructor(row) {
    const { mark } = OUTCOMES[row.outcome] ?? { mark: "?" };
    this.ended = make("td", "number");
    this.element = make("tr", `${kindClass(row.kind)}`, [
      make("td", `outcome outcome-${row.outcome}${isQuiet(row) ? " quiet" : ""}`, [make("i", "mark", mark, { "aria-hidden": "true" }), row.outcome]),
      make("td", "request", [make("i", "dot"), pick(kindName(row.kind)), " ", make("span", "where", whereText(row))]),
      make("td", "keys", keysText(row)),
      make("td", "number", duration(row.waited_ms)),
      make("td", "cause", causeOf(row)),
      make("td", "number", count(row.checks)),
      this.ended,
    ]);
    this.element.places = relativesOf(row);
  }

  update({ row, now }) {
    const seconds = Math.floor((now - row.done_ms) / 1000);
    setText(this.ended, seconds < 1 ? "now" : seconds < 100 ? `${seconds} s ago` : `${duration(seconds * 1000)} ago`);
  }
}
