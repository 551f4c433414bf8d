// The connections of clients and brokers: who is behind each. They are asked for only while they are shown.

import { count, duration, make, plural, reconcile, setText } from "./dom.js";

const INTERVAL_MS = 2000;
const SHOWN = 100;

/** Shows the connections while its section is open. */
export class Clients {
  constructor() {
    this.section = document.getElementById("clients");
    this.rows = document.getElementById("client-rows");
    this.more = document.getElementById("clients-more");
    this.section.addEventListener("toggle", () => this.#poll());
    this.#poll();
  }

  async #poll() {
    clearTimeout(this.timer);
    if (!this.section.open) return;
    try {
      const response = document.hidden ? null : await fetch(`/api/v1/connections?limit=${SHOWN}`);
      if (response?.ok) this.#show(await response.json());
    } catch {
      // the page says already that the brokers do not answer
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#poll(), INTERVAL_MS);
  }

  #show(listed) {
    reconcile(this.rows, listed.connections, (each) => `${each.broker} ${each.id}`, () => new Row());
    const further = listed.connection_count - listed.connections.length;
    this.more.hidden = further <= 0;
    setText(this.more, `and ${plural(further, "connection", "connections")} more`);
  }
}

class Row {
  constructor() {
    this.cells = ["", "", "", "", "number", "number", "number"].map((kind) => make("td", kind));
    this.element = make("tr", "", this.cells);
  }

  update(each) {
    const shown = [
      each.principal, each.client, each.peer, `broker ${each.broker}, ${each.listener}`, duration(each.age_ms),
      count(each.in_flight + each.waiting), `${count(each.bytes_in)} / ${count(each.bytes_out)}`,
    ];
    shown.forEach((text, column) => setText(this.cells[column], text));
  }
}
