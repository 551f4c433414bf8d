// The list of parked operations: the client, the keys, since when, until when, and the condition that each misses.

import { count, Countdown, duration, find, keysText, make, plural, reconcile, setText } from "./dom.js";
import { kindClass, kindName, LISTLESS, rankOf } from "./kinds.js";
import { Links } from "./links.js";
import { pick, placeOfOperation } from "./selection.js";

const ROWS = 60;

const parkedMs = new Map(); // when each was parked, as it was told first: the brokers' clocks jitter, and so would the order
const MOST_TIMES = 5000;

/** All parked operations that the filters let through: those that a client waits for first, then the oldest. */
export function shownOperations(state, filters) {
  const rows = [];
  for (const broker of state.brokers) {
    if (!filters.broker(broker.id)) continue;
    for (const purgatory of broker.purgatories) {
      for (const operation of purgatory.operations) {
        if (!filters.kind(operation.kind)) continue;
        const name = `${broker.id}/${purgatory.name}/${operation.id}`;
        if (!parkedMs.has(name)) parkedMs.set(name, operation.parked_ms);
        rows.push({ ...operation, broker: broker.id, purgatory: purgatory.name, name });
      }
    }
  }
  while (parkedMs.size > MOST_TIMES) parkedMs.delete(parkedMs.keys().next().value);
  return rows.sort((a, b) => rankOf(a.kind) - rankOf(b.kind) || parkedMs.get(a.name) - parkedMs.get(b.name) || a.id - b.id);
}

/** Operations that wait but are not in the state, which is bounded. */
function unlisted(state, filters) {
  let missing = 0;
  for (const broker of state.brokers) {
    if (!filters.broker(broker.id)) continue;
    for (const purgatory of broker.purgatories) {
      if (purgatory.operations.some(({ kind }) => filters.kind(kind) && !LISTLESS.has(kind))) {
        missing += purgatory.num_delayed - purgatory.operations.length;
      }
    }
  }
  return missing;
}

/** Shows the list, and lets each be expired. */
export class Parked {
  constructor(live, filters) {
    this.live = live;
    this.filters = filters;
    find(this, { list: "operations", more: "operations-more", empty: "operations-empty", count: "parked-count" });
  }

  update(state) {
    const rows = shownOperations(state, this.filters).filter(({ kind }) => !LISTLESS.has(kind));
    const further = rows.length - Math.min(rows.length, ROWS) + unlisted(state, this.filters);
    reconcile(this.list, rows.slice(0, ROWS), (row) => row.name, (row) => new OperationRow(row, this.live));
    setText(this.count, rows.length ? count(Math.min(rows.length, ROWS) + further) : "");
    this.more.hidden = further <= 0;
    setText(this.more, `and ${count(further)} more`);
    this.empty.hidden = rows.length > 0;
    this.list.hidden = rows.length === 0;
  }
}

class OperationRow {
  constructor(operation, live) {
    this.error = "";
    this.waited = make("span", "waited");
    this.missing = make("p", "missing");
    this.links = new Links();
    this.left = new Countdown(make("span", "left"));
    this.checks = make("span", "checks");
    const expire = make("button", "expire", "Expire", {
      type: "button",
      title: "Let its deadline come now",
      "aria-label": `Expire ${kindName(operation.kind)} ${operation.id} on broker ${operation.broker} now`,
    });
    const total = operation.deadline_ms - operation.parked_ms;
    this.element = make("li", `operation ${kindClass(operation.kind)}`, [
      make("div", "operation-head", [
        make("i", "dot"), make("strong", "", pick(kindName(operation.kind))), make("span", "who", operation.client, { title: `Asked for by ${operation.client || "a client without a name"}` }),
        make("span", "keys", keysText(operation), { title: `Watched under ${keysText(operation)}` }), this.waited, expire,
      ]),
      this.missing, this.links.element,
      make("div", "countdown", [
        this.left.element, this.left.says,
        make("span", "of", `of ${duration(total)}`),
        this.checks,
        make("span", "where", `broker ${operation.broker} · #${operation.id}`),
      ]),
    ]);
    this.element.dataset.name = operation.name;
    this.element.id = placeOfOperation(operation);
    this.element.places = [this.element.id];
    const path = `brokers/${operation.broker}/purgatories/${encodeURIComponent(operation.purgatory)}/operations/${operation.id}/expire`;
    expire.addEventListener("click", () => live.press(this, expire, path));
  }

  update(operation) {
    const { remaining_ms: left, deadline_ms: to, parked_ms: from } = operation;
    setText(this.waited, `waiting ${duration(operation.waited_ms)}`);
    setText(this.missing, this.error || operation.missing || "waits for an event on its keys");
    this.missing.classList.toggle("failed", this.error !== "");
    this.links.update(operation.causes ?? []);
    this.left.update(this.element, left, to - from, left > 0 ? `${duration(left)} left` : "due");
    setText(this.checks, `checked ${plural(operation.checks, "time", "times")}`);
  }
}
