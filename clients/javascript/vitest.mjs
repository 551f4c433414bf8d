// `import { useKafka } from "purgatorio/vitest"`
import * as vitest from "vitest";
import hooks from "./hooks.js";

export * from "./index.js";

/**
 * The functions of vitest that give a test another function: of a module of their own, which warns of its end since 4.1;
 * and since then of TestRunner, whose `setTestFn` is its `getTestFn` by mistake (4.1.12).
 */
async function ofTests() {
  const { getTestFn: getFn, setTestFn: setFn } = vitest.TestRunner ?? {};
  if (setFn !== getFn) return { getFn, setFn };
  const { warn } = console;
  console.warn = () => {};
  try {
    return await import("vitest/suite");
  } catch {
    return {};
  } finally {
    console.warn = warn;
  }
}

const { getFn, setFn } = await ofTests();
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
  const { beforeAll, afterAll, beforeEach, afterEach } = vitest;
  // Fixtures (`test.extend`) must be named in the parameter of a hook, and vitest reads it for them.
  const each = (register) => (hook) => register(({ task }) => hook({ task }));
  const runner = { beforeAll, afterAll, beforeEach: each(beforeEach), afterEach: each(afterEach) };
  return hooks.useKafkaWith(runner, { failed, whenFailing }, options);
}
