// Partitions × replicas: a row each, those that are offline or wait first; a row opens to the partition's card. It is
// asked for by itself, seldom while it is out of sight.

import { count, find, make, plural, reconcile, setText } from "./dom.js";
import { placeOf } from "./links.js";
import { SHARED } from "./live.js";
import { PartitionCard } from "./partitions.js";
import { selection } from "./selection.js";

const SEEN_MS = 1000;
const UNSEEN_MS = 3000;
const TALL = 24; // so many rows have names and words
const NAMED = 240; // so many have names; more are a few pixels high
const OPEN_AT_FIRST = 6; // so few partitions are all open
const MOST_OPEN = 12;
const STATES = { offline: "offline", waits: "waits for replicas", unstable: "waits for a transaction" };

/** Shows the matrix, and the cards of the partitions that are opened; `onRows` hears of each answer, and says whether it is shown. */
export class Matrix {
  #seen = false;
  #timer = 0;
  #last = { etag: "" };
  #chosen = false; // the user has opened or closed a partition

  constructor(live, onRows) {
    this.live = live;
    this.onRows = onRows;
    find(this, { list: "matrix", cards: "partitions", summary: "matrix-summary" });
    this.list.addEventListener("keydown", (event) => this.#move(event));
    this.list.addEventListener("focusin", ({ target }) => this.#stop(target));
    new IntersectionObserver(([{ isIntersecting }]) => {
      this.#seen = isIntersecting;
      if (isIntersecting) this.#poll();
    }, { rootMargin: "300px" }).observe(this.list.parentElement);
    window.addEventListener("hashchange", () => this.#openLinked());
    this.#poll();
  }

  /** Show the cards of the opened partitions, which the state has. */
  update(state) {
    const down = new Set(state.brokers.filter((broker) => broker.follower === null).map((broker) => broker.id));
    const shown = state.partitions.map((partition) => ({ ...partition, down })).filter((each) => this.live.partitions.has(nameOf(each)));
    reconcile(this.cards, shown, nameOf, (partition) => new PartitionCard(partition));
    const cards = [...(this.cards.views?.values() ?? [])];
    const widths = cards.map((card) => card.scale.clientWidth); // read together, since each read after a write is a layout
    cards.forEach((card, index) => card.hideOverlaps(widths[index]));
  }

  async #poll() {
    clearTimeout(this.#timer);
    let nextMs = 0;
    try {
      const response = document.hidden ? null : await fetch("/api/v1/matrix", { headers: { ...SHARED, "If-None-Match": this.#last.etag } });
      if (response?.ok) this.#last = { etag: response.headers.get("ETag") ?? "", answer: await response.json() };
      if (response?.ok || response?.status === 304) {
        nextMs = Number(response.headers.get("Purgatorio-Next-Ms"));
        if (this.onRows(this.#last.answer)) this.show(this.#last.answer);
      }
    } catch {
      // the page says already that the brokers do not answer
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#poll(), Math.max(nextMs + 5, this.#seen ? SEEN_MS : UNSEEN_MS));
  }

  /** Draw the rows of an answer. */
  show({ rows, partition_count: all }) {
    const partitions = partitionsOf(rows);
    const brokers = [...new Set(partitions.flatMap(({ replicas }) => replicas.map(([id]) => id)))].sort((a, b) => a - b);
    this.list.className = `matrix ${partitions.length <= TALL ? "tall" : partitions.length <= NAMED ? "named" : ""}`;
    this.list.style.setProperty("--brokers", brokers.length);
    reconcile(this.list, partitions.map((each) => ({ ...each, brokers })), nameOf, (each) => new MatrixRow(each, this));
    if (!this.#chosen && partitions.length <= OPEN_AT_FIRST) partitions.forEach((each) => this.live.partitions.add(nameOf(each)));
    const names = new Set(partitions.map(nameOf));
    for (const name of this.live.partitions) if (!names.has(name)) this.live.partitions.delete(name);
    this.#stop(this.list.querySelector("[tabindex='0']") ?? this.list.firstElementChild);
    this.#mark();
    if (selection.place) selection.apply();
    setText(this.summary, summaryText(partitions, all));
  }

  /** Open a partition's card, or close it; of very many the one that was opened first. */
  toggle(name, isOpen = !this.live.partitions.has(name)) {
    this.#chosen = true;
    this.live.partitions.delete(name);
    if (isOpen) this.live.partitions.add(name);
    if (this.live.partitions.size > MOST_OPEN) this.live.partitions.delete(this.live.partitions.values().next().value);
    this.#mark();
    this.live.refresh();
  }

  #mark() {
    for (const [name, row] of this.list.views ?? []) row.element.setAttribute("aria-expanded", String(this.live.partitions.has(name)));
  }

  #openLinked() {
    for (const [name, { element }] of this.list.views ?? []) if (location.hash === `#${element.id}`) this.toggle(name, true);
  }

  /** One row is where the tabulator key stops; arrows lead to the others. */
  #stop(row) {
    this.list.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    row?.setAttribute("tabindex", "0");
  }

  #move(event) {
    const { activeElement: row } = document;
    const to = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling, Home: this.list.firstElementChild, End: this.list.lastElementChild }[event.key];
    if (!to) return;
    event.preventDefault();
    to.focus();
  }
}

/** Rows of `/api/v1/matrix`, by names. */
export function partitionsOf(rows) {
  return rows.map(([topic, partition, leader, epoch, state, replicas]) => ({ topic, partition, leader, epoch, state, replicas }));
}

function nameOf({ topic, partition }) {
  return `${topic}-${partition}`;
}

function summaryText(partitions, all) {
  if (all === 0) return "There is no topic yet. The first client that produces to one makes it.";
  const counted = Object.entries(STATES).map(([state, says]) => [partitions.filter((each) => each.state === state).length, says]);
  const parts = counted.filter(([number]) => number).map(([number, says]) => `${count(number)} ${number === 1 ? says : says.replace("waits", "wait")}`);
  const more = all > partitions.length ? `; ${count(all - partitions.length)} more have no records of users, or are not shown` : "";
  return `${plural(partitions.length, "partition", "partitions")}: ${parts.join(", ") || "all committed"}${more}.`;
}

class MatrixRow {
  #shown = "";

  constructor(each, matrix) {
    this.name = nameOf(each);
    this.says = make("span", "matrix-says");
    this.cells = make("span", "matrix-cells");
    this.element = make("button", "matrix-row", [make("span", "matrix-name", this.name), this.cells, this.says],
      { type: "button", id: placeOf("partition", this.name), tabindex: "-1" });
    this.element.places = [this.element.id];
    this.element.addEventListener("click", () => matrix.toggle(this.name));
  }

  update(each) {
    const text = JSON.stringify(each);
    if (text === this.#shown) return;
    this.#shown = text;
    this.element.classList.remove(...Object.keys(STATES));
    if (each.state) this.element.classList.add(each.state);
    const replicas = new Map(each.replicas.map((replica) => [replica[0], replica]));
    this.cells.replaceChildren(...each.brokers.map((id) => cellOf(id, replicas.get(id), each)));
    setText(this.says, STATES[each.state] ?? "");
    const lags = each.replicas.map(([id, lag, synced]) => (id === each.leader ? `broker ${id} leads` : `broker ${id} ${lagText(lag, synced)}`));
    const label = `${this.name}: ${[STATES[each.state], ...lags].filter(Boolean).join(", ")}`;
    this.element.setAttribute("aria-label", label);
    this.element.title = label;
  }
}

function lagText(lag, synced) {
  const behind = lag > 0 ? `${count(lag)} behind` : "";
  return [synced ? "in sync" : "out of sync", behind].filter(Boolean).join(", ");
}

/** The replica of a partition on a broker: leader, in sync, behind or out of sync; or none. */
function cellOf(id, replica, { leader, state }) {
  if (replica === undefined) return make("i", "none");
  const [, lag, synced] = replica;
  const kind = state === "offline" && synced === 0 ? "out" : id === leader ? "leads" : synced === 0 ? "out" : lag > 0 ? "behind" : "synced";
  return make("i", kind, lag > 0 ? `${id} −${count(lag)}` : String(id));
}
