// Files that are dropped anywhere on the page or its dialogs, and the sign that they can be.

import { el } from "../dom.js";
import { t } from "../language.js";

/** @param target returns the name of the collection that files go into. @param take is called with them. */
export function acceptDrops(target, take) {
  const words = el("p", {});
  const sign = el("div", { class: "drop-sign", role: "status", popover: "manual" }, words); // above an open dialog
  document.body.append(sign);
  const hide = () => sign.matches(":popover-open") && sign.hidePopover();
  document.body.addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    if (document.documentElement.dataset.role === "reader" || sign.matches(":popover-open")) return;
    words.textContent = t("Drop the files to add them to “{name}”", { name: target() });
    sign.showPopover();
  });
  document.body.addEventListener("dragleave", (event) => event.relatedTarget === null && hide()); // out of the window
  document.body.addEventListener("drop", (event) => {
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    hide();
    if (document.documentElement.dataset.role !== "reader") take([...event.dataTransfer.files]);
  });
}
