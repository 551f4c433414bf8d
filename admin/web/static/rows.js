// Tables whose lines open: a line for each thing, and its card below once it is opened, which a link to it does.

import { make, reconcile, setText, tellMore } from "./dom.js";

const OPEN_AT_FIRST = 2; // so many things are open, more are lines

/** Shows things as lines of cells. */
export class Rows {
  /**
   * @param list the `ul`; @param heads the names of the columns
   * @param cells makes the texts of a thing, a column each; @param card makes the view of a thing for its card
   */
  constructor(list, heads, cells, card) {
    Object.assign(this, { list, cells, card, heads });
    this.head = make("div", "row row-head", heads.map((name) => make("span", "", name)), { "aria-hidden": "true" });
    list.before(this.head);
  }

  /** Tell how many more there are than are shown, or how the first one comes to be. */
  tell(all = 0, one, many, rest, none) {
    const shown = this.list.childElementCount;
    const more = document.getElementById(`${this.list.id}-more`);
    tellMore(more, all - shown, one, many, rest);
    if (shown > 0) return;
    more.hidden = false;
    setText(more, none);
  }

  update(items, key) {
    this.head.hidden = items.length === 0;
    reconcile(this.list, items, key, (item) => new Row(item, this, items.length <= OPEN_AT_FIRST));
  }
}

class Row {
  constructor(item, table, isOpen) {
    this.table = table;
    this.card = table.card(item);
    this.texts = table.heads.map(() => make("span", "cell"));
    this.line = make("button", "row", this.texts, { type: "button" });
    this.line.addEventListener("click", () => this.#open(this.card.element.hidden));
    this.element = make("li", "thing", [this.line, this.card.element], { id: this.card.element.id });
    this.element.places = [this.element.id];
    this.card.element.removeAttribute("id");
    this.element.addEventListener("open", () => this.#open(true));
    this.#open(isOpen || location.hash === `#${this.element.id}`);
  }

  update(item) {
    this.table.cells(item).forEach((text, column) => {
      setText(this.texts[column], text);
      this.texts[column].title = text;
    });
    this.card.update(item);
  }

  #open(isOpen) {
    this.card.element.hidden = !isOpen;
    this.line.setAttribute("aria-expanded", String(isOpen));
  }
}

window.addEventListener("hashchange", () => {
  const target = document.getElementById(location.hash.slice(1));
  target?.closest(".thing")?.dispatchEvent(new Event("open"));
  target?.scrollIntoView({ block: "nearest" });
});
