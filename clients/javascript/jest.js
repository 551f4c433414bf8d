"use strict";
// `import { useKafka } from "purgatorio/jest"`

const { useKafkaWith } = require("./hooks.js");

/** Whether the test that has just ended has failed; jest's runner tells it in no other place a hook can see. */
function failed() {
  const state = Object.getOwnPropertySymbols(globalThis).find((each) => each.description === "JEST_STATE_SYMBOL");
  return Boolean(state && globalThis[state].currentlyRunningTest?.errors.length);
}

/** A cluster for the tests of a file. */
function useKafka(options) {
  const { beforeAll, afterAll, beforeEach, afterEach } = globalThis;
  // A hook of jest with a parameter would be given `done`.
  const withoutContext = (hook) => afterEach(() => hook());
  return useKafkaWith({ beforeAll, afterAll, beforeEach, afterEach: withoutContext }, failed, options);
}

module.exports = { ...require("./index.js"), useKafka };
