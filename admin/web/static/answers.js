// Why requests wait: a sentence for each cause, the worst first, with buttons that end the waits. Brokers make the
// sentences and say which requests the buttons send; ordinary long polls are one line.

import { duration, find, line, make, plural, reconcile, setText } from "./dom.js";
import { kindClass } from "./kinds.js";
import { pick, placeOfCause } from "./selection.js";

const SHOWN = 4; // causes, before all of them are asked for

/** Shows the answers. */
export class Answers {
  #all = false;
  #hint = "";

  constructor(live) {
    this.live = live;
    find(this, { list: "answers", more: "answers-more", empty: "answers-empty", ordinary: "ordinary", summary: "ordinary-count", polls: "ordinary-list" });
    this.more.addEventListener("click", () => {
      this.#all = !this.#all;
      this.more.setAttribute("aria-expanded", String(this.#all));
      live.refresh();
    });
  }

  update(state) {
    const waits = (state.waits ?? []).filter(({ ordinary }) => !ordinary);
    const polls = (state.waits ?? []).filter(({ ordinary }) => ordinary);
    reconcile(this.list, this.#all ? waits : waits.slice(0, SHOWN), nameOf, (wait) => new Answer(wait, this.live));
    this.more.hidden = waits.length <= SHOWN;
    setText(this.more, this.#all ? "Show the worst only" : `and ${plural(waits.length - SHOWN, "more cause", "more causes")}`);
    this.ordinary.hidden = polls.length === 0;
    const number = polls.reduce((sum, { counts }) => sum + totalOf(counts), 0);
    setText(this.summary, `${plural(number, "long poll waits", "long polls wait")} for new records, as long polls do`);
    reconcile(this.polls, polls, nameOf, () => line(({ says }) => says));
    this.empty.hidden = waits.length > 0;
    if (waits.length === 0) this.#explain(state, polls.length > 0);
  }

  /** Nothing waits: say how to change that, with commands that fit this cluster. */
  #explain(state, polled) {
    const held = state.brokers.some((broker) => broker.follower?.held || broker.follower?.delay_ms > 0);
    const first = state.brokers.find((broker) => broker.state === "running");
    const bootstrap = first ? `${first.host}:${first.port}` : "";
    const learns = document.querySelector(".lesson") !== null; // of `purgatorio learn`, whose scenes have clients
    const name = `${bootstrap}/${held}/${polled}/${learns}/${state.recorded}`;
    if (name === this.#hint) return;
    this.#hint = name;
    const command = `.venv/bin/python scripts/toy_producer.py --acks all --records 10 --bootstrap ${bootstrap}`;
    const title = make("p", "empty-title", polled ? "Nothing waits but long polls." : "Nothing waits.");
    const advice = learns ? [make("p", "", "In a scene, above, requests wait: start one, or go on to its next step.")] : [];
    if (learns || state.recorded) return this.empty.replaceChildren(title, ...advice);
    this.empty.replaceChildren(
      title,
      make("ol", "", [
        make("li", held ? "done" : "", "To see a request wait, hold the fetches of a broker, below, or give it a delay."),
        make("li", "", ["Produce with acks=all, in a terminal:", make("pre", "", make("code", "", command), { tabindex: 0 })]),
      ]),
    );
  }
}

/** What tells a cause from the others. */
export function nameOf({ kind, actor }) {
  return `${kind}/${actor}`;
}

function totalOf(counts) {
  return Object.values(counts).reduce((sum, number) => sum + number, 0);
}

class Answer {
  constructor(wait, live) {
    this.live = live;
    this.error = "";
    this.says = pick("");
    this.times = make("p", "answer-times");
    this.ways = make("div", "ways");
    this.element = make("li", "answer", [make("div", "answer-text", [make("p", "says", this.says), this.times]), this.ways], { id: placeOfCause(wait) });
    this.element.places = [placeOfCause(wait)];
  }

  update(wait) {
    const [kind] = Object.entries(wait.counts).reduce((a, b) => (b[1] > a[1] ? b : a), ["other", 0]);
    this.element.classList.remove(...[...this.element.classList].filter((name) => name.startsWith("kind-")));
    this.element.classList.add(kindClass(kind));
    setText(this.says, wait.says);
    this.says.title = wait.clients.filter(Boolean).join(", ");
    setText(this.times, this.error || timesText(wait));
    this.times.classList.toggle("failed", this.error !== "");
    reconcile(this.ways, wait.ways, ({ does, path }) => `${does} ${path}`, (way) => this.#button(way));
  }

  #button({ does, path, body }) {
    const element = make("button", "way", does, { type: "button" });
    element.addEventListener("click", () => this.live.press(this, element, path, body));
    return { element, update: () => {} };
  }
}

function timesText({ waited_ms: waited, remaining_ms: left, counts }) {
  const many = totalOf(counts) > 1;
  const since = `${many ? "the first has waited" : "has waited"} ${duration(waited)}`;
  return `${since} · ${left > 0 ? `${many ? "first deadline" : "deadline"} in ${duration(left)}` : "due"}`;
}
