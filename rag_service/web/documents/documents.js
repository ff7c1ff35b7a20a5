// The documents dialog: lists, adds, replaces and removes documents, creates, renames and deletes collections.

import { asProblem, documentPath, json, part, Problem } from "../api.js";
import { announce, button, confirmButton, el, problemBox, sheet } from "../dom.js";
import { acceptDrops } from "./drops.js";
import { DocumentList } from "./list.js";
import { nameField } from "./name.js";
import { UploadProgress } from "./progress.js";
import { Reading } from "./reading.js";
import { replace } from "./upload.js";
import { count, t } from "../language.js";

const FORMATS = ".md,.markdown,.txt,.text,.html,.htm,.xhtml,.pdf,.docx,.pptx,.xlsx,.odt,.epub,.csv,.tsv,.json,.jsonl,.ndjson,.ipynb,.eml,.rst,.adoc,.asciidoc";

export class Documents {
  /** @param renamed is called after a collection was renamed. @param changed is called after documents were changed or deleted. */
  constructor(collections, renamed, changed) {
    this._collections = collections;
    this._renamed = renamed;
    this._changed = changed;
    this._place = el("p", { class: "place" });
    this._files = el("input", { type: "file", id: "files", multiple: true, accept: FORMATS, class: "unseen writes" });
    this._files.addEventListener("change", () => {
      this.upload([...this._files.files]);
      this._files.value = "";
    });
    this._drop = el("label", { class: "drop writes", for: "files" },
      el("span", { class: "drop-lead", text: t("Choose files") }), " ", el("span", { text: t("or drop them here") }),
      el("span", { class: "place", text: t("PDF, Word, PowerPoint, Excel, Markdown, HTML, e-mail, EPUB and more; a file that was added here under the same name is replaced") }));
    this._outcome = el("p", { class: "hint", hidden: true });
    this._progress = el("div", { class: "uploads" });
    this._reading = new Reading();
    this._list = new DocumentList({
      open: (one) => this._reading.open(this._collections.name, one),
      replace: (one, file) => this._replace(one, file),
      remove: (one) => this._remove(one),
    });
    this._whole = el("div", { class: "row whole-collection writes" });
    this._name = nameField("new-collection");
    this._problem = el("div", {});
    this._items = [];
    const create = el("form", { class: "row new-collection writes", novalidate: true, onsubmit: (event) => this._create(event) },
      el("label", { for: "new-collection", text: t("New collection") }), this._name.input,
      el("button", { type: "submit", class: "quiet", text: t("Create") }), this._name.trouble);
    this._dialog = sheet("documents", t("Documents"), this._place, this._whole, create, this._problem, this._outcome,
      this._files, this._drop, this._progress, this._list.element);
    acceptDrops(() => this._collections.name ?? "default", (files) => this.upload(files));
  }

  async open() {
    this._problem.replaceChildren();
    this._outcome.hidden = true;
    if (!this._dialog.open) this._dialog.showModal();
    await this._show();
  }

  async _show() {
    const name = this._collections.name;
    this._place.textContent = name === null
      ? t("No collection is chosen. Files go into the collection “default”.") : t("In the collection “{name}”", { name });
    if (name !== this._named) {
      this._whole.replaceChildren();
      this._held = null;
    }
    this._named = name;
    if (name === null) {
      this._items = [];
      this._list.show([], false);
      return;
    }
    try {
      const items = [];
      let next = "";
      do {
        const page = await json("GET", `v1/collections/${part(name)}/documents?limit=200&after=${part(next)}`);
        items.push(...page.documents);
        next = page.next;
      } while (next && items.length < 20000);
      if (name !== this._collections.name) return;
      const held = JSON.stringify([name, items]);
      if (held === this._held) return; // drawn anew, a button that was just pressed would ask nothing
      this._held = held;
      this._items = items;
      this._list.show(items);
      const documents = count(items.length, "{n} document", "{n} documents");
      this._whole.replaceChildren(this._renameButton(name), confirmButton(t("Delete this collection"), t("Delete “{name}” with {documents} for good?", { name, documents }),
        () => this._delete(name), { class: "quiet" }));
    } catch (error) {
      this._tell(error, () => this.open());
    }
  }

  async _remove(one) {
    await this._change(async (name) => {
      await json("DELETE", documentPath(name, one.document_id));
      this._say(t("{title} was removed.", one));
    });
  }

  async _replace(one, file) {
    await this._change(async (name) => {
      this._say(t("Replacing {title}.", one));
      const [failure] = await replace(name, one.document_id, file);
      if (failure) throw new Problem({ title: t("{title} was not replaced", one), detail: failure.reason });
      this._say(t("{title} was replaced.", one));
    });
  }

  async _delete(name) {
    await this._change(async () => {
      await json("DELETE", `v1/collections/${part(name)}`);
      this._say(t("The collection {name} was deleted.", { name }));
    });
  }

  /** A button with a form that takes the place of the whole row until it is cancelled. */
  _renameButton(name) {
    const field = nameField("renamed-collection");
    const form = el("form", { class: "row new-collection", novalidate: true, onsubmit: (event) => this._rename(event, name, field) },
      el("label", { for: "renamed-collection", text: t("New name") }), field.input,
      el("button", { type: "submit", class: "quiet", text: t("Rename") }),
      button(t("Cancel"), () => {
        this._whole.replaceChildren(...buttons);
        pressed.focus();
      }, { class: "quiet" }), field.trouble);
    let buttons = [];
    const pressed = button(t("Rename this collection"), () => {
      buttons = [...this._whole.children];
      this._whole.replaceChildren(form);
      field.show(name);
    }, { class: "quiet" });
    return pressed;
  }

  async _rename(event, name, field) {
    event.preventDefault();
    const renamed = field.read();
    if (!renamed || renamed === name) return;
    try {
      await json("PATCH", `v1/collections/${part(name)}`, { body: { name: renamed } });
      this._problem.replaceChildren();
      await this._collections.load();
      await this._renamed();
      this._collections.choose(renamed);
      this._say(t("The collection {name} is called {renamed} now.", { name, renamed }));
      await this._show();
      this._whole.querySelector("button")?.focus();
    } catch (error) {
      this._tell(error);
    }
  }

  /** Says what is or was done, where it is seen. */
  _say(text) {
    announce(text);
    this._outcome.textContent = text;
    this._outcome.hidden = false;
  }

  /** Does something to the chosen collection and shows it again, or why it could not be done. */
  async _change(act) {
    this._problem.replaceChildren();
    try {
      await act(this._collections.name);
    } catch (error) {
      this._tell(error);
    }
    this._changed();
    await this._collections.load();
    await this._show();
  }

  /** Says why something could not be done, where it is seen. */
  _tell(error, again = null) {
    this._outcome.hidden = true;
    this._problem.replaceChildren(problemBox(asProblem(error), again));
    this._problem.scrollIntoView({ block: "nearest" });
  }

  async _create(event) {
    event.preventDefault();
    const name = this._name.read();
    if (!name) return;
    try {
      await json("POST", "v1/collections", { body: { name } });
      this._name.input.value = "";
      this._problem.replaceChildren();
      await this._collections.load();
      this._collections.choose(name);
      this._say(t("The collection {name} was created.", { name }));
      await this._show();
    } catch (error) {
      this._tell(error);
    }
  }

  /** Adds files, and shows the state of each. */
  async upload(files) {
    if (!files.length) return;
    await this.open();
    const progress = new UploadProgress(files, (left) => this.upload(left));
    this._progress.prepend(progress.element);
    const target = this._target();
    const added = new Set(await progress.run(target));
    if (added.size) this._changed(); // files of a name that was there
    try {
      await this._collections.load();
    } catch (error) {
      this._tell(error);
      return;
    }
    await this._show();
    if (!this._problem.childElementCount && this._named === await target.catch(() => null)) this._tellOfTwins(added);
  }

  /** Says that a file that was added has the name of another document, which a folder's ingest added with its path. */
  _tellOfTwins(names) {
    const [other] = this._items.filter((one) => one.name.includes("/") && names.has(one.name.split("/").at(-1)));
    if (!other) return;
    const name = other.name.split("/").at(-1);
    this._tell(new Problem({ title: t("{name} is also there as {other}", { name, other: other.name }),
      detail: t("Answers may quote either of them. If they are the same document, remove one.") }));
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
}
