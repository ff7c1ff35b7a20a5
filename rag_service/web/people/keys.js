// The keys of a tenant, for its admins: listed, created, shown once, revoked.

import { asProblem, json, part } from "../api.js";
import { announce, button, confirmButton, el, problemBox } from "../dom.js";
import { region, t, when as timeOf } from "../language.js";

/** What each role may do. */
const ROLES = {
  reader: "Asks and reads",
  editor: "Changes documents, too",
  admin: "Does everything, creates keys too",
};

/** A role as the API calls it, and in the page's language. */
export const roleName = (role) => (t(role) === role ? role : `${role} (${t(role)})`);

export class Keys {
  constructor() {
    this._name = el("input", { id: "key-name", required: true, maxlength: "100", autocomplete: "off",
      placeholder: t("What it is for") });
    this._person = el("input", { id: "key-person", maxlength: "64", autocomplete: "off", spellcheck: "false",
      placeholder: t("From the name") });
    this._role = el("select", { id: "key-role", "aria-describedby": "key-role-about" },
      ...Object.keys(ROLES).map((value) => el("option", { value, text: roleName(value) })));
    const rights = () => t(ROLES[this._role.value]);
    const role = field(t("Role"), this._role, rights());
    this._role.addEventListener("change", () => { role.lastChild.textContent = rights(); });
    this._collections = el("input", { id: "key-collections", autocomplete: "off", spellcheck: "false",
      placeholder: t("All that you see"), "aria-describedby": "key-collections-about" });
    this._created = el("div", { role: "status" });
    this._list = el("ul", { class: "document-list", "aria-label": t("Keys") });
    const form = el("form", { class: "new-key", onsubmit: (event) => {
      event.preventDefault();
      this._create();
    } },
    field(t("Name"), this._name), field(t("Person"), this._person), role,
    field(t("Collections"), this._collections, t("Names with commas between them")),
    el("div", { class: "row" }, el("button", { type: "submit", class: "primary", text: t("Create key") })));
    this.element = el("section", { class: "keys", "aria-labelledby": "keys-title" },
      el("h3", { id: "keys-title", text: t("Keys") }), this._list, form, this._created);
  }

  /** Lists the keys. @param own the id of the one that is signed in, which is not revoked here. */
  async show(own) {
    this._own = own;
    try {
      const { keys } = await json("GET", "v1/keys");
      this._list.replaceChildren(...keys.map((key) => this._item(key)));
      if (!keys.length) this._list.append(el("li", { class: "hint", text: t("There are no keys yet.") }));
    } catch (error) {
      this._list.replaceChildren(el("li", {}, problemBox(asProblem(error), () => this.show(own))));
    }
  }

  /** Takes a key that was created, and the list, off the page. */
  forget() {
    this._created.replaceChildren();
    this._list.replaceChildren(); // else a click on a row of it is lost when the next list comes
  }

  _item(key) {
    const when = new Date(key.created * 1000).toLocaleDateString(region, { dateStyle: "medium" });
    const about = [key.person || t("nobody"), roleName(key.role), key.collections?.join(", ") ?? t("all collections"), when];
    if (key.expires) about.push(t("signed in until {time}", { time: timeOf(key.expires) }));
    return el("li", {}, el("div", {}, el("span", { class: "document-title", text: key.name }),
      el("span", { class: "place", text: about.join(" · ") })),
    key.id === this._own ? el("span", { class: "place", text: t("Your key") })
      : confirmButton(t("Revoke"), t("Revoke for good?"), () => this._revoke(key),
        { class: "quiet", "aria-label": t("Revoke “{name}”", key) }));
  }

  async _create() {
    const collections = this._collections.value.split(",").map((name) => name.trim()).filter(Boolean);
    const body = { name: this._name.value, person: this._person.value.trim() || null, role: this._role.value,
      collections: collections.length ? collections : null };
    try {
      const created = await json("POST", "v1/keys", { body });
      for (const input of [this._name, this._person, this._collections]) input.value = "";
      const shown = this._showOnce(created);
      await this.show(this._own);
      shown.scrollIntoView({ block: "center" }); // it is shown only now
      shown.focus({ preventScroll: true });
      shown.select();
    } catch (error) {
      this._created.replaceChildren(problemBox(asProblem(error)));
    }
  }

  _showOnce({ name, key }) {
    const shown = el("input", { id: "created-key", readonly: true, value: key, spellcheck: "false" });
    const copy = button(t("Copy"), async () => {
      shown.select();
      const done = await navigator.clipboard?.writeText(key).then(() => true, () => false);
      announce(done ? t("Copied.") : t("Could not copy. The key is selected."));
      copy.textContent = done ? t("Copied") : t("Selected");
    }, { class: "quiet" });
    this._created.replaceChildren(
      el("label", { for: "created-key", text: t("The key “{name}”, shown only now", { name }) }),
      el("div", { class: "row new-collection" }, shown, copy));
    return shown;
  }

  async _revoke(key) {
    try {
      await json("DELETE", `v1/keys/${part(key.id)}`);
      announce(t("The key “{name}” was revoked.", key));
      this._created.replaceChildren();
      await this.show(this._own);
    } catch (error) {
      this._list.prepend(el("li", {}, problemBox(asProblem(error))));
    }
  }
}

/** @param about what is said below the field. */
function field(label, input, about = null) {
  return el("div", { class: "key-field" }, el("label", { for: input.id, text: label }), input,
    about && el("p", { id: `${input.id}-about`, class: "place", text: about }));
}
