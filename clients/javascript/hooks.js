"use strict";
// A cluster for the tests of a file: started before them, reset between them; of a test that fails, why is printed.

const { startKafka } = require("./index.js");

const START_MS = 60_000;
/** A cluster that hangs must not hold up the tests behind it. */
const REPORT_MS = 2_000;

/**
 * Register the hooks of a test runner; return what stands for the cluster, which runs while tests do.
 *
 * `failed(context)` is whether the test that has just ended has failed; `whenFailing(context, report)` has the report
 * made as soon as the test's own code fails, before its hooks close its clients.
 */
function useKafkaWith({ beforeAll, afterAll, beforeEach, afterEach }, { failed, whenFailing }, options) {
  let kafka;
  let used = false;
  let printing;
  const report = () => (printing ??= print(kafka));
  beforeAll(async () => {
    kafka = await startKafka(options);
  }, START_MS);
  // Before a test, not after the one before it: its own hooks close its clients first.
  beforeEach(async (context) => {
    printing = undefined;
    if (used) await kafka.reset();
    used = false;
    whenFailing(context, report);
  });
  afterEach(async (context) => {
    if (kafka !== undefined && (printing !== undefined || failed(context))) await report();
  });
  afterAll(async () => {
    await kafka?.close();
  }, START_MS);
  return new Proxy(
    {},
    {
      get(_, name) {
        if (kafka === undefined) throw new Error("the cluster runs while tests do: use it in a test or a hook");
        used = true;
        const value = kafka[name];
        return typeof value === "function" ? value.bind(kafka) : value;
      },
    },
  );
}

/** Print why the test has failed; the report comes first. */
async function print(kafka) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, REPORT_MS, `the Kafka cluster makes no report within ${REPORT_MS / 1000} s`);
  });
  const text = await Promise.race([kafka.report().catch((error) => error.message), late]);
  clearTimeout(timer);
  console.error(`${text}\nKafka at ${kafka.bootstrap}`);
}

/** Call a function, and have something done before its error goes on. */
function reporting(call, report) {
  return async (...args) => {
    try {
      return await call(...args);
    } catch (error) {
      await report();
      throw error;
    }
  };
}

module.exports = { useKafkaWith, reporting };
