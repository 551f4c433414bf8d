// Why groups get nothing: the conclusions of `purgatorio why`, asked for while a card that shows them is open.

import { SHARED } from "./live.js";

const INTERVAL_MS = 2000;
const FRESH_MS = 10_000; // what was concluded longer before or after the state that is shown is not about it

/** Knows the sentences about a group. */
export class Why {
  #timer = 0;
  #last = { now_ms: 0, conclusions: [] };

  /** `isShown` says whether one of the cards is open. */
  constructor(isShown) {
    this.isShown = isShown;
    this.#poll();
  }

  /** The sentences about a group, at the time of a state. */
  about(name, nowMs) {
    if (Math.abs(nowMs - this.#last.now_ms) > FRESH_MS) return "";
    const found = this.#last.conclusions.filter(({ about }) => about.includes(name));
    return found.map(({ says }) => `${says}.`).join("\n");
  }

  async #poll() {
    clearTimeout(this.#timer);
    let nextMs = 0;
    try {
      const response = document.hidden || !this.isShown() ? null : await fetch("/api/v1/why", { headers: SHARED });
      if (response?.status === 409) return; // a recording has no conclusions
      if (response?.ok) this.#last = await response.json();
      nextMs = Number(response?.headers.get("Purgatorio-Next-Ms") ?? 0);
    } catch {
      // the page says already that the brokers do not answer
    }
    this.#timer = setTimeout(() => this.#poll(), Math.max(nextMs + 5, INTERVAL_MS));
  }
}
