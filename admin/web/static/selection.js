// One thing, seen everywhere: what is touched lights up with all that it has to do with, and the rest steps back. The
// address names it, so that a link shows the same; Escape lets go.
//
// Things have places, such as "broker-3" or "operation-1-Produce-42". An operation has to do with its client, its
// partitions, and what it waits for; another thing with all that the operations have to do with which it is one of.

import { find, make, setText } from "./dom.js";
import { FOLLOWERS } from "./kinds.js";
import { namedIn, placeOf } from "./links.js";

const UNITS = ".answer, .broker, .operation, .matrix-row, .thing, .member, .share, .lock, .transaction, #finished tr, #client-rows tr";
const OWN = "a, input, select, summary, label, pre, button:not(.pick, .row, .matrix-row)"; // what does something else when touched
const IDS = ["broker_id", "transactional_id", "producer_id", "group_id", "fault_id", "api", "rule"]; // tell causes of a kind apart
const KINDS = /^(broker|cause|client|connection|fault|group|member|operation|partition|transaction)-./;
const PARTITION = /^.+-\d+$/;

/** The place of an operation, parked or finished. */
export function placeOfOperation({ broker, purgatory, id }) {
  return placeOf("operation", broker, purgatory, id);
}

export function placeOfCause({ kind, actor }) {
  return placeOf("cause", kind, actor);
}

/** The places of an operation, its client and its partitions: by these it lights up after its end. */
export function relativesOf(operation) {
  const places = [placeOfOperation(operation)];
  if (operation.client) places.push(placeOf("client", operation.client));
  return places.concat(operation.keys.filter((key) => PARTITION.test(key)).map((key) => placeOf("partition", key)));
}

/** All that it has to do with: its relatives, and what it waits for. */
function placesOf(operation) {
  return relativesOf(operation).concat(namedIn(operation.causes ?? []).map(({ place }) => place));
}

/** Whether one of an operation's causes is that of a group of waits. */
function isOf(operation, wait) {
  const causes = (operation.causes ?? []).flatMap((cause) => [cause, ...(cause.positions ?? []).map((each) => each.held_back_by)]);
  return causes.some((cause) => cause?.kind === wait.kind && wantsMore(cause) === Boolean(wait.wanted_bytes) && IDS.every((name) => cause[name] === wait.cause?.[name]));
}

/** Whether a fetch has something to read, and waits for more bytes. */
const wantsMore = ({ available_bytes: available, wanted_bytes: wanted }) => available > 0 && available < wanted;

/** A name that selects its thing by a click or the keyboard. */
export function pick(text) {
  return make("button", "pick", text, { type: "button", "aria-pressed": "false" });
}

class Selection {
  place = "";
  #related = new Set();
  #state = null;

  constructor() {
    find(this, { bar: "selected", name: "selected-name" });
    document.getElementById("let-go").addEventListener("click", () => this.choose(""));
    document.addEventListener("click", ({ target }) => this.#touched(target));
    document.addEventListener("keydown", ({ key }) => {
      if (key === "Escape" && this.place) this.choose("");
    });
    window.addEventListener("hashchange", () => this.#linked());
    this.#linked();
  }

  update(state) {
    this.#state = state;
    if (this.place) this.apply();
  }

  /** Whether a place is lit; all are if nothing is selected. */
  lights(place) {
    return this.place === "" || this.#related.has(place);
  }

  /** Select a place; "" lets go. */
  choose(place) {
    this.place = place;
    this.#related = new Set([place]);
    history.replaceState(null, "", place ? `#${place}` : location.pathname + location.search);
    this.apply();
  }

  /** Show the selection on what is on the page now. */
  apply() {
    this.#relate();
    document.body.classList.toggle("selecting", this.place !== "");
    this.bar.hidden = this.place === "";
    setText(this.name, this.place ? textOf(this.place) : "");
    for (const unit of document.querySelectorAll(UNITS)) {
      unit.classList.toggle("lit", this.place !== "" && (unit.places ?? []).some((place) => this.#related.has(place)));
      const chosen = this.place !== "" && unit.places?.[0] === this.place;
      unit.classList.toggle("chosen", chosen);
      unit.querySelector(".pick")?.setAttribute("aria-pressed", String(chosen));
    }
  }

  /** Find what the selection has to do with. What an operation had to do with stays lit after its end. */
  #relate() {
    if (!this.place || !this.#state) return;
    const { brokers, waits = [], finished } = this.#state;
    const parked = brokers.flatMap(({ id: broker, purgatories }) => purgatories.flatMap(({ name: purgatory, operations }) =>
      operations.map((operation) => ({ ...operation, broker, purgatory }))));
    const related = new Set([this.place]);
    for (const operation of [...parked, ...finished]) {
      const causes = waits.filter((wait) => isOf(operation, wait)).map(placeOfCause);
      const places = [...placesOf(operation), ...causes];
      const isItself = places[0] === this.place;
      const counts = isItself || (!FOLLOWERS.has(operation.kind) && operation.done_ms === undefined); // those fetch from all partitions
      if (counts && places.includes(this.place)) places.forEach((place) => related.add(place));
    }
    if (this.place.startsWith("operation-")) this.#related.forEach((place) => related.add(place));
    this.#related = related;
  }

  #touched(target) {
    if (target.closest(OWN)) return;
    const place = target.closest(UNITS)?.places?.[0];
    if (place) this.choose(place === this.place ? "" : place);
  }

  #linked() {
    const place = location.hash.slice(1);
    if (KINDS.test(place)) this.choose(place);
  }
}

/** A place in words: "Produce 42 of broker 1", "partition orders-0". */
function textOf(place) {
  const [kind, ...names] = place.split("-").map((name) => {
    try {
      return decodeURIComponent(name);
    } catch {
      return name; // a link may say anything
    }
  });
  return kind === "operation" && names.length > 2 ? `${names[1]} ${names[2]} of broker ${names[0]}` : `${kind} ${names.join("-")}`;
}

export const selection = new Selection();
