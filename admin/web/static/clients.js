// The connections of clients and brokers: who is behind each. They are asked for only while they are shown.

import { count, duration, find, make, reconcile, setText, tellMore } from "./dom.js";
import { placeOf } from "./links.js";
import { SHARED } from "./live.js";
import { pick, selection } from "./selection.js";

const INTERVAL_MS = 2000;
const SHOWN = 100;

/** Shows the connections while its section is open. */
export class Clients {
  constructor() {
    find(this, { section: "clients", rows: "client-rows", more: "clients-more" });
    this.section.addEventListener("toggle", () => this.#poll());
    this.#poll();
  }

  async #poll() {
    clearTimeout(this.timer);
    if (!this.section.open) return;
    try {
      const response = document.hidden ? null : await fetch(`/api/v1/connections?limit=${SHOWN}`, { headers: SHARED });
      if (response?.ok) this.#show(await response.json());
    } catch {
      // the page says already that the brokers do not answer
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#poll(), INTERVAL_MS);
  }

  #show(listed) {
    reconcile(this.rows, listed.connections, (each) => `${each.broker} ${each.id}`, () => new Row());
    if (selection.place) selection.apply();
    tellMore(this.more, listed.connection_count - listed.connections.length, "connection", "connections");
  }
}

class Row {
  constructor() {
    this.cells = ["", "", "", "", "number", "number", "number"].map((kind) => make("td", kind));
    this.client = pick("");
    this.cells[1].append(this.client);
    this.element = make("tr", "", this.cells);
  }

  update(each) {
    this.element.places = [placeOf("client", each.client), placeOf("connection", each.broker, each.id)];
    setText(this.client, each.client);
    const shown = [
      each.principal, null, each.peer, `broker ${each.broker}, ${each.listener}`, duration(each.age_ms),
      count(each.in_flight + each.waiting), `${count(each.bytes_in)} / ${count(each.bytes_out)}`,
    ];
    shown.forEach((text, column) => text !== null && setText(this.cells[column], text));
  }
}
