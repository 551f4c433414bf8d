// Per partition: how far each replica's log reaches, against the high watermark and the last stable offset.

import { count, make, plural, reconcile, setText } from "./dom.js";

const NAMED_OFFSETS = 24; // a window no longer than this shows single records
const LABEL_CHAR_PX = 7; // the widest digit of the scale's labels
const LAG_CHAR_PX = 6.9; // the same of the text beside a bar
const LEAST_SAYS_PX = 126;

/** Which offsets a card shows: all of a short log; of a long one its end, from well before the slowest replica. */
function windowOf(partition) {
  const end = Math.max(partition.log_end_offset, ...partition.replicas.map((replica) => replica.log_end_offset ?? 0));
  const reached = partition.replicas.map((replica) => Math.max(replica.acknowledged_offset, partition.log_start_offset));
  const slowest = Math.min(partition.last_stable_offset, ...reached);
  const behind = end - slowest;
  const from = Math.max(partition.log_start_offset, slowest - Math.max(behind, 10));
  return { from, to: Math.max(end, from + 1) };
}

/** Shows a partition. */
export class PartitionCard {
  constructor(partition) {
    this.says = make("span", "partition-says");
    this.meta = make("p", "meta");
    this.held = make("p", "partition-held", "", {
      title: "The last stable offset: consumers under read_committed read up to there, where the oldest open transaction begins",
    });
    this.rows = make("div", "replicas");
    this.scaleFrom = make("span", "scale-from");
    this.scaleMark = make("span", "scale-mark");
    this.scaleTo = make("span", "scale-to");
    this.mark = make("i", "watermark-line");
    this.stable = make("i", "stable-line");
    this.scale = make("div", "scale", [this.scaleFrom, this.scaleMark, this.scaleTo], { "aria-hidden": "true" });
    this.watermark = 0; // its place, in parts of the bar
    const name = `${partition.topic}-${partition.partition}`;
    this.element = make("article", "partition panel", [
      make("header", "", [make("h3", "", name), this.says]),
      this.meta, this.held,
      make("div", "plot", [this.rows, make("div", "plot-over", [this.stable, this.mark], { "aria-hidden": "true" })]),
      this.scale,
    ], { "aria-label": name });
  }

  update(partition) {
    const range = windowOf(partition);
    const at = (offset) => Math.max(0, Math.min(1, (offset - range.from) / (range.to - range.from)));
    const uncommitted = partition.log_end_offset - partition.high_watermark;
    const unstable = partition.high_watermark - partition.last_stable_offset;
    setText(this.says, saysText(partition, uncommitted, unstable));
    this.element.classList.toggle("waits", !partition.offline && uncommitted > 0);
    this.element.classList.toggle("unstable", !partition.offline && unstable > 0);
    this.held.hidden = unstable <= 0;
    setText(this.held, `last stable offset ${count(partition.last_stable_offset)}${partition.held_by ? `, ${partition.held_by.says}` : ""}`);
    this.element.classList.toggle("offline", partition.offline);
    this.meta.title = "The leader epoch grows with every change of the leader. ELR: replicas that are not in sync, but have all acknowledged records";
    setText(this.meta, metaText(partition));
    const view = { partition, at, grid: range.to - range.from <= NAMED_OFFSETS ? range.to - range.from : 0 };
    reconcile(this.rows, partition.replicas.map((replica) => ({ replica, ...view })), (row) => row.replica.broker, (row) => new ReplicaRow(row));
    const mark = at(partition.high_watermark);
    this.mark.style.left = `${mark * 100}%`;
    this.stable.hidden = unstable <= 0;
    this.stable.style.left = `${at(partition.last_stable_offset) * 100}%`;
    setText(this.scaleFrom, count(range.from));
    setText(this.scaleTo, range.to === partition.high_watermark ? "" : count(range.to));
    setText(this.scaleMark, `▲ ${count(partition.high_watermark)}`);
    this.scaleMark.style.left = `${mark * 100}%`;
    this.scaleMark.classList.toggle("right", mark > 0.5);
    this.watermark = mark;
    const longest = Math.max(...partition.replicas.map((replica) => lagText(replica, partition).length));
    this.element.style.setProperty("--says", `${Math.max(LEAST_SAYS_PX, Math.ceil(11 + longest * LAG_CHAR_PX))}px`);
    this.element.classList.toggle("cut", range.from > partition.log_start_offset);
  }

  /** Hide a label of the scale that has no room: the high watermark's stays, then the end's. `width` is in CSS pixels. */
  hideOverlaps(width) {
    const [from, mark, to] = [this.scaleFrom, this.scaleMark, this.scaleTo].map(labelPx);
    const at = this.watermark * width;
    const [left, right] = this.watermark > 0.5 ? [at - mark, at] : [at, at + mark];
    const endHidden = right > width - to;
    this.scaleTo.classList.toggle("hidden", endHidden);
    this.scaleFrom.classList.toggle("hidden", left < from || (!endHidden && from > width - to));
  }
}

/** About how wide a label of the scale is, in CSS pixels, with the gap that it needs; 0 if it is empty. */
function labelPx(label) {
  const { length } = label.textContent;
  return length && length * LABEL_CHAR_PX + 6;
}

function saysText(partition, uncommitted, unstable) {
  if (partition.offline) return "offline";
  if (uncommitted > 0) return `${plural(uncommitted, "record", "records")} not committed`;
  return unstable > 0 ? `${plural(unstable, "record", "records")} not stable` : "all committed";
}

function metaText(partition) {
  const parts = [
    partition.offline ? "no leader" : `led by broker ${partition.leader}`,
    `epoch ${partition.leader_epoch}`,
    `ISR ${partition.isr.join(", ") || "empty"}`,
  ];
  if (partition.elr.length) parts.push(`ELR ${partition.elr.join(", ")}`);
  if (partition.min_in_sync_replicas !== null) parts.push(`min.insync.replicas ${partition.min_in_sync_replicas}`);
  const { adding = [], removing = [] } = partition.reassignment ?? {};
  if (adding.length) parts.push(`adding ${adding.join(", ")}`);
  if (removing.length) parts.push(`removing ${removing.join(", ")}`);
  return parts.join(" · ");
}

class ReplicaRow {
  constructor({ replica }) {
    this.name = make("span", "replica-name");
    this.committed = make("i", "part committed");
    this.unstable = make("i", "part unstable-part");
    this.acknowledged = make("i", "part acknowledged");
    this.unacknowledged = make("i", "part unacknowledged");
    this.grid = make("i", "grid");
    this.bar = make("div", "log-bar", [this.committed, this.unstable, this.acknowledged, this.unacknowledged, this.grid], { "aria-hidden": "true" });
    this.lag = make("span", "lag");
    this.sync = make("span", "sync");
    setText(this.name, `broker ${replica.broker}`);
    this.element = make("div", "replica", [this.name, this.bar, make("span", "replica-says", [this.lag, this.sync])]);
  }

  update({ replica, partition, at, grid }) {
    const isDown = partition.down.has(replica.broker);
    const known = isDown ? 0 : Math.max(replica.acknowledged_offset, 0); // its records are lost
    const end = replica.log_end_offset ?? known;
    const committed = at(Math.min(partition.high_watermark, known));
    const stable = Math.min(committed, at(partition.last_stable_offset));
    place(this.committed, 0, stable);
    place(this.unstable, stable, committed);
    place(this.acknowledged, committed, at(known));
    place(this.unacknowledged, at(known), at(Math.max(end, known)));
    this.grid.style.backgroundSize = grid ? `${100 / grid}% 100%` : "0 0";
    this.element.classList.toggle("leader", replica.leader);
    this.element.classList.toggle("out", !replica.in_sync);
    setText(this.lag, lagText(replica, partition));
    setText(this.sync, replica.leader ? "leader" : replica.in_sync ? "in sync" : replica.eligible ? "eligible (ELR)" : "out of sync");
    this.bar.title = replica.leader
      ? `log end ${replica.log_end_offset}`
      : `log end ${replica.log_end_offset ?? "unknown"}; the leader knows of ${replica.acknowledged_offset}${replica.refusal ? `; refused: ${replica.refusal}` : ""}`;
  }
}

function lagText(replica, partition) {
  if (partition.down.has(replica.broker)) return "down";
  if (partition.offline && replica.log_end_offset !== null) return `ends at ${count(replica.log_end_offset)}`;
  if (replica.leader) return `at ${count(replica.acknowledged_offset)}`;
  if (replica.acknowledged_offset < 0) return "no fetch yet";
  return `at ${count(replica.acknowledged_offset)}${replica.lag ? `, ${count(replica.lag)} behind` : ""}${replica.refusal ? ", refuses records" : ""}`;
}

function place(part, from, to) {
  part.style.left = `${from * 100}%`;
  part.style.width = `${Math.max(0, to - from) * 100}%`;
}
