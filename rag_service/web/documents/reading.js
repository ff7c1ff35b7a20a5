// A document to read in a dialog, and its file: to download, or to open at a page.

import { asProblem, documentPath, json, open } from "../api.js";
import { save } from "../answer/export.js";
import { textOf } from "../answer/source_text.js";
import { button, el, problemBox, sheet } from "../dom.js";
import { t, when } from "../language.js";

export class Reading {
  constructor() {
    this._title = el("h3", {});
    this._place = el("p", { class: "place" });
    this._tools = el("div", { class: "row" });
    this._body = el("div", { class: "reading", tabindex: "0", role: "region", "aria-label": t("Text of the document") });
    this._dialog = sheet("reading", t("Document"), this._title, this._place, this._tools, this._body);
  }

  /** Shows a document's text. @param one of the list of documents. */
  async open(collection, one) {
    this._title.textContent = one.title;
    this._place.textContent = [one.name !== one.title ? one.name : null,
      t("changed {when}", { when: when(one.updated) }),
    ].filter(Boolean).join(" · ");
    const download = button(t("Download the file"), async () => {
      try {
        save(one.name.split("/").at(-1) || one.document_id, await original(collection, one.document_id));
      } catch (error) {
        this._tools.replaceChildren(problemBox(asProblem(error)));
      }
    }, { class: "quiet of-original" });
    this._tools.replaceChildren(download);
    this._body.replaceChildren(el("p", { class: "working", text: t("Opening the document…") }));
    if (!this._dialog.open) this._dialog.showModal();
    try {
      const content = await json("GET", documentPath(collection, one.document_id));
      this._body.replaceChildren(textOf(one, content.text, ""));
      this._body.scrollTop = 0;
    } catch (error) {
      this._body.replaceChildren(problemBox(asProblem(error), () => this.open(collection, one)));
    }
  }
}

/** The file that a document was uploaded as. Raises Problem `no_original` if it is not kept. */
export async function original(collection, documentId) {
  return (await open("GET", `${documentPath(collection, documentId)}/original`)).blob();
}
