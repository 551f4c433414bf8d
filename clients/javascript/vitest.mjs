// `import { useKafka } from "purgatorio/vitest"`
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import hooks from "./hooks.js";

export * from "./index.js";

/** A cluster for the tests of a file. */
export function useKafka(options) {
  const failed = (context) => context?.task?.result?.state === "fail";
  return hooks.useKafkaWith({ beforeAll, afterAll, beforeEach, afterEach }, failed, options);
}
