/// <reference types="node" />
import type { Answer, Operations } from "./operations.js";

export type { Answer, Operations } from "./operations.js";

export interface KafkaOptions {
  /** Number of brokers; 3. */
  brokers?: number;
  /** Topics to begin with, which a reset brings back empty: their names, with numbers of partitions. */
  topics?: Record<string, number>;
  /** Settings of brokers by Kafka's names: { "log.retention.ms": 1000 }. */
  settings?: Record<string, string | number | boolean>;
  /** Further flags of `purgatorio cluster`: ["--import", "fixtures"]. */
  args?: string[];
  /** The command; otherwise the environment variable PURGATORIO, or `purgatorio` on the PATH. */
  command?: string | string[];
}

export interface NewRecord {
  key?: string | Uint8Array | null;
  /** Text, bytes, or what is written as JSON. */
  value?: unknown;
  headers?: Record<string, string | Uint8Array | null>;
  /** The one of the key, if it is not given. */
  partition?: number;
  timestampMs?: number;
}

export interface KafkaRecord {
  topic: string;
  partition: number;
  offset: number;
  timestampMs: number;
  /** As UTF-8 text. */
  key: string | null;
  value: string | null;
  keyBytes: Buffer | null;
  valueBytes: Buffer | null;
  headers: Record<string, string | null>;
}

/** The cluster refused an operation. */
export declare class KafkaRefused extends Error {
  /** The status of HTTP: 400 cannot be, 404 is not there, 409 refused, 503 not now. */
  status: number;
}

/** A running cluster. */
export declare class Kafka {
  private constructor();
  /** The addresses of the brokers, with commas between. */
  readonly bootstrap: string;
  readonly brokers: string[];
  /** The page that shows what waits, and the HTTP API. */
  readonly adminUrl: string;
  /** The schema registry; null without the argument `--registry`. */
  readonly schemaRegistryUrl: string | null;
  /** All that can be done to the cluster: `kafka.operations.killBroker({ id: 2 })`. */
  readonly operations: Operations;

  /** Settings of kafkajs with which a client needs milliseconds where others need seconds. */
  kafkajs(more?: Record<string, unknown>): { clientId: string; brokers: string[] } & Record<string, any>;
  /** Settings of a consumer of kafkajs: it polls often, as it ends only when its last poll has ended. */
  kafkajsConsumer(groupId: string, more?: Record<string, unknown>): { groupId: string } & Record<string, any>;
  /** Settings of a client over librdkafka. */
  librdkafka(role?: "consumer" | "producer"): Record<string, any>;
  /** Create a topic; resolves with its name when it can be written to. */
  topic(
    name: string,
    options?: { partitions?: number; replicas?: number; configs?: Record<string, string | number | boolean> },
  ): Promise<string>;
  /** Append records with acks=all, without a client. */
  produce(topic: string, ...records: (string | Uint8Array | null | NewRecord)[]): Promise<{ partition: number; offset: number }[]>;
  /** The committed records of a topic, by partition and offset, without a client. */
  records(
    topic: string,
    options?: { partition?: number; isolationLevel?: "read_uncommitted" | "read_committed" },
  ): Promise<KafkaRecord[]>;
  /** What waits in the cluster, and why, as text. */
  report(): Promise<string>;
  /** Make the cluster as it was at its start, in milliseconds; clients that live on connect again. */
  reset(): Promise<void>;
  /** End the cluster; resolves when its process is gone. */
  stop(): Promise<void>;
}

/** Start a cluster; resolves when clients can connect. */
export declare function startKafka(options?: KafkaOptions): Promise<Kafka>;
