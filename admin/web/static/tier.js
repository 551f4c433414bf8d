// The tier: of each partition a strip of what only the store has, what memory has too and what only memory has; the reads
// under way; and in sentences what is the matter.

import { count, find, line, make, plural, reconcile, setText, tellMore } from "./dom.js";
import { placeOf } from "./links.js";
import { pick } from "./selection.js";

const KINDS = { // mark and words
  remote: ["☁", "only in the tier"],
  both: ["◐", "in the tier and in memory"],
  local: ["●", "only in memory"],
  damaged: ["!", "cannot be read from the tier"],
};
const MOST_DRAWN = 60; // segments of a cell

/** A size as people say it: 14 MB. */
function size(bytes) {
  const unit = Math.min(3, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  return `${Number((bytes / 1000 ** unit).toPrecision(3))} ${["B", "kB", "MB", "GB"][unit]}`;
}

/** Shows the tier, if the brokers have one. */
export class Tier {
  constructor() {
    find(this, { section: "tier-section", where: "tier-where", says: "tier-says", strips: "tier-strips", more: "tier-more", reads: "tier-reads" });
  }

  update({ tier }) {
    this.section.hidden = !tier || tier.strip_count + tier.says.length === 0;
    if (!tier) return;
    setText(this.where, tier.location);
    reconcile(this.says, tier.says.map((text, nth) => ({ text, nth })), ({ nth }) => nth, () => line(({ text }) => text));
    reconcile(this.strips, tier.strips, ({ topic, partition }) => `${topic}-${partition}`, (strip) => new TierStrip(strip));
    tellMore(this.more, tier.strip_count - tier.strips.length, "partition", "partitions");
    reconcile(this.reads, tier.reads, ({ broker, key }) => `${broker} ${key}`, () => line(readText));
  }
}

function readText({ broker, of, start, end, bytes, says }) {
  return `Broker ${broker} reads ${of} [${count(start)}, ${count(end)}), ${size(bytes)}: ${says}`;
}

class TierStrip {
  constructor(strip) {
    const name = `${strip.topic}-${strip.partition}`;
    this.says = make("span", "share-says");
    this.cells = make("ol", "strip", [], { "aria-label": `Where the records of ${name} are` });
    this.element = make("li", "share", [make("span", "share-name", pick(name)), this.cells, this.says]);
    this.element.places = [placeOf("partition", name)];
  }

  update(strip) {
    reconcile(this.cells, strip.runs, ({ start, kind }) => `${start} ${kind}`, () => new Cell());
    setText(this.says, saysText(strip));
    this.element.classList.toggle("refuses", strip.refused);
  }
}

function saysText({ log_start_offset: start, local_start_offset: local, log_end_offset: end, uncopied_bytes: bytes, lag_segments: lag, leader, refused, further_count: further }) {
  const parts = [`log start ${count(start)}`, `memory from ${count(local)}`, `end ${count(end)}`, bytes ? `${size(bytes)} not copied` : "all copied"];
  if (lag) parts.push(`${plural(lag, "closed segment", "closed segments")} to copy`);
  parts.push(`broker ${leader}`);
  if (refused) parts.push("producers are refused");
  if (further) parts.push(`${plural(further, "run", "runs")} not shown`);
  return parts.join(" · ");
}

class Cell {
  constructor() {
    this.face = make("span", "", [], { role: "img" });
    this.element = make("li", "run", this.face);
  }

  update({ start, end, kind, bytes, segments, trouble }) {
    const [mark, says] = KINDS[kind] ?? ["?", kind];
    const offsets = `[${count(start)}, ${count(end)})`;
    const what = bytes ? `, ${size(bytes)} in ${plural(segments, "segment", "segments")}` : "";
    const label = `${offsets}: ${says}${what}${trouble ? `: ${trouble}` : ""}`;
    const parted = segments > 1 && segments <= MOST_DRAWN;
    this.element.className = `run in-${kind}${parted ? " parted" : ""}`;
    this.element.style.flexGrow = Math.sqrt(end - start).toFixed(2);
    this.element.style.setProperty("--segments", segments);
    this.element.title = label;
    this.face.setAttribute("aria-label", label);
    setText(this.face, `${mark} ${offsets}${bytes ? ` ${size(bytes)}` : ""}`);
  }
}
