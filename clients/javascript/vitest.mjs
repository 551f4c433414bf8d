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
  return hooks.useKafkaWith(vitest, { failed, whenFailing }, options);
}
