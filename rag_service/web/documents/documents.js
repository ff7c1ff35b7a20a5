// The documents dialog: lists, adds and removes documents, and creates collections.

import { asProblem, documentPath, json, part } from "../api.js";
import { announce, confirmButton, count, el, problemBox, sheet } from "../dom.js";
import { ingest } from "./upload.js";

const FORMATS = ".md,.markdown,.txt,.text,.html,.htm,.xhtml,.pdf,.docx,.pptx,.xlsx,.odt,.epub,.csv,.tsv,.json,.jsonl,.ndjson,.ipynb,.eml,.rst,.adoc,.asciidoc";
const NAME = "[A-Za-z0-9][A-Za-z0-9_\\-]{0,63}";

export class Documents {
  constructor(collections) {
    this._collections = collections;
    this._place = el("p", { class: "place" });
    this._files = el("input", { type: "file", id: "files", multiple: true, accept: FORMATS, class: "unseen" });
    this._files.addEventListener("change", () => {
      this.upload([...this._files.files]);
      this._files.value = "";
    });
    this._drop = el("label", { class: "drop", for: "files" },
      el("span", { class: "drop-lead", text: "Choose files" }), el("span", { text: " or drop them here" }),
      el("span", { class: "place", text: "Markdown, HTML, PDF and text" }));
    this._progress = el("div", { class: "uploads" });
    this._list = el("ul", { class: "document-list", "aria-label": "Documents in this collection" });
    this._name = el("input", { id: "new-collection", required: true, pattern: NAME, maxlength: "64",
      autocomplete: "off", spellcheck: "false", title: "Letters, digits, - and _; a letter or digit first" });
    this._problem = el("div", {});
    const create = el("form", { class: "row new-collection", onsubmit: (event) => this._create(event) },
      el("label", { for: "new-collection", text: "New collection" }), this._name,
      el("button", { type: "submit", class: "quiet", text: "Create" }));
    this._dialog = sheet("documents", "Documents",
      this._place, this._files, this._drop, this._progress, this._list, create, this._problem);
    this._acceptDrops(this._dialog);
  }

  async open() {
    this._problem.replaceChildren();
    if (!this._dialog.open) this._dialog.showModal();
    await this._show();
  }

  async _show() {
    const name = this._collections.name;
    this._place.textContent = name === null
      ? "No collection is chosen. Files go into the collection “default”." : `In the collection “${name}”`;
    if (name === null) {
      this._list.replaceChildren();
      return;
    }
    try {
      const items = [];
      let next = "";
      do {
        const page = await json("GET", `v1/collections/${part(name)}/documents?limit=200&after=${part(next)}`);
        items.push(...page.documents);
        next = page.next;
      } while (next && items.length < 2000);
      if (name !== this._collections.name) return;
      this._list.replaceChildren(...items.map((one) => this._item(name, one)));
      if (!items.length) this._list.append(el("li", { class: "hint", text: "There are no documents yet." }));
    } catch (error) {
      this._problem.replaceChildren(problemBox(asProblem(error), () => this.open()));
    }
  }

  _item(collection, one) {
    const remove = confirmButton("Remove", "Remove for good?", () => this._remove(collection, one),
      { class: "quiet", "aria-label": `Remove ${one.title}` });
    return el("li", {}, el("div", {}, el("span", { class: "document-title", text: one.title }),
      el("span", { class: "place", text: `${one.name !== one.title ? `${one.name} · ` : ""}${count(one.chunks, "passage")}` })),
    remove);
  }

  async _remove(collection, one) {
    try {
      await json("DELETE", documentPath(collection, one.document_id));
      announce(`${one.title} was removed.`);
      await Promise.all([this._collections.load(), this._show()]);
    } catch (error) {
      this._problem.replaceChildren(problemBox(asProblem(error)));
    }
  }

  async _create(event) {
    event.preventDefault();
    const name = this._name.value.trim();
    if (!name) return;
    try {
      await json("POST", "v1/collections", { body: { name } });
      this._name.value = "";
      this._problem.replaceChildren();
      await this._collections.load();
      this._collections.choose(name);
      announce(`The collection ${name} was created.`);
      await this._show();
    } catch (error) {
      this._problem.replaceChildren(problemBox(asProblem(error)));
    }
  }

  /** Ingests files, in as many requests as their sizes need. */
  async upload(files) {
    if (!files.length) return;
    await this.open();
    const row = el("div", { class: "upload" });
    const label = el("p", { text: `Sending ${count(files.length, "file")}…` });
    const bar = el("progress", { max: "1", value: "0", "aria-label": "Progress of the upload" });
    row.append(label, bar);
    this._progress.prepend(row);
    try {
      const name = await this._target();
      const failures = await ingest(name, files, (text, share) => {
        label.textContent = text;
        bar.value = share;
      });
      const added = files.length - failures.length;
      label.textContent = added ? `${count(added, "document")} added.` : "Nothing was added.";
      announce(label.textContent);
      bar.remove();
      if (failures.length) {
        row.append(el("ul", { class: "failures", role: "alert" },
          ...byReason(failures).map(([reason, names]) => {
            const files = names.length > 1 ? count(names.length, "file") : names[0];
            return el("li", {}, el("strong", { text: files }), ` ${reason}`,
              names.length > 1 && el("p", { text: names.join(", ") }));
          })));
      }
      await Promise.all([this._collections.load(), this._show()]);
    } catch (error) {
      bar.remove();
      label.textContent = "The files were not added.";
      row.append(problemBox(asProblem(error), () => {
        row.remove();
        this.upload(files);
      }));
    }
  }

  /** The collection to add to: the chosen one, else `default`, which is created if needed. */
  async _target() {
    if (this._collections.name !== null) return this._collections.name;
    if (!this._collections.all.some((one) => one.name === "default")) {
      await json("POST", "v1/collections", { body: { name: "default" } });
      await this._collections.load();
    }
    this._collections.choose("default");
    return "default";
  }

  _acceptDrops(element) {
    const over = (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      this._drop.classList.toggle("over", event.type === "dragover");
    };
    for (const target of [element, document.body]) {
      target.addEventListener("dragover", over);
      target.addEventListener("dragleave", over);
    }
    document.body.addEventListener("drop", (event) => {
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      this._drop.classList.remove("over");
      this.upload([...event.dataTransfer.files]);
    });
  }
}

/** Failures as [reason, names of files], in order. */
function byReason(failures) {
  const names = new Map();
  for (const { name, reason } of failures) names.set(reason, [...(names.get(reason) ?? []), name]);
  return [...names];
}
