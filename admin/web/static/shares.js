// Share partitions: the records from start to end offset as a strip, a cell for each run of equal state, with the member
// that has acquired it and for how long.

import { count, duration, make, plural, reconcile, setText } from "./dom.js";
import { LOCKS } from "./kinds.js";
import { placeOf } from "./links.js";
import { pick } from "./selection.js";

const STATES = { // mark and words
  available: ["○", "available again"],
  acquired: ["●", "acquired"],
  acknowledged: ["✓", "acknowledged"],
  archiving: ["⇢", "given up, on the way to the dead-letter topic"],
  archived: ["×", "given up"],
  hole: ["·", "no records for members"],
  further: ["…", "in flight, not shown by their states"],
  new: ["+", "not delivered yet"],
};

/** Shows a share partition. */
export class ShareStrip {
  constructor(share) {
    const name = `${share.topic}-${share.partition}`;
    this.says = make("span", "share-says");
    this.cells = make("ol", "strip", [], { "aria-label": `Records of ${name} for ${share.group}` });
    this.element = make("li", "share", [make("span", "share-name", pick(name)), this.cells, this.says]);
    this.element.places = [placeOf("partition", name)];
  }

  update(share) {
    const runs = share.runs.map((run) => ({ ...run, share }));
    const [to, further] = [share.end_offset, share.further_count];
    if (further) runs.push({ first: to - further + 1, last: to, state: "further", share });
    if (share.new_count) runs.push({ first: to + 1, last: to + share.new_count, state: "new", share });
    reconcile(this.cells, runs, ({ first, lock }) => `${first} ${lock}`, (run) => new Run(run));
    setText(this.says, saysText(share));
  }
}

function saysText({ state, start_offset: from, end_offset: to, lag, leader, runs }) {
  if (state !== "active") return `its state is ${state} at broker ${leader}`;
  const locks = runs.filter(({ lock }) => lock !== null).map(({ left_ms: left }) => left);
  const parts = [`start ${count(from)}`, to < from ? "nothing in flight" : `end ${count(to)}`, lag ? `${plural(lag, "record", "records")} to do` : "all done", `broker ${leader}`];
  if (locks.length) parts.push(`first lock runs out in ${duration(Math.min(...locks))}`);
  return parts.join(" · ");
}

/** A cell: one that a member has is a button, which selects its lock, and with it the member and the partition. */
class Run {
  constructor({ lock, share }) {
    this.face = lock == null ? make("span") : pick("");
    this.element = make("li", lock == null ? "run" : "run lock", this.face);
    this.element.places = [placeOf("operation", share.leader, LOCKS, lock ?? "")];
  }

  update({ first, last, state, becomes, deliveries, member, left_ms: left, share }) {
    const [mark, says] = STATES[state] ?? ["?", state];
    const offsets = first === last ? count(first) : `${count(first)}–${count(last)}`;
    const parts = [member ? `${says} by ${share.names.get(member) ?? member}` : says];
    if (becomes) parts.push(`${STATES[becomes]?.[1] ?? becomes} once that is written`);
    if (deliveries) parts.push(`delivered ${plural(deliveries, "time", "times")}`);
    if (member) parts.push(`${duration(left)} left`);
    const label = `${offsets}: ${parts.join(", ")}`;
    this.element.className = this.element.className.replace(/ ?in-\w+/, "") + ` in-${state}`;
    this.element.style.flexGrow = Math.sqrt(last - first + 1).toFixed(2);
    this.element.title = label;
    this.face.setAttribute("aria-label", label);
    if (!member) this.face.setAttribute("role", "img");
    setText(this.face, `${mark} ${member ? `${share.names.get(member) ?? member} ` : ""}${offsets}`);
  }
}
