"use strict";
// `import { useKafka } from "purgatorio/jest"`

const { reporting, useKafkaWith } = require("./hooks.js");

const wrapped = new WeakSet();

/** The state of jest's runner, which says in no other place that a hook can see whether a test fails. */
function state() {
  const found = Object.getOwnPropertySymbols(globalThis).find((each) => each.description === "JEST_STATE_SYMBOL");
  return found && globalThis[found];
}

function failed() {
  return Boolean(state()?.currentlyRunningTest?.errors.length);
}

function whenFailing(_, report) {
  const test = state()?.currentlyRunningTest;
  if (!test?.fn || test.fn.length > 0 || wrapped.has(test)) return; // with a parameter it would be given `done`
  wrapped.add(test);
  const timeoutMs = test.timeout || state().testTimeout;
  const call = reporting(test.fn, report);
  test.fn = async function () {
    const timer = setTimeout(report, timeoutMs);
    try {
      return await call.call(this);
    } finally {
      clearTimeout(timer);
    }
  };
}

/** A cluster for the tests of a file. */
function useKafka(options) {
  const { beforeAll, afterAll, beforeEach, afterEach } = globalThis;
  // A hook of jest with a parameter would be given `done`.
  const each = (register) => (hook) => register(() => hook());
  const hooks = { beforeAll, afterAll, beforeEach: each(beforeEach), afterEach: each(afterEach) };
  return useKafkaWith(hooks, { failed, whenFailing }, options);
}

module.exports = { ...require("./index.js"), useKafka };
