// Links between the parts of the page: what an operation waits for leads to the broker, partition, group … that it names.

import { make, reconcile, setText } from "./dom.js";

const MOST = 6; // links of one operation
const PLACES = { // fields of causes, by the kind of thing that they name, and how the link says it
  broker_id: ["broker", (id) => `broker ${id}`],
  follower_id: ["broker", (id) => `broker ${id}`],
  leader_id: ["broker", (id) => `broker ${id}`],
  tp: ["partition", (name) => name],
  of: ["partition", (name) => name],
  partitions: ["partition", (name) => name],
  transactional_id: ["transaction", (id) => `transaction ${id}`],
  group_id: ["group", (id) => `group ${id}`],
  fault_id: ["fault", (id) => `fault rule ${id}`],
  held_by: ["fault", (id) => `fault rule ${id}`],
};

/** The id of the element that shows a thing, such as a broker; parts of its name may hold any characters. */
export function placeOf(kind, ...names) {
  return [kind, ...names.map((name) => encodeURIComponent(name))].join("-");
}

/** The things that causes name, each once: `{place, text}`. */
export function namedIn(causes) {
  const found = new Map();
  for (const cause of causes) collect(cause, cause.group_id, found);
  return [...found].map(([place, text]) => ({ place, text }));
}

function collect(value, group, found) {
  if (Array.isArray(value)) value.forEach((each) => collect(each, group, found));
  if (value === null || typeof value !== "object" || Array.isArray(value)) return;
  if (value.member_id && group) found.set(placeOf("member", group, value.member_id), `member ${value.name ?? value.member_id}`);
  for (const [field, inner] of Object.entries(value)) {
    const known = PLACES[field];
    if (known === undefined) collect(inner, group, found);
    else for (const name of [inner].flat()) if (name !== null && name !== "") found.set(placeOf(known[0], name), known[1](name));
  }
}

/** A line of links; those to what the page does not show are left out, and that to where the line itself is. */
export class Links {
  constructor() {
    this.element = make("div", "links", [], { role: "group", "aria-label": "What it waits for" });
  }

  update(causes, here = "") {
    const shown = namedIn(causes).filter(({ place }) => place !== here && document.getElementById(place) !== null).slice(0, MOST);
    this.element.hidden = shown.length === 0;
    reconcile(this.element, shown, ({ place }) => place, ({ place }) => {
      const element = make("a", "", [], { href: `#${place}` });
      return { element, update: ({ text }) => setText(element, text) };
    });
  }
}
