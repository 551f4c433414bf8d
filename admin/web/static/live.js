// The wire to the brokers: asks for the state a few times a second, knows their time between two answers, and says when
// they do not answer.

const INTERVAL_MS = 200; // the brokers may ask for more
export const SHARED = { "Cache-Control": "max-age=10" }; // an answer that was made for another page will do
const SINCE_MS = 2000; // pages that saw the last answers ask the same
const OPERATIONS = 40; // of each purgatory: more have no room on the page
const RETRY_MS = 1000;
const TIMEOUT_MS = 3000;
const CHANGE_TIMEOUT_MS = 15_000; // a broker that was killed registers again only when its session is over
const LOOK_AHEAD_MS = 500; // how far the brokers' time is guessed beyond the time of the next answer

/** The brokers' clock, as far as it can be known from here. It may stand still or leap: tests move it by hand. */
class RemoteClock {
  #remoteMs = 0;
  #localMs = 0;
  #rate = 1;
  nextMs = INTERVAL_MS;

  /** An answer that arrived at `localMs` says it is `remoteMs` there. */
  told(remoteMs, localMs) {
    const elapsed = localMs - this.#localMs;
    if (this.#localMs && elapsed > 50 && elapsed < 5000) {
      const rate = (remoteMs - this.#remoteMs) / elapsed;
      this.#rate = rate > 0.5 && rate < 2 ? 1 : 0;
    }
    // Guessed a little ahead is better than a dot that jumps back: small differences are network jitter.
    const guess = this.now(localMs);
    this.#remoteMs = Math.abs(guess - remoteMs) < 40 && this.#rate ? guess * 0.8 + remoteMs * 0.2 : remoteMs;
    this.#localMs = localMs;
  }

  /** The cluster's time in ms. */
  now(localMs = performance.now()) {
    return this.#remoteMs + this.#rate * Math.min(this.nextMs + LOOK_AHEAD_MS, localMs - this.#localMs);
  }
}

const SILENT = "The brokers do not answer. This is how it was; asking again every second.";
const NO_TOKEN = "The token of this page is not valid any more: open the page by the address that the cluster has printed.";
const OTHER_VERSION = "This page and the brokers are of different versions: reload the page.";

/** Why there is no new state: what the status and the alarm say of it. */
class Failure extends Error {
  constructor(message, alarm = SILENT) {
    super(message);
    this.alarm = alarm;
  }
}

/** Polls the state and tells `onState(state)`; `onStatus(state, text, alarm)` hears "live" (of what is recorded or frozen, too), "away" or "silent", and why. */
export class Live {
  clock = new RemoteClock();
  viewMs = null; // the moment that is shown instead of now
  partitions = new Set(); // the names of those that are asked for
  #timer = 0;
  #busy = false;
  #nextMs = INTERVAL_MS;
  #newestDoneMs = null;
  #clusterId = null;
  #lastAnswerMs = performance.now();
  #failures = 0;

  constructor(onState, onStatus) {
    this.onState = onState;
    this.onStatus = onStatus;
    document.addEventListener("visibilitychange", () => this.#visibilityChanged());
  }

  /** The time that is shown, in ms of the cluster's clock. */
  now(localMs) {
    return this.viewMs ?? this.clock.now(localMs);
  }

  start() {
    this.#visibilityChanged();
  }

  /** Ask now, not at the next turn: something was just changed. */
  refresh() {
    if (!document.hidden) this.#schedule(0);
  }

  /** Change something; returns the error as text, or "" if it was done. */
  async post(path, body) {
    try {
      const response = await fetch(`/api/v1/${path}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(CHANGE_TIMEOUT_MS),
      });
      if (response.ok) return "";
      return (await response.json()).error ?? `status ${response.status}`;
    } catch {
      return "the broker does not answer";
    } finally {
      this.refresh();
    }
  }

  /** Change something by a button; `view.error` has the error as text, or "". */
  async press(view, button, path, body = {}) {
    button.disabled = true;
    view.error = await this.post(path, body);
    button.disabled = false;
  }

  #visibilityChanged() {
    clearTimeout(this.#timer);
    if (document.hidden) {
      this.onStatus("away", "paused while the tab is hidden");
    } else {
      this.#schedule(0);
    }
  }

  #schedule(delayMs) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#poll(), delayMs);
  }

  async #poll() {
    if (this.#busy) return; // the answer under way schedules the next one
    this.#busy = true;
    const startedMs = performance.now();
    try {
      const since = this.#newestDoneMs === null ? "" : `&since_ms=${Math.floor(this.#newestDoneMs / SINCE_MS) * SINCE_MS}`;
      const response = await fetch(`/api/v1/state?operations=${OPERATIONS}&partitions=${encodeURIComponent([...this.partitions].join(","))}${since}`, { headers: SHARED, signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (!response.ok) throw new Failure(`status ${response.status}`, response.status === 401 ? NO_TOKEN : SILENT);
      const [age, next] = ["Age", "Next"].map((name) => Number(response.headers.get(`Purgatorio-${name}-Ms`)));
      this.#take(await response.json(), startedMs, age, next || INTERVAL_MS);
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#busy = false;
      if (!document.hidden) this.#schedule(this.#failures ? RETRY_MS : this.#nextMs + 5);
    }
  }

  #take(state, startedMs, ageMs, nextMs) {
    const localMs = performance.now();
    this.#nextMs = nextMs;
    if (state.cluster_id !== this.#clusterId) {
      state.restarted = this.#clusterId !== null;
      this.#clusterId = state.cluster_id;
      this.#newestDoneMs = null;
      this.clock = new RemoteClock();
      if (state.restarted) this.#schedule(0);
    }
    this.clock.nextMs = nextMs;
    this.clock.told(state.now_ms, (startedMs + localMs) / 2 - ageMs);
    try {
      if (state.finished.length) this.#newestDoneMs = state.finished[0].done_ms;
      this.onState(state);
    } catch (error) {
      console.error(error);
      throw new Failure("not understood", OTHER_VERSION);
    }
    this.#lastAnswerMs = localMs;
    this.#failures = 0;
    this.onStatus("live", state.recorded ? "a recording" : this.viewMs === null ? "live" : "frozen");
  }

  #failed(error) {
    this.#failures += 1;
    const seconds = Math.round((performance.now() - this.#lastAnswerMs) / 1000);
    const isKnown = error instanceof Failure;
    this.onStatus("silent", `no answer${isKnown ? ` (${error.message})` : ""} for ${seconds} s`, isKnown ? error.alarm : SILENT);
  }
}
