// Who is signed in, the way out and, for admins, the keys of the tenant.

import { asProblem, json } from "../api.js";
import { button, byId, el, problemBox, sheet } from "../dom.js";
import { t } from "../language.js";
import { Keys, roleName } from "./keys.js";

export class Account {
  constructor() {
    this._opener = byId("open-account");
    this._name = el("p", {});
    this._rights = el("p", { class: "place" });
    this._trouble = el("div", {});
    this._keys = new Keys();
    this._atProvider = button("", () => this._signOut("sign-in/oidc/sign-out"), { class: "outlined" });
    this._dialog = sheet("account", t("Account"), this._name, this._rights,
      el("div", { class: "row ways-out" }, button(t("Sign out"), () => this._signOut(), { class: "outlined" }), this._atProvider),
      this._trouble, this._keys.element);
    this._opener.addEventListener("click", () => this._open());
    this._dialog.addEventListener("close", () => this._keys.forget());
  }

  /** Reads who is signed in. Without a key, where the service needs none, nobody is. */
  async load() {
    this._who = await json("GET", "v1/sign-in");
    this._opener.hidden = !this._who.key;
    document.documentElement.dataset.role = this._who.role; // what readers may not do is not offered to them
    document.documentElement.dataset.originals = this._who.keeps_originals;
  }

  async _open() {
    const { tenant, person, role, collections, key_name: keyName, provider } = this._who;
    this._name.textContent = provider ? t("You are {name}, signed in with {provider}.", { name: keyName, provider })
      : person ? t("You are {person}, signed in with the key “{key}”.", { person, key: keyName })
      : keyName ? t("You are signed in with the key “{key}”.", { key: keyName })
        : t("You are signed in with this service's own key.");
    this._rights.textContent = [t("Tenant {tenant}", { tenant }), roleName(role),
      collections ? collections.join(", ") : t("all collections")].join(" · ");
    this._atProvider.hidden = !provider;
    this._atProvider.textContent = t("Sign out here and at {provider}", { provider });
    this._trouble.replaceChildren();
    this._keys.element.hidden = role !== "admin";
    this._dialog.showModal();
    if (role === "admin") await this._keys.show(this._who.key);
  }

  /** Signs out here, then goes to an address, or shows the page again. */
  async _signOut(next) {
    try {
      await json("DELETE", "v1/sign-in");
      history.replaceState(null, "", location.pathname + location.search); // whose conversation it named
      if (next) location.assign(next);
      else location.reload();
    } catch (error) {
      this._trouble.replaceChildren(problemBox(asProblem(error), () => this._signOut(next)));
    }
  }
}
