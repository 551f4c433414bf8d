// Small helpers. Data of the brokers is put on the page as text, never as markup.

/** Make an element: its class, its text or children, its attributes. */
export function make(tag, className = "", content = [], attributes = {}) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...(Array.isArray(content) ? content : [content]));
  return element;
}

/** Give a view elements of the page, by the names under which it knows them. */
export function find(view, ids) {
  for (const [name, id] of Object.entries(ids)) view[name] = document.getElementById(id);
}

/** A view of one line of text, for `reconcile`. */
export function line(textOf) {
  const element = make("li");
  return { element, update: (item) => setText(element, textOf(item)) };
}

/** Set an element's text, touching the page only if it differs. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Bring the children of a list in line with its items, reusing those that are there.
 *
 * @param list the parent; @param items the items to show; @param key names an item for as long as it is shown
 * @param create makes `{element, update(item)}` for a new item
 */
export function reconcile(list, items, key, create) {
  const known = (list.views ??= new Map());
  const wanted = new Set(items.map(key));
  for (const [name, view] of known) { // first: what stays would be moved past it, and begin its animation anew
    if (wanted.has(name)) continue;
    view.element.remove();
    known.delete(name);
  }
  let place = list.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let view = known.get(name);
    if (view === undefined) {
      view = create(item);
      known.set(name, view);
    }
    if (view.element === place) place = place.nextElementSibling;
    else list.insertBefore(view.element, place);
    view.update(item);
  }
}

/** A duration as people say it: 340 ms, 2.3 s, 3 min 20 s. */
export function duration(ms) {
  const whole = Math.max(0, Math.round(ms));
  if (whole < 1000) return `${whole} ms`;
  if (whole < 9950) return `${(whole / 1000).toFixed(1)} s`;
  const seconds = Math.round(whole / 1000);
  return seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** A whole number with thin spaces between thousands. */
export function count(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** "1 wait", "2 waits". */
export function plural(number, one, many) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Tell how many more there are than are shown, or nothing if there are none. */
export function tellMore(element, further, one, many, rest = "") {
  element.hidden = further <= 0;
  setText(element, `and ${plural(further, one, many)} more${rest}`);
}

/** A bar that runs empty towards a deadline; it is urgent below a part of the time. */
export class Countdown {
  constructor(says, urgent = 0.2) {
    Object.assign(this, { says, urgent, fill: make("i", "bar-fill") });
    this.element = make("span", "bar", this.fill, { "aria-hidden": "true" });
  }

  /** Show what is left of a time, in words too; `owner` shows whether it is urgent. */
  update(owner, leftMs, totalMs, text) {
    const part = Math.max(0, Math.min(1, leftMs / Math.max(1, totalMs)));
    this.fill.style.transform = `scaleX(${part.toFixed(4)})`;
    setText(this.says, text);
    owner.classList.toggle("soon", part < this.urgent);
  }
}

/** The keys of an operation, with how many more there are. */
export function keysText(operation) {
  const more = operation.key_count - operation.keys.length;
  return operation.keys.join(", ") + (more > 0 ? ` and ${count(more)} more` : "");
}

/** Fit a canvas to its box and the screen's pixels, and return its context scaled to CSS pixels. */
export function fitCanvas(canvas, width, height) {
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return context;
}

/** Write on a canvas. */
export function write(context, text, x, y, { colour, font = "11px", face = "ui-sans-serif, system-ui, sans-serif", align = "center", base = "middle" }) {
  Object.assign(context, { fillStyle: colour, font: `${font} ${face}`, textAlign: align, textBaseline: base });
  context.fillText(text, x, y);
}

const tooltip = document.getElementById("tooltip");

/** Show lines about what the pointer is at on a canvas, which a click chooses; `linesAt` is called without an event as it leaves. */
export function pointing(canvas, linesAt, choose) {
  canvas.addEventListener("click", choose);
  canvas.addEventListener("pointermove", (event) => showTooltip(event, linesAt(event)));
  canvas.addEventListener("pointerleave", (event) => showTooltip(event, linesAt()));
}

function showTooltip(event, lines) {
  tooltip.hidden = lines.length === 0;
  if (tooltip.hidden) return;
  tooltip.replaceChildren(...lines.map((line) => make("div", "", line)));
  const box = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(8, Math.min(event.clientX + 14, window.innerWidth - box.width - 8))}px`;
  tooltip.style.top = `${Math.max(8, Math.min(event.clientY + 14, window.innerHeight - box.height - 8))}px`;
}
