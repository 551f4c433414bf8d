"use strict";
// The process of a cluster: `purgatorio cluster --print-json --with-parent`, which ends with this process.

const { spawn } = require("node:child_process");
const { existsSync } = require("node:fs");

const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 10_000;
/** What is kept of what the cluster writes to its standard error. */
const MAX_ERROR_CHARS = 10_000;
/** What differs from a broker's own settings in tests: short sessions, and leaders stay where a test puts them. */
const TEST_SETTINGS = {
  "group.min.session.timeout.ms": 1,
  "group.consumer.heartbeat.interval.ms": 100,
  "leader.imbalance.check.interval.ms": 300_000,
};

/** The command as a list of words: an option, the environment variable PURGATORIO, or `purgatorio` on the PATH. */
function commandOf(given) {
  const command = given ?? process.env.PURGATORIO ?? "purgatorio";
  if (Array.isArray(command)) return command;
  return existsSync(command) ? [command] : command.trim().split(/\s+/);
}

function flagsOf({ brokers, topics = {}, settings = {}, args = [] }) {
  const flags = ["cluster", "--port", "0", "--print-json", "--with-parent", "--log-level", "warning"];
  if (brokers !== undefined) flags.push("--brokers", String(brokers));
  for (const [name, partitions] of Object.entries(topics)) flags.push("--seed-topic", `${name}:${partitions}`);
  for (const [name, value] of Object.entries({ ...TEST_SETTINGS, ...settings })) flags.push("--set", `${name}=${value}`);
  return [...flags, ...args];
}

class ClusterProcess {
  /** Start a cluster; resolves when it is ready, with where it is in `told`. */
  static async start(options) {
    const started = new ClusterProcess(options);
    started.told = await started.ready;
    return started;
  }

  constructor(options) {
    const [program, ...words] = commandOf(options.command);
    this.errors = "";
    this.child = spawn(program, [...words, ...flagsOf(options)], { stdio: ["pipe", "pipe", "pipe"] });
    this.child.stderr.setEncoding("utf8").on("data", (text) => {
      this.errors = (this.errors + text).slice(-MAX_ERROR_CHARS);
    });
    this.child.stdin.on("error", () => {}); // it has ended: `ended` tells
    this.ended = new Promise((resolve) => this.child.once("close", resolve));
    this.ready = this.firstLine(program);
  }

  firstLine(program) {
    return new Promise((resolve, reject) => {
      let text = "";
      const fail = (why) => {
        clearTimeout(timer);
        this.child.kill("SIGKILL");
        reject(new Error(`the Kafka cluster did not start: ${why}`));
      };
      const timer = setTimeout(() => fail(`it was not ready within ${START_TIMEOUT_MS / 1000} s\n${this.errors}`), START_TIMEOUT_MS);
      this.child.once("error", (error) => {
        const missing = error.code === "ENOENT";
        fail(missing ? `there is no command ${program}: install it from a clone (pip install PATH), or set PURGATORIO to it` : error.message);
      });
      this.child.once("close", (code) => fail(`it ended with exit code ${code}\n${this.errors}`));
      this.child.stdout.setEncoding("utf8").on("data", (more) => {
        text += more;
        const end = text.indexOf("\n");
        if (end < 0) return;
        clearTimeout(timer);
        this.child.removeAllListeners("error");
        this.child.on("error", () => {});
        this.letGo();
        resolve(JSON.parse(text.slice(0, end)));
      });
    });
  }

  /** How the cluster has ended, if it has, and what it wrote to its standard error. */
  lastWords() {
    const code = this.child.exitCode ?? this.child.signalCode;
    return `${code === null ? "" : `; it ended with ${code}`}${this.errors && `\n${this.errors}`}`;
  }

  /** Do not keep this process alive; when it ends, the cluster's standard input ends, and so does the cluster. */
  letGo() {
    this.child.unref();
    for (const stream of [this.child.stdin, this.child.stdout, this.child.stderr]) stream.unref?.();
  }

  /** End the cluster in order; resolves when its process is gone. */
  async stop() {
    this.child.ref();
    this.child.stdin.end();
    const timer = setTimeout(() => this.child.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await this.ended;
    clearTimeout(timer);
  }
}

module.exports = { ClusterProcess };
