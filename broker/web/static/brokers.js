// The strip of brokers: what waits on each, and the hold on its follower fetches.

import { count, make, reconcile, setText } from "./dom.js";

/** Shows the brokers, and lets their follower fetches be held back. */
export class Brokers {
  constructor(box, live) {
    this.box = box;
    this.live = live;
  }

  update(state) {
    reconcile(this.box, state.brokers, (broker) => broker.id, (broker) => new BrokerCard(broker.id, this.live));
  }
}

class BrokerCard {
  constructor(id, live) {
    this.id = id;
    this.live = live;
    this.address = make("span", "address");
    this.badges = make("span", "badge", "controller", { title: "Clients send administrative requests to this broker" });
    this.numbers = make("div", "numbers");
    this.hold = make("button", "hold", "", { type: "button" });
    this.delay = make("input", "", [], { type: "number", min: 0, max: 3600000, step: 100, inputmode: "numeric", id: `delay-${id}` });
    this.says = make("p", "gate-says", "", { role: "status" });
    this.element = make("article", "broker panel", [
      make("header", "", [make("h3", "", `Broker ${id}`), this.badges, this.address]),
      this.numbers,
      make("div", "gate", [
        this.hold,
        make("label", "delay", ["delay by ", this.delay, " ms"], {
          title: "How long this broker waits, after records came, with the fetch that acknowledges them",
        }),
      ]),
      this.says,
    ], { "aria-label": `Broker ${id}` });
    this.hold.addEventListener("click", () => this.#change({ held: !this.held }));
    this.delay.addEventListener("change", () => this.#changeDelay());
    this.error = "";
  }

  update(broker) {
    this.held = broker.follower.held;
    this.delayMs = broker.follower.delay_ms;
    setText(this.address, `${broker.host}:${broker.port}`);
    this.badges.hidden = !broker.controller;
    reconcile(this.numbers, broker.purgatories, (purgatory) => purgatory.name, () => new PurgatoryNumbers());
    setText(this.hold, this.held ? "Release fetches" : "Hold fetches");
    this.hold.setAttribute("aria-pressed", String(this.held));
    if (document.activeElement !== this.delay && this.delay.value !== String(this.delayMs)) this.delay.value = this.delayMs;
    this.element.classList.toggle("held", this.held);
    this.element.classList.toggle("delayed", !this.held && this.delayMs > 0);
    this.element.classList.toggle("gone", !broker.registered);
    setText(this.says, this.error || this.#sentence(broker));
    this.says.classList.toggle("failed", this.error !== "");
  }

  #sentence(broker) {
    if (!broker.registered) return "not registered: clients and other brokers do not know it";
    if (this.held) return "sends no fetch: what it follows stands still";
    if (this.delayMs > 0) return `acknowledges records ${count(this.delayMs)} ms late`;
    return "acknowledges what it follows at once";
  }

  #changeDelay() {
    const given = Number(this.delay.value);
    if (this.delay.value === "" || !this.delay.checkValidity() && !Number.isInteger(given)) {
      this.delay.value = this.delayMs;
      return;
    }
    this.#change({ delay_ms: Math.round(given) });
  }

  async #change(change) {
    this.hold.disabled = true;
    this.error = await this.live.post(`brokers/${this.id}/follower`, change);
    this.hold.disabled = false;
  }
}

class PurgatoryNumbers {
  constructor() {
    this.delayed = make("strong");
    this.name = make("span", "purgatory-name");
    this.watched = make("span", "watched");
    this.element = make("div", "purgatory", [this.name, this.delayed, this.watched]);
  }

  update(purgatory) {
    setText(this.name, purgatory.name);
    setText(this.delayed, count(purgatory.num_delayed));
    this.delayed.title = `NumDelayedOperations of ${purgatory.name}: operations that wait`;
    setText(this.watched, `PurgatorySize ${count(purgatory.watched)}`);
    this.watched.title = `PurgatorySize of ${purgatory.name}: entries in ${
      purgatory.watch_lists.map((list) => `${list.key} (${list.watched})`).join(", ") || "no watch list"}`;
    this.element.classList.toggle("busy", purgatory.num_delayed > 0);
    this.element.classList.toggle("produce", purgatory.name === "Produce");
  }
}
