import { defineConfig } from "vitest/config";

export default defineConfig({ test: { include: ["**/*.vitest.mjs"], testTimeout: 20_000 } });
