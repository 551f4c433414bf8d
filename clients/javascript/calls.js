"use strict";
// What the methods of controls.js have in common.

/** Milliseconds: the longest wait, unless a test names another one, and the time between two looks. */
const WAIT_MS = 10_000;
const POLL_MS = 5;

/** Refuse a call without an argument that it needs. */
function needed(name, given) {
  const missing = Object.keys(given).find((each) => given[each] === undefined);
  if (missing !== undefined) throw new TypeError(`${name}(${Object.keys(given).join(", ")}): ${missing} is missing`);
}

/** What was given of these names, as operations write them; others are refused. */
function named(given, names) {
  const found = {};
  for (const [name, value] of Object.entries(given ?? {})) {
    const written = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    if (!names.includes(written)) throw new TypeError(`there is no ${name}; there is ${names.join(", ") || "nothing"}`);
    found[written] = value;
  }
  return found;
}

/** What an operation answers; null if it is refused, for it cannot be done now, or to what is not there. */
async function unlessRefused(asked) {
  try {
    return await asked;
  } catch (error) {
    if (error.name === "KafkaRefused" && error.status !== 400) return null;
    throw error;
  }
}

/** Look again and again; resolves with the first result that there is. */
async function until(name, given, timeoutMs = WAIT_MS, look) {
  const giveUp = performance.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (performance.now() > giveUp) {
      const words = given.filter((each) => each !== undefined).map((each) => JSON.stringify(each));
      throw new Error(`still waiting after ${timeoutMs / 1000} s: ${name}(${words.join(", ")})`);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** The row of a fault rule, with its counts. */
function counts(rows, id) {
  const row = rows.find((each) => each.id === id);
  if (row === undefined) throw new Error(`there is no fault rule ${id}, or no longer`);
  return row;
}

module.exports = { needed, named, unlessRefused, until, counts };
