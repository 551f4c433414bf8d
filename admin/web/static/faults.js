// Fault rules: what each does to which requests, how often it did, and the last requests that it was done to.

import { find, line, make, plural, reconcile, setText, tellMore } from "./dom.js";
import { placeOf } from "./links.js";

/** Shows the fault rules, if there are any, and lets each be removed. */
export class Faults {
  constructor(live) {
    this.live = live;
    find(this, { section: "faults-section", box: "faults", more: "faults-more", fired: "faults-fired" });
  }

  update(state) {
    const faults = state.faults ?? [];
    const further = (state.fault_count ?? 0) - faults.length;
    this.section.hidden = faults.length === 0;
    reconcile(this.box, faults, (each) => each.id, (each) => new FaultCard(each, this.live));
    reconcile(this.fired, state.fired ?? [], (each) => `${each.at_ms} ${each.rule} ${each.client} ${each.nth}`, () => line(firedText));
    tellMore(this.more, further, "rule", "rules");
  }
}

class FaultCard {
  constructor(fault, live) {
    this.error = "";
    this.counts = make("span", "transaction-since");
    this.told = make("p", "transaction-waits");
    const remove = make("button", "abort", "Remove", {
      type: "button",
      title: "Remove the rule; requests that it holds go on",
      "aria-label": `Remove fault rule ${fault.id}`,
    });
    this.element = make("article", "transaction panel", [
      make("header", "", [make("h3", "", fault.text), this.counts]),
      this.told,
      make("div", "countdown", [make("span", "left", `rule ${fault.id}`), remove]),
    ], { "aria-label": `Fault rule ${fault.id}`, id: placeOf("fault", fault.id) });
    this.element.places = [placeOf("fault", fault.id)];
    remove.addEventListener("click", () => live.press(this, remove, `faults/${fault.id}/release`));
  }

  update(fault) {
    const spent = fault.spent ? " · spent" : "";
    setText(this.counts, `matched ${fault.matched} · fired ${fault.fired}${spent}`);
    setText(this.told, this.error || (fault.held ? `holds ${plural(fault.held, "request", "requests")}` : ""));
    this.told.hidden = this.told.textContent === "";
  }
}

function firedText({ rule, broker, api, client, partitions, action }) {
  const named = partitions.length ? ` for ${partitions.join(", ")}` : "";
  return `rule ${rule}, broker ${broker}: ${api} of ${client || "a client without id"}${named}: ${action}`;
}
