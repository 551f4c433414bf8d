// Consumer groups: state, members, what each owns, how long each may be silent, and how far the group is behind.

import { count, Countdown, duration, make, plural, reconcile, setText, tellMore } from "./dom.js";
import { placeOf } from "./links.js";
import { Rows } from "./rows.js";
import { ShareStrip } from "./shares.js";
import { Why } from "./why.js";

const STATES = {
  Empty: "no members; its committed offsets are kept",
  Stable: "every member has its partitions",
  PreparingRebalance: "the members join again",
  CompletingRebalance: "the members wait for the assignment, which one of them makes",
  Assigning: "the coordinator makes a new assignment",
  Reconciling: "the members move to the new assignment",
};
const GONE_MS = 30_000; // how long a card tells of a member that was removed
const TAIL = 6; // characters of a member id
const RUNS = 6; // runs of partitions that are written of one topic

/** Shows the groups. */
export class Groups {
  constructor() {
    const list = document.getElementById("groups");
    this.why = new Why(() => list.querySelector(".group:not([hidden])") !== null);
    this.rows = new Rows(list, ["Group", "State", "Members", "Lag", "Waits for"], cellsOf, (group) => new GroupCard(group));
  }

  update(state) {
    const groups = state.groups ?? [];
    const ended = state.finished.filter((row) => row.outcome === "expired");
    const silent = ended.flatMap((row) => row.causes.filter((cause) => cause.kind === "NoHeartbeat").map((cause) => ({ ...cause, done_ms: row.done_ms })));
    this.rows.update(groups.map((group) => ({ ...shared(group, state.shares ?? []), silent, now: state.now_ms, why: this.why.about(group.id, state.now_ms) })), (group) => group.id);
    this.rows.tell(state.group_count, "group", "groups", ", of which none is in a rebalance if these are not",
      "There is no group yet. The first consumer with a group id makes one.");
  }
}

/** A share group with its share partitions, whose lags make its own. */
function shared(group, all) {
  if (group.type !== "share") return group;
  const names = new Map(group.members.map((member) => [member.member_id, nameOf(member, group.members)]));
  const shares = all.filter((each) => each.group === group.id).map((each) => ({ ...each, names }));
  return { ...group, shares, lag: shares.length ? shares.reduce((sum, { lag }) => sum + (lag ?? 0), 0) : null };
}

function cellsOf(group) {
  return [group.id || "(no name)", group.state, count(group.member_count), lagText(group), group.waits_for];
}

class GroupCard {
  constructor(group) {
    this.state = make("span", "group-state");
    this.lag = make("span", "group-lag");
    this.meta = make("p", "meta");
    this.why = make("p", "group-why");
    this.waits = make("p", "group-waits");
    this.gone = make("p", "group-gone");
    this.names = new Map(); // of members that were shown, by their ids
    this.removed = null;
    this.members = make("ol", "members");
    this.shares = make("ol", "shares");
    this.more = make("p", "more");
    this.element = make("article", "group panel", [
      make("header", "", [this.state, this.lag]),
      this.meta, this.gone, this.why, this.waits, this.members, this.more, this.shares,
    ], { "aria-label": `Group ${group.id}`, id: placeOf("group", group.id) });
  }

  update(group) {
    const moves = group.waits_for !== "" || !["Stable", "Empty"].includes(group.state);
    setText(this.state, group.state);
    this.state.title = STATES[group.state] ?? "";
    this.element.classList.toggle("moves", moves);
    this.element.classList.toggle("empty-group", group.member_count === 0);
    setText(this.lag, lagText(group));
    this.lag.title = "Records between the committed offsets and the high watermarks; of share groups, that are not done with";
    this.lag.classList.toggle("lags", group.lag > 0);
    setText(this.meta, metaText(group));
    this.meta.title = "The generation, or the epoch, is one more with every rebalance. The coordinator is the broker that leads the group's partition of __consumer_offsets";
    setText(this.waits, group.waits_for);
    this.waits.hidden = group.waits_for === "";
    setText(this.why, group.why);
    this.why.hidden = group.why === "";
    const members = group.members.map((member) => ({ ...member, name: nameOf(member, group.members), group: group.id }));
    reconcile(this.members, members, (member) => member.member_id, (member) => new MemberRow(member));
    reconcile(this.shares, group.shares ?? [], ({ topic, partition }) => `${topic}-${partition}`, (share) => new ShareStrip(share));
    this.#tellGone(group);
    tellMore(this.more, group.member_count - group.members.length, "member", "members");
  }

  /** Tell of the member that was removed last because it was silent. */
  #tellGone(group) {
    for (const { group_id: id, member_id: member, done_ms: ms } of group.silent) {
      const name = id === group.id ? this.names.get(member) : undefined;
      if (name === undefined) continue;
      this.names.delete(member);
      this.removed = { name, ms };
    }
    for (const member of group.members) this.names.set(member.member_id, nameOf(member, group.members));
    while (this.names.size > 100) this.names.delete(this.names.keys().next().value);
    if (this.removed !== null && group.now - this.removed.ms > GONE_MS) this.removed = null;
    this.gone.hidden = this.removed === null;
    if (this.removed !== null) {
      setText(this.gone, `${this.removed.name} was silent for too long, and was removed ${duration(Math.max(1000, group.now - this.removed.ms))} ago`);
    }
  }
}

/** The name under which people know a member: of those with one client id, with the end of the member id. */
function nameOf(member, members) {
  if (member.instance_id !== null || !member.client) return member.instance_id ?? member.member_id;
  const alone = members.filter(({ client }) => client === member.client).length < 2;
  return alone ? member.client : `${member.client} …${member.member_id.slice(-TAIL)}`;
}

function lagText(group) {
  if (group.lag === null) return group.offset_count || group.type === "share" ? "" : "nothing committed yet";
  return group.lag === 0 ? "up to date" : `${plural(group.lag, "record", "records")} behind`;
}

function metaText(group) {
  const parts = [plural(group.member_count, "member", "members")];
  if (group.epoch > 0) parts.push(`${group.type === "classic" ? "generation" : "epoch"} ${group.epoch}`);
  if (group.assignor) parts.push(group.assignor);
  parts.push(`${group.type} protocol`, `coordinator broker ${group.coordinator}`);
  return parts.join(" · ");
}

class MemberRow {
  constructor(member) {
    this.owns = make("span", "member-owns");
    this.says = make("span", "member-says");
    this.left = new Countdown(make("span", "member-left"), 0.4);
    this.session = make("span", "member-session", [this.left.element, this.left.says], {
      title: "Its session: each heartbeat fills it up; when it is empty, the member is removed and the others get its partitions",
    });
    this.name = make("span", "member-name", "", {
      title: [`Member id ${member.member_id}`, `client ${member.client || "without a name"}`, member.host].filter(Boolean).join(", "),
    });
    this.element = make("li", "member", [this.name, this.owns, this.session, this.says], { id: placeOf("member", member.group, member.member_id) });
    this.element.places = [this.element.id, ...(member.client ? [placeOf("client", member.client)] : [])];
  }

  update(member) {
    setText(this.name, member.name);
    setText(this.owns, ownsText(member.owned));
    this.owns.title = member.owned === null ? "Only the members know" : "The partitions that it consumes";
    setText(this.says, member.waits_for);
    this.element.classList.toggle("waiting", member.waits_for !== "");
    const { session_left_ms: left, session_timeout_ms: total } = member;
    this.session.hidden = left === null;
    if (left !== null) this.left.update(this.element, left, total, left > 0 ? duration(left) : "over");
  }
}

function ownsText(owned) {
  if (owned === null) return "its own kind of work";
  if (owned.length === 0) return "owns nothing";
  return owned.map(({ topic, partitions, partition_count: all }) => `${topic} ${runsText(partitions, all)}`).join(", ");
}

/** Ascending numbers with runs joined: 0–3, 7. */
function runsText(numbers, all) {
  const runs = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last !== undefined && number === last[1] + 1) last[1] = number;
    else runs.push([number, number]);
  }
  const text = runs.slice(0, RUNS).map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
  return runs.length > RUNS || all > numbers.length ? `${text} … (${count(all)})` : text;
}
