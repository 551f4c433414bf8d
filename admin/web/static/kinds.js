// Kinds of requests and outcomes: their names, colours and marks, and which kinds the user wants to see.

import { make, reconcile, setText } from "./dom.js";

// made by scripts/kinds.py: begin
export const LOCKS = "AcquisitionLock"; // the purgatory of acquisition locks
const KINDS = {
  "produce": { title: "Produce, acks=all", coloured: true, offered: true, rank: 0 },
  "consumer fetch": { coloured: true, offered: true, poll: true, rank: 2 },
  "follower fetch": { coloured: true, offered: true, follower: true, poll: true, rank: 91 },
  "share fetch": { poll: true },
  "rebalance": { coloured: true, offered: true, rank: 1 },
  "heartbeat": { title: "Member session", coloured: true, offered: true, session: true, rank: 90 },
  "transaction": { coloured: true },
  "transaction timeout": { title: "Open transaction", coloured: true, session: true },
  "throttled": { poll: true },
};
// made by scripts/kinds.py: end

const having = (what) => new Set(Object.keys(KINDS).filter((kind) => KINDS[kind][what]));
const COLOURED = having("coloured"), OFFERED = having("offered"); // others have a chip once there was one

/** Fetches of followers: each idle follower has one. */
export const FOLLOWERS = having("follower");

/** Kinds that are in the wheel, and in no list: members of groups and open transactions have cards of their own. */
export const LISTLESS = having("session");

/** Kinds that end by their deadlines all the time, which is no failure. */
export const LONG_POLLS = having("poll");

/** Marks, so that nothing is told by colour alone. */
export const OUTCOMES = {
  completed: { mark: "✓", says: "got what it missed" },
  expired: { mark: "■", says: "its deadline came first" },
  cancelled: { mark: "×", says: "taken out" },
  shutdown: { mark: "○", says: "the broker stopped" },
  error: { mark: "!", says: "its own code failed" },
};

/** "Follower fetch" for "follower fetch", and so for kinds that this page has not heard of. */
export function kindName(kind) {
  return KINDS[kind]?.title ?? kind.charAt(0).toUpperCase() + kind.slice(1);
}

/** The place of a kind in the list of what waits. */
export const rankOf = (kind) => KINDS[kind]?.rank ?? 50;

const colourOf = (kind) => (COLOURED.has(kind) ? kind.replaceAll(" ", "-") : "other");

/** The class that colours a kind: those without a colour of their own share one. */
export function kindClass(kind) {
  return `kind-${colourOf(kind)}`;
}

/** Colours for drawing, from the style sheet; read anew when the theme changes. */
export const colours = {};

export function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["text", "accent", "muted", "faint", "line", "ring", "panel", "other", ...[...COLOURED].map(colourOf),
    "completed", "expired", "cancelled", "shutdown", "error"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
}

/** The colour of a kind. */
export function kindColour(kind) {
  return colours[colourOf(kind)];
}

/** The user's filters: kinds by chips, and one broker or all. */
export class Filters {
  #shown = new Map();
  #broker = "";

  constructor(chips, select, onChange) {
    this.chips = chips;
    this.select = select;
    this.onChange = onChange;
    for (const kind of OFFERED) this.#shown.set(kind, !FOLLOWERS.has(kind));
    select.addEventListener("change", () => {
      this.#broker = select.value;
      onChange();
    });
  }

  /** Offer the brokers, and every kind with its number of parked operations. */
  update(state) {
    const waiting = new Map([...this.#shown.keys()].map((kind) => [kind, 0]));
    for (const broker of state.brokers) {
      for (const purgatory of broker.purgatories) {
        for (const [kind, number] of countKinds(purgatory)) waiting.set(kind, (waiting.get(kind) ?? 0) + number);
      }
    }
    for (const kind of waiting.keys()) if (!this.#shown.has(kind)) this.#shown.set(kind, true);
    reconcile(this.chips, [...waiting], ([kind]) => kind, ([kind]) => this.#chip(kind));
    const options = state.brokers.map((broker) => String(broker.id));
    if (this.select.options.length !== options.length + 1) {
      this.select.replaceChildren(
        make("option", "", "all brokers", { value: "" }),
        ...options.map((id) => make("option", "", `broker ${id}`, { value: id })),
      );
      this.select.value = this.#broker;
    }
  }

  #chip(kind) {
    const number = make("span", "chip-count");
    const element = make("button", `chip ${kindClass(kind)}`, [make("i", "dot"), kindName(kind), number], { type: "button" });
    const show = () => element.setAttribute("aria-pressed", String(this.#shown.get(kind)));
    element.addEventListener("click", () => {
      this.#shown.set(kind, !this.#shown.get(kind));
      show();
      this.onChange();
    });
    show();
    return { element, update: ([, waiting]) => setText(number, String(waiting)) };
  }

  /** Whether a kind is shown. */
  kind(kind) {
    return this.#shown.get(kind) ?? true;
  }

  /** Whether something on a broker is shown. */
  broker(id) {
    return this.#broker === "" || this.#broker === String(id);
  }
}

/**
 * How many operations of each kind wait in a purgatory. The state lists the oldest only; where a purgatory holds one
 * kind, the rest is of that kind, and where it holds several, it is counted with the kind that is listed most.
 */
export function countKinds(purgatory) {
  const counts = new Map();
  for (const operation of purgatory.operations) counts.set(operation.kind, (counts.get(operation.kind) ?? 0) + 1);
  const unlisted = purgatory.num_delayed - purgatory.operations.length;
  if (unlisted > 0 && counts.size > 0) {
    const [most] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a));
    counts.set(most, counts.get(most) + unlisted);
  }
  return counts;
}
