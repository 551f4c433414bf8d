/// <reference types="node" />
import { Clock, Controls, ShareGroup } from "./controls.js";

export { Clock, type Ended, Fault, type Group, type Member, type Parked, ShareGroup } from "./controls.js";
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
export declare class Kafka extends Controls {
  private constructor();
  /** The addresses of the brokers, with commas between. */
  readonly bootstrap: string;
  readonly brokers: string[];
  /** The page that shows what waits, and the HTTP API. */
  readonly adminUrl: string;
  /** The schema registry; null without the argument `--registry`. */
  readonly schemaRegistryUrl: string | null;
  /** The brokers' time, which a test can move. A client's own timers are out of its reach. */
  readonly clock: Clock;

  /**
   * Settings with which a client of this library needs milliseconds where others need seconds, and gives up in time.
   * A consumer of kafkajs is made with settings of its own: `client.consumer({ groupId, ...settings })`.
   */
  clientConfig(library: "kafkajs" | "confluent", role?: "consumer" | "producer" | "admin"): Record<string, any>;
  /** Settings of kafkajs, and more. */
  kafkajs(more?: Record<string, unknown>): { clientId: string; brokers: string[] } & Record<string, any>;
  /** Settings of a consumer of kafkajs, and more. */
  kafkajsConsumer(groupId: string, more?: Record<string, unknown>): { groupId: string } & Record<string, any>;
  /** A share group, which need not exist yet. */
  shareGroup(id: string): ShareGroup;
  /** The ids of the running brokers. */
  runningBrokers(): Promise<number[]>;
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
  /** End the cluster; resolves when its process is gone. */
  close(): Promise<void>;
}

/** Start a cluster; resolves when clients can connect. */
export declare function startKafka(options?: KafkaOptions): Promise<Kafka>;
