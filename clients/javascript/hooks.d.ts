import type { Kafka, KafkaOptions } from "./index.js";

export * from "./index.js";

/**
 * A cluster for the tests of a file. It starts before them, is reset between them, and ends after the last one. What
 * waits, and why, is printed when a test fails.
 */
export declare function useKafka(options?: KafkaOptions): Kafka;
