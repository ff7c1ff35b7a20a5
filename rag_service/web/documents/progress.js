// An upload in the documents dialog: how far it is, and the state of each file.

import { asProblem } from "../api.js";
import { announce, el, problemBox } from "../dom.js";
import { count, t } from "../language.js";
import { ingest } from "./upload.js";

const STATES = { waiting: "waiting", sending: "sending", reading: "reading", added: "added", refused: "refused" };

export class UploadProgress {
  /** @param files to add, in order. @param again called with the files that are left, to try again. */
  constructor(files, again) {
    this._again = again;
    this._label = el("p", { text: t("Adding {files}…", { files: count(files.length, "{n} file", "{n} files") }) });
    this._bar = el("progress", { max: "1", value: "0", "aria-label": t("Progress of the upload") });
    this._files = files.map((file) => ({ file, state: "waiting", element: el("li", {}) }));
    this._list = el("ul", { class: "upload-files", tabindex: "0", "aria-label": t("Files of this upload") },
      ...this._files.map(({ element }) => element));
    this._files.forEach((one) => this._draw(one));
    this.element = el("div", { class: "upload" }, this._label, this._bar, this._list);
  }

  /** Adds the files. @param target resolves to the name of the collection. Returns the names of those added, once it ended. */
  async run(target) {
    let problem = null;
    try {
      await ingest(await target, this._files.map(({ file }) => file), (number, state, reason) => {
        const one = this._files[number];
        Object.assign(one, { state, reason });
        this._draw(one);
        if (state === "reading") this._list.scrollTop = one.element.offsetTop - this._list.offsetTop;
      }, (share) => { this._bar.value = share; });
    } catch (error) {
      problem = asProblem(error);
    }
    this._end(problem);
    return this._files.filter(({ state }) => state === "added").map(({ file }) => file.name);
  }

  _end(problem) {
    const [added, refused] = ["added", "refused"].map((state) => this._files.filter((one) => one.state === state));
    this._label.textContent = [
      added.length ? t("{documents} added.", { documents: count(added.length, "{n} document", "{n} documents") })
        : problem ? t("The files were not added.") : t("Nothing was added."),
      refused.length ? t("{files} refused.", { files: count(refused.length, "{n} file", "{n} files") }) : null,
    ].filter(Boolean).join(" ");
    announce(this._label.textContent);
    this._bar.remove();
    this._list.prepend(...refused.map(({ element }) => element)); // where they are seen
    this._list.scrollTop = 0;
    if (!problem) return;
    const left = this._files.filter((one) => !added.includes(one) && !refused.includes(one));
    for (const one of left) {
      one.state = "waiting";
      this._draw(one);
    }
    this.element.append(problemBox(problem, () => {
      this.element.remove();
      this._again(left.map(({ file }) => file));
    }));
  }

  _draw({ file, state, reason, element }) {
    element.dataset.state = state;
    element.replaceChildren(el("span", { class: "upload-name", text: file.name }),
      el("span", { class: "upload-state", text: t(STATES[state]) }),
      ...(reason ? [el("span", { class: "upload-reason", text: reason })] : []));
  }
}
