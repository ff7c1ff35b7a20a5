// A field for the name of a collection, which says what a name may be where one is not.

import { el } from "../dom.js";
import { t } from "../language.js";

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]*$/;

/** {input, trouble: what is wrong, show(name), read(): the name, or null if it is none}. The form is `novalidate`. */
export function nameField(id) {
  const trouble = el("p", { id: `${id}-trouble`, class: "field-trouble", "aria-live": "polite" });
  const input = el("input", { id, required: true, maxlength: "64", autocomplete: "off", spellcheck: "false",
    "aria-describedby": trouble.id, oninput: () => tell("") });
  const tell = (text) => {
    trouble.textContent = text;
    input.setAttribute("aria-invalid", String(Boolean(text)));
  };
  return {
    input,
    trouble,
    show(name) {
      input.value = name;
      tell("");
      input.select();
      input.focus();
    },
    read() {
      const name = input.value.trim();
      if (NAME.test(name)) return name;
      tell(t("A name has letters from A to Z, digits, - and _ only, and begins with a letter or a digit."));
      input.focus();
      return null;
    },
  };
}
