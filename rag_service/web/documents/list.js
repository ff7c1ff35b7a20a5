// The documents of a collection, with a field that filters them.

import { button, confirmButton, el } from "../dom.js";
import { count, t } from "../language.js";

const SHOWN = 200; // of those that match; more would make the dialog slow

export class DocumentList {
  /** @param acts {open(document), replace(document, file), remove(document)} */
  constructor(acts) {
    this._acts = acts;
    this._all = [];
    this._filter = el("input", { type: "search", id: "document-filter", autocomplete: "off", spellcheck: "false",
      placeholder: t("Filter by title or file name"), oninput: () => this._draw() });
    this._search = el("div", { class: "filter", hidden: true },
      el("label", { class: "unseen", for: "document-filter", text: t("Filter the documents") }), this._filter);
    this._list = el("ul", { class: "document-list", "aria-label": t("Documents in this collection") });
    this._file = el("input", { type: "file", hidden: true, "aria-hidden": "true", tabindex: "-1" });
    this._file.addEventListener("change", () => {
      if (this._file.files.length) this._acts.replace(this._replaced, this._file.files[0]);
      this._file.value = "";
    });
    this.element = el("div", {}, this._search, this._list, this._file);
  }

  /** Shows documents; none for a collection that is not chosen. @param chosen whether one is. */
  show(documents, chosen = true) {
    this._all = documents;
    this._chosen = chosen;
    this._search.hidden = documents.length < 6;
    if (this._search.hidden) this._filter.value = "";
    this._draw();
  }

  _draw() {
    const words = this._filter.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    const matching = this._all.filter((one) => {
      const names = `${one.title}\n${one.name}`.toLocaleLowerCase();
      return words.every((word) => names.includes(word));
    });
    this._list.replaceChildren(...matching.slice(0, SHOWN).map((one) => this._item(one)));
    const hint = !this._chosen ? null
      : !this._all.length ? t("There are no documents yet.")
      : !matching.length ? t("No document has these words in its title or name.")
      : matching.length > SHOWN ? t("{documents} more match; filter for fewer.",
        { documents: count(matching.length - SHOWN, "{n} document", "{n} documents") }) : null;
    if (hint) this._list.append(el("li", { class: "hint", text: hint }));
  }

  _item(one) {
    return el("li", {},
      el("div", {},
        button(one.title, () => this._acts.open(one), { class: "link document-title", "aria-label": t("Read {title}", one) }),
        el("span", { class: "place", text: `${one.name !== one.title ? `${one.name} · ` : ""}${count(one.chunks, "{n} passage", "{n} passages")}` })),
      el("div", { class: "item-tools writes" },
        button(t("Replace"), () => {
          this._replaced = one;
          this._file.click();
        }, { class: "quiet", "aria-label": t("Replace {title}", one) }),
        confirmButton(t("Remove"), t("Remove for good?"), () => this._acts.remove(one),
          { class: "quiet", "aria-label": t("Remove {title}", one) })));
  }
}
