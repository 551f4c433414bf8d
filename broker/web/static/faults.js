// Fault rules: what each does to which requests, how often it did, and the last requests that it was done to.

import { make, plural, reconcile, setText } from "./dom.js";
import { placeOf } from "./links.js";

/** Shows the fault rules, if there are any, and lets each be removed. */
export class Faults {
  constructor(live) {
    this.live = live;
    this.section = document.getElementById("faults-section");
    this.box = document.getElementById("faults");
    this.more = document.getElementById("faults-more");
    this.fired = document.getElementById("faults-fired");
  }

  update(state) {
    const faults = state.faults ?? [];
    const further = (state.fault_count ?? 0) - faults.length;
    this.section.hidden = faults.length === 0;
    reconcile(this.box, faults, (each) => each.id, (each) => new FaultCard(each, this.live));
    reconcile(this.fired, state.fired ?? [], (each) => `${each.at_ms} ${each.rule} ${each.client} ${each.nth}`, () => new FiredLine());
    this.more.hidden = further <= 0;
    setText(this.more, `and ${plural(further, "rule", "rules")} more`);
  }
}

class FaultCard {
  constructor(fault, live) {
    this.id = fault.id;
    this.live = live;
    this.error = "";
    this.counts = make("span", "transaction-since");
    this.told = make("p", "transaction-waits");
    this.remove = make("button", "abort", "Remove", {
      type: "button",
      title: "Remove the rule; requests that it holds go on",
      "aria-label": `Remove fault rule ${fault.id}`,
    });
    this.element = make("article", "transaction panel", [
      make("header", "", [make("h3", "", fault.text), this.counts]),
      this.told,
      make("div", "countdown", [make("span", "left", `rule ${fault.id}`), this.remove]),
    ], { "aria-label": `Fault rule ${fault.id}`, id: placeOf("fault", fault.id) });
    this.element.places = [placeOf("fault", fault.id)];
    this.remove.addEventListener("click", () => this.#remove());
  }

  update(fault) {
    const spent = fault.spent ? " · spent" : "";
    setText(this.counts, `matched ${fault.matched} · fired ${fault.fired}${spent}`);
    setText(this.told, this.error || (fault.held ? `holds ${plural(fault.held, "request", "requests")}` : ""));
    this.told.hidden = this.told.textContent === "";
  }

  async #remove() {
    this.remove.disabled = true;
    this.error = await this.live.post(`faults/${this.id}/release`, {});
    this.remove.disabled = false;
  }
}

class FiredLine {
  constructor() {
    this.element = make("li");
  }

  update(fired) {
    const partitions = fired.partitions.length ? ` for ${fired.partitions.join(", ")}` : "";
    setText(this.element, `rule ${fired.rule}, broker ${fired.broker}: ${fired.api} of ${fired.client || "a client without id"}${partitions}: ${fired.action}`);
  }
}
