"use strict";
// A cluster for the tests of a file: started before them, reset between them, and what waits is told of a failed one.

const { startKafka } = require("./index.js");

const START_MS = 60_000;

/**
 * Register the hooks of a test runner; return what stands for the cluster, which runs while tests do.
 *
 * `failed(context)` tells whether the test that has just ended has failed.
 */
function useKafkaWith({ beforeAll, afterAll, beforeEach, afterEach }, failed, options) {
  let kafka;
  let used = false;
  beforeAll(async () => {
    kafka = await startKafka(options);
  }, START_MS);
  // Before a test, not after the one before it: its own hooks close its clients first.
  beforeEach(async () => {
    if (used) await kafka.reset();
    used = false;
  });
  afterEach(async (context) => {
    if (kafka !== undefined && failed(context)) console.error(`Kafka at ${kafka.bootstrap}\n${await kafka.report()}`);
  });
  afterAll(async () => {
    await kafka?.stop();
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

module.exports = { useKafkaWith };
