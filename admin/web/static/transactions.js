// Transactions: state, time until each is aborted, partitions, and the markers that an end still waits for.

import { count, Countdown, duration, make, plural, setText } from "./dom.js";
import { Links, placeOf } from "./links.js";
import { Rows } from "./rows.js";

const STATES = {
  Empty: "its producer has begun no transaction",
  Ongoing: "records are being written; consumers under read_committed do not see them yet",
  PrepareCommit: "the commit is decided; markers are being written to the partitions",
  PrepareAbort: "the abort is decided; markers are being written to the partitions",
  CompleteCommit: "the last transaction was committed",
  CompleteAbort: "the last transaction was aborted",
};

/** Shows the transactions, and lets each open one be aborted. */
export class Transactions {
  constructor(live) {
    this.live = live;
    this.rows = new Rows(document.getElementById("transactions"), ["Transactional id", "State", "Partitions", "Open", "Ends"], cellsOf,
      (each) => new TransactionCard(each, live));
    this.counts = document.getElementById("transaction-counts");
  }

  update(state) {
    const transactions = state.transactions ?? [];
    const counts = state.transaction_counts ?? { ids: 0 };
    this.rows.update(transactions, (each) => each.id);
    setText(this.counts, countsText(counts));
    this.rows.tell(counts.ids, "transactional id", "transactional ids", ", of which none is open if these are not",
      "There is no transactional id yet. The first producer with one makes it.");
  }
}

function cellsOf({ id, state, partition_count: partitions, open_ms: open, timeout_left_ms: left, idle_ms: idle, waits_for: waits }) {
  const ends = waits || (left === null ? `${duration(idle)} ago` : `aborted in ${duration(left)}`);
  return [id, state, count(partitions), open === null ? "" : duration(open), ends];
}

function countsText({ ids, open, committed, aborted, timed_out: timedOut }) {
  if (!ids) return "";
  const overdue = timedOut ? ` (${count(timedOut)} at the deadline)` : "";
  return `${count(open)} open · ${count(committed)} committed · ${count(aborted)} aborted${overdue}`;
}

class TransactionCard {
  constructor(transaction, live) {
    this.place = placeOf("transaction", transaction.id);
    this.error = "";
    this.state = make("span", "transaction-state");
    this.since = make("span", "transaction-since");
    this.meta = make("p", "meta", "", { title: "The coordinator is the broker that leads the id's partition of __transaction_state" });
    this.partitions = make("p", "transaction-partitions", "", { title: "The partitions of the transaction" });
    this.waits = make("p", "transaction-waits");
    this.links = new Links();
    this.left = new Countdown(make("span", "left"));
    this.abort = make("button", "abort", "Abort", {
      type: "button",
      title: "Abort the transaction and fence its producer",
      "aria-label": `Abort the transaction of ${transaction.id}`,
    });
    this.countdown = make("div", "countdown kind-transaction", [this.left.element, this.left.says, this.abort]);
    this.element = make("article", "transaction panel", [
      make("header", "", [this.state, this.since]),
      this.meta, this.partitions, this.waits, this.links.element, this.countdown,
    ], { "aria-label": `Transactional id ${transaction.id}`, id: this.place });
    this.abort.addEventListener("click", () => live.press(this, this.abort, `transactions/${encodeURIComponent(transaction.id)}/abort`));
  }

  update(transaction) {
    const { open_ms: open, timeout_left_ms: left, timeout_ms: timeout } = transaction;
    setText(this.state, transaction.state);
    this.state.title = STATES[transaction.state] ?? "";
    this.element.classList.toggle("open", open !== null);
    this.element.classList.toggle("ending", open !== null && left === null);
    setText(this.since, open === null ? `${duration(transaction.idle_ms)} ago` : `open ${duration(open)}`);
    setText(this.meta, [
      `producer ${transaction.producer_id}`, `epoch ${transaction.producer_epoch}`,
      `timeout ${duration(timeout)}`, `coordinator broker ${transaction.coordinator}`,
    ].join(" · "));
    setText(this.partitions, partitionsText(transaction));
    this.partitions.hidden = transaction.partition_count === 0;
    setText(this.waits, this.error || transaction.waits_for);
    this.waits.classList.toggle("failed", this.error !== "");
    this.waits.hidden = this.waits.textContent === "";
    this.links.update(transaction.causes ?? [], this.place);
    this.countdown.hidden = left === null;
    if (left !== null) this.left.update(this.element, left, timeout, left > 0 ? `times out in ${duration(left)}` : "times out now");
  }
}

function partitionsText({ partitions, partition_count: all, missing_markers: missing }) {
  const more = all - partitions.length;
  const names = partitions.join(", ") + (more > 0 ? ` and ${count(more)} more` : "");
  return missing ? `${names} · ${plural(missing, "marker", "markers")} missing` : names;
}
