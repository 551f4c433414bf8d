// `import { useKafka } from "purgatorio/vitest"`
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import hooks from "./hooks.js";

export * from "./index.js";

const { getFn, setFn } = await import("vitest/suite").catch(() => ({}));
const wrapped = new WeakSet();

function failed(context) {
  return context?.task?.result?.state === "fail";
}

function whenFailing({ task }, report) {
  const call = getFn?.(task);
  if (!call || !setFn || wrapped.has(task)) return;
  wrapped.add(task);
  setFn(task, hooks.reporting(call, report));
}

/** A cluster for the tests of a file. */
export function useKafka(options) {
  return hooks.useKafkaWith({ beforeAll, afterAll, beforeEach, afterEach }, { failed, whenFailing }, options);
}
