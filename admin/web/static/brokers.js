// The strip of brokers: what waits at each, the hold on its follower fetches, and the buttons stop, kill, start.

import { count, make, reconcile, setText } from "./dom.js";
import { placeOf } from "./links.js";
import { pick } from "./selection.js";

const SHOWN_MS = 60_000; // how long a purgatory is shown after something waited in it
const NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

/** Shows the brokers, and lets them be stopped and started, and their follower fetches be held back. */
export class Brokers {
  constructor(box, live) {
    this.box = box;
    this.live = live;
  }

  update(state) {
    const rows = state.brokers.map((broker) => ({ broker, state }));
    reconcile(this.box, rows, ({ broker }) => broker.id, ({ broker }) => new BrokerCard(broker.id, this.live));
  }
}

class BrokerCard {
  constructor(id, live) {
    this.id = id;
    this.live = live;
    this.address = make("span", "address");
    this.badges = make("span", "badge", "controller", { title: "Clients send administrative requests to this broker" });
    this.numbers = new Purgatories();
    this.memory = make("p", "watched");
    this.hold = make("button", "hold", "", { type: "button" });
    this.delay = make("input", "", [], { type: "number", min: 0, max: 3600000, step: 100, inputmode: "numeric", id: `delay-${id}` });
    this.says = make("p", "gate-says", "", { role: "status" });
    this.state = make("span", "state");
    this.stop = make("button", "", "Stop", { type: "button", title: "Stop it in good order: its leaderships move on, the records in its memory are lost" });
    this.kill = make("button", "kill", "Kill", { type: "button", title: "End it without a word: the others learn of it when its lease runs out" });
    this.start = make("button", "start", "Start", { type: "button", title: "Start it with empty logs: it catches up from the leaders" });
    this.gate = make("div", "gate", [
      this.hold,
      make("label", "delay", ["delay ", this.delay, " ms"], {
        title: "How long this broker waits, after records came, with the fetch that acknowledges them",
      }),
    ]);
    this.element = make("article", "broker panel", [
      make("header", "", [make("h3", "", pick(`Broker ${id}`)), this.badges, this.state, this.address]),
      this.numbers.element,
      this.memory,
      this.says,
      make("div", "controls", [this.gate, this.stop, this.kill, this.start]),
    ], { "aria-label": `Broker ${id}`, id: placeOf("broker", id) });
    this.element.places = [placeOf("broker", id)];
    this.hold.addEventListener("click", () => this.#change({ held: !this.held }));
    this.delay.addEventListener("change", () => this.#changeDelay());
    for (const [button, change] of [[this.stop, "stop"], [this.kill, "kill"], [this.start, "start"]]) {
      button.setAttribute("aria-label", `${button.textContent} broker ${id}`);
      button.addEventListener("click", () => this.#changeState(change));
    }
    this.error = "";
    this.busy = false;
  }

  update({ broker, state }) {
    const runs = broker.follower !== null;
    this.held = runs && broker.follower.held;
    this.delayMs = runs ? broker.follower.delay_ms : 0;
    setText(this.address, `${broker.host}:${broker.port}`);
    this.address.title = runs ? "" : "Where it was, and will be again";
    this.#showState(broker, runs);
    this.badges.hidden = !broker.controller;
    this.numbers.update(broker, state);
    if (broker.memory) this.#showMemory(broker.memory);
    setText(this.hold, this.held ? "Release fetches" : "Hold fetches");
    this.hold.setAttribute("aria-pressed", String(this.held));
    if (document.activeElement !== this.delay && this.delay.value !== String(this.delayMs)) this.delay.value = this.delayMs;
    this.element.classList.toggle("held", this.held);
    this.element.classList.toggle("delayed", !this.held && this.delayMs > 0);
    this.element.classList.toggle("down", !runs);
    this.element.classList.toggle("fenced", runs && broker.fenced);
    setText(this.says, this.error || this.#sentence(broker));
    this.says.classList.toggle("failed", this.error !== "");
  }

  #showState(broker, runs) {
    const epoch = broker.broker_epoch < 0 ? "" : `Broker epoch ${broker.broker_epoch}. `;
    const lease = !runs ? "" : broker.fenced ? " · fenced" : broker.lease.held ? " · lease held" : " · lease run out";
    const isWell = runs && broker.state === "running" && !broker.fenced && broker.lease.held;
    setText(this.state, isWell ? "" : `${broker.state}${lease}`);
    this.state.title = (broker.process?.id ? `Process ${broker.process.id}. ` : "") + epoch + "The broker epoch is new with every start of the broker; without a lease it leads nothing";
    this.stop.hidden = !runs;
    this.kill.hidden = !runs && broker.state !== "running"; // a process that does not answer can be killed
    this.start.hidden = !this.kill.hidden;
    if (broker.process?.id === null) this.stop.hidden = this.kill.hidden = this.start.hidden = true; // on a host of its own
    this.gate.hidden = this.numbers.element.hidden = !runs;
    this.memory.hidden = !broker.memory;
    for (const button of [this.stop, this.kill, this.start]) button.disabled = this.busy || !["running", "stopped"].includes(broker.state);
  }

  #showMemory({ limit_bytes: most, logs_bytes: logs, requests_bytes: requests, answers_bytes: answers }) {
    const mb = (bytes) => `${count(Math.ceil(bytes / 1e6))} MB`;
    setText(this.memory, `memory ${mb(logs + requests + answers)} of ${mb(most)}`);
    this.memory.title = `Records ${mb(logs)}, requests ${mb(requests)}, answers that clients have not taken ${mb(answers)}; memory.bytes bounds it`;
  }

  #sentence(broker) {
    if (broker.process?.trouble) return `its process ${broker.process.trouble}`;
    if (broker.state === "starting") return "starts: it registers when its earlier session is over";
    if (broker.state === "stopping") return "stops: parked requests are answered";
    if (broker.state === "stopped") {
      return broker.registered && !broker.fenced ? "is down: the cluster has not noticed yet" : "is down: the records in its memory are lost";
    }
    if (broker.paused) return "was told to stand still: it reads and answers nothing";
    if (broker.cut_off_from.length) return `was cut off from broker ${broker.cut_off_from.join(", ")}`;
    if (broker.fenced || !broker.lease.held) return "lost its lease: it leads nothing until it has another one";
    if (!broker.registered) return "not registered: clients and other brokers do not know it";
    if (this.held) return "sends no fetch: its replicas stand still";
    if (this.delayMs > 0) return `acknowledges records ${count(this.delayMs)} ms late`;
    return "acknowledges new records at once";
  }

  #changeDelay() {
    const given = Number(this.delay.value);
    if (this.delay.value === "" || !this.delay.checkValidity() && !Number.isInteger(given)) {
      this.delay.value = this.delayMs;
      return;
    }
    this.#change({ delay_ms: Math.round(given) });
  }

  async #changeState(change) {
    this.busy = true;
    this.stop.disabled = this.kill.disabled = this.start.disabled = true;
    this.live.refresh(); // the state in between is worth seeing
    this.error = await this.live.post(`brokers/${this.id}/${change}`, {});
    this.busy = false;
  }

  #change(change) {
    return this.live.press(this, this.hold, `brokers/${this.id}/follower`, change);
  }
}

/** The purgatories in which something waits, or waited in the last minute; the others are counted. */
class Purgatories {
  #busyMs = new Map();

  constructor() {
    this.list = make("ul");
    this.rest = make("span", "watched");
    this.element = make("div", "purgatories", [this.list, this.rest]);
  }

  update(broker, state) {
    for (const { broker: id, purgatory, done_ms: ms } of state.finished) if (id === broker.id) this.#see(purgatory, ms);
    for (const { name, num_delayed: waiting } of broker.purgatories) if (waiting > 0) this.#see(name, state.now_ms);
    const isShown = ({ name }) => state.now_ms - (this.#busyMs.get(name) ?? -Infinity) < SHOWN_MS;
    const shown = broker.purgatories.filter(isShown);
    const empty = broker.purgatories.length - shown.length;
    reconcile(this.list, shown, ({ name }) => name, () => new PurgatoryNumber());
    setText(this.rest, empty ? `${NUMBERS[empty] ?? empty} ${empty === 1 ? "purgatory is" : "purgatories are"} empty` : "");
    this.rest.title = broker.purgatories.filter((each) => !isShown(each)).map(({ name }) => name).join(", ");
  }

  #see(name, ms) {
    this.#busyMs.set(name, Math.max(ms, this.#busyMs.get(name) ?? 0));
  }
}

class PurgatoryNumber {
  constructor() {
    this.delayed = make("strong");
    this.name = make("span");
    this.element = make("li", "purgatory", [this.delayed, " ", this.name]);
  }

  update({ name, num_delayed: waiting, watched, watch_lists: lists }) {
    setText(this.name, name);
    setText(this.delayed, count(waiting));
    this.element.title = `NumDelayedOperations of ${name}: ${waiting} operations wait. PurgatorySize ${count(watched)}: entries in ${
      lists.map((list) => `${list.key} (${list.watched})`).join(", ") || "no watch list"}`;
    this.element.classList.toggle("busy", waiting > 0);
    this.element.classList.toggle("produce", name === "Produce");
  }
}
