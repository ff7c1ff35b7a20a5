// The page: its parts, put together.

import { asProblem, onMissingKey } from "./api.js";
import { Collections } from "./documents/collections.js";
import { Conversation } from "./conversation/conversation.js";
import { Documents } from "./documents/documents.js";
import { byId, problemBox } from "./dom.js";
import { History } from "./conversation/history.js";
import { askForKey, keyFromAddress } from "./key.js";
import { said, t, translate } from "./language.js";
import { Account } from "./people/account.js";
import { Sources } from "./answer/sources.js";
import { Starters } from "./conversation/starters.js";
import { Theme } from "./theme.js";

const question = byId("question");
const askButton = byId("ask");
const banner = byId("banner");

onMissingKey(askForKey);
const starters = new Starters(byId("starters"), (text) => conversation.ask(text));
const sources = new Sources();
const collections = new Collections(refresh);
const conversation = new Conversation(sources, collections, refresh);
const documents = new Documents(collections, () => conversation.reload(), () => conversation.refresh());
const conversations = new History(conversation);
const account = new Account();

function refresh() {
  const running = conversation?.running;
  byId("welcome").hidden = !conversation.empty || Boolean(conversation.session);
  byId("export").hidden = conversation.empty;
  byId("no-documents").hidden = !collections.haveNoDocuments;
  if (!byId("welcome").hidden) starters.show(collections.all.find(({ name }) => name === collections.name) ?? null);
  askButton.textContent = running ? t("Stop") : t("Ask");
  askButton.classList.toggle("stop", Boolean(running));
  askButton.disabled = Boolean(running) && !running.cancellable;
  question.placeholder = conversation.empty ? t("Ask a question") : t("Ask a follow-up");
}

function fit() {
  question.style.height = "auto";
  question.style.height = `${Math.min(question.scrollHeight, 200)}px`;
}

function ask() {
  const text = question.value.trim();
  if (!text || conversation.running) return;
  question.value = "";
  fit();
  conversation.ask(text);
}

question.addEventListener("input", fit);
question.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    ask();
  }
});
byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  if (conversation.running) conversation.running.cancel();
  else ask();
});
byId("open-documents").addEventListener("click", () => documents.open());
byId("add-first").addEventListener("click", () => documents.open());
byId("export").addEventListener("click", () => conversation.export());
byId("open-history").addEventListener("click", () => conversations.open());
byId("new-conversation").addEventListener("click", () => {
  conversation.clear();
  question.focus();
});
addEventListener("hashchange", async () => (await keyFromAddress() ? start() : conversation.restore()));
addEventListener("popstate", () => conversation.restore());

async function start() {
  try {
    await collections.load();
    banner.hidden = true;
    await account.load();
    await conversation.restore();
  } catch (error) {
    banner.replaceChildren(problemBox(asProblem(error), start));
    banner.hidden = false;
  }
}

/** Names the model below the question, and says if it is a toy. */
function showModel(model) {
  if (!model) return;
  const line = byId("model");
  line.textContent = t("Model: {name}", { name: model.toy ? `${model.name}, ${t(model.note)}` : model.name });
  line.classList.toggle("toy", model.toy);
  line.hidden = false;
}

/** Shows a banner until the service can answer questions. */
async function watchReadiness() {
  for (;;) {
    const response = await fetch("readyz", { cache: "no-store" }).catch(() => null);
    const body = await response?.json().catch(() => null);
    if (response?.ok) {
      showModel(body?.model);
      break;
    }
    if (body?.detail) {
      banner.textContent = said(body.detail);
      banner.hidden = false;
    }
    await new Promise((resolve) => setTimeout(resolve, 3000));
  }
  if (!banner.querySelector(".problem")) banner.hidden = true;
}

translate(document);
new Theme(byId("theme"));
keyFromAddress().then(start);
watchReadiness();
