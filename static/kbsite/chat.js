// The chat page: asks without leaving the page, opens sources beside the answer, knows the keyboard.
// All HTML comes from the server, rendered and cleaned there; without this script the same forms and links work.

const chat = document.querySelector("[data-chat]");
const thread = chat.querySelector("[data-thread]");
const dock = chat.querySelector("[data-dock]");
const status = document.querySelector("[data-status]");
const drawer = document.querySelector("[data-drawer]");
const say = (text) => { status.textContent = text; };
const FETCHED = { "X-Requested-With": "fetch" };

// ---- Asking ---------------------------------------------------------------------------------------------------
let running = null;

const composers = () => [...chat.querySelectorAll(".k-composer")];
const field = () => composers().map((form) => form.elements.message).find((area) => area.offsetParent) ?? null;

function setRunning(controller) {
  running = controller;
  for (const form of composers()) {
    form.querySelector("[data-send]").hidden = Boolean(controller);
    form.querySelector("[data-stop]").hidden = !controller;
  }
}

function showThread(question) {
  chat.querySelector("[data-empty]")?.remove();
  thread.hidden = dock.hidden = false;
  if (thread.querySelector("h1")) return;
  const heading = Object.assign(document.createElement("h1"), { className: "k-vh", textContent: question });
  thread.prepend(heading);
}

function addPending(question) {
  const turn = document.querySelector("[data-pending]").content.cloneNode(true).firstElementChild;
  turn.querySelector(".k-ask").textContent = question;
  thread.append(turn);
  turn.scrollIntoView({ block: "start" });
  return turn;
}

function settle(turn, tone, text, question) {
  turn.removeAttribute("aria-busy");
  turn.querySelector(".k-working")?.remove();
  const banner = document.querySelector("[data-error]").content.cloneNode(true).firstElementChild;
  banner.dataset.tone = tone;
  banner.querySelector("div").textContent = text;
  banner.querySelector("[data-retry]").addEventListener("click", () => { turn.remove(); ask(question); });
  turn.append(banner);
  field()?.focus();
}

async function send(question, controller) {
  const body = new FormData();
  body.set("csrfmiddlewaretoken", dock.querySelector("[name=csrfmiddlewaretoken]").value);
  body.set("message", question);
  const session = dock.querySelector("[name=session_id]");
  if (session) body.set("session_id", session.value);
  const answer = await fetch(dock.querySelector("form").action, {
    method: "POST", body, headers: FETCHED, signal: controller.signal,
  });
  // A session that ran out ends at the sign-in page: go there.
  if (answer.redirected) { location.reload(); return new Promise(() => {}); }
  const isJson = answer.headers.get("Content-Type")?.includes("json");
  return { ok: answer.ok && isJson, data: isJson ? await answer.json() : {} };
}

async function ask(question) {
  if (running) return;
  showThread(question);
  const controller = new AbortController();
  const turn = addPending(question);
  setRunning(controller);
  say(chat.dataset.working);
  try {
    const { ok, data } = await send(question, controller);
    if (ok) place(turn, data);
    else { settle(turn, "red", data.detail ?? chat.dataset.failed, question); say(""); }
  } catch (error) {
    const stopped = error.name === "AbortError";
    settle(turn, stopped ? "ochre" : "red", stopped ? chat.dataset.stopped : chat.dataset.gone, question);
    say("");
  } finally {
    setRunning(null);
  }
}

function place(turn, data) {
  turn.outerHTML = data.turn;
  const placed = thread.lastElementChild;
  document.querySelector("[data-history]").innerHTML = data.side;
  for (const form of composers()) {
    if (form.elements.session_id) continue;
    const kept = Object.assign(document.createElement("input"), {
      type: "hidden", name: "session_id", value: data.session_id,
    });
    form.prepend(kept);
  }
  if (location.pathname !== data.url) {
    history.replaceState(null, "", data.url);
    document.title = `${data.title} · kbsite`;
  }
  placed.scrollIntoView({ block: "start" });
  say(data.said);
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-ask]");
  if (!form) return;
  event.preventDefault();
  const question = form.elements.message.value.trim();
  if (!question || running) return;
  if (form.elements.message.type !== "hidden") form.elements.message.value = "";
  ask(question).then(() => field()?.focus({ preventScroll: true }));
});

// ---- Sources --------------------------------------------------------------------------------------------------
let opener = null;

function markCurrent(url) {
  for (const link of thread.querySelectorAll(".k-source, .k-cite")) {
    const current = url !== null && link.href === url;
    if (link.matches(".k-cite")) link.setAttribute("aria-expanded", String(current));
    else if (current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

async function openSource(link) {
  const url = link.href;
  let answer;
  try {
    answer = await fetch(url, { headers: FETCHED });
  } catch {
    location.assign(url);
    return;
  }
  if (!answer.ok || answer.redirected) { location.assign(url); return; }
  if (!drawer.contains(link)) opener = link;
  drawer.innerHTML = await answer.text();
  if (!drawer.open) drawer.show();
  markCurrent(url);
  drawer.querySelector("[data-close]").focus();
  drawer.querySelector("mark")?.scrollIntoView({ block: "center" });
}

function closeDrawer() {
  drawer.close();
  markCurrent(null);
  opener?.focus();
  opener = null;
}

document.addEventListener("click", (event) => {
  const cite = event.target.closest("a[data-cite]");
  if (cite && !event.metaKey && !event.ctrlKey && !event.shiftKey) {
    event.preventDefault();
    openSource(cite);
  } else if (event.target.closest("[data-close]")) {
    closeDrawer();
  } else if (event.target.closest("[data-stop]")) {
    running?.abort();
  } else if (event.target.closest("[data-copy]")) {
    copy(event.target.closest("[data-copy]"));
  } else if (event.target.closest("[data-sample]")) {
    event.preventDefault();
    ask(event.target.closest("[data-sample]").dataset.sample).then(() => field()?.focus({ preventScroll: true }));
  }
});

// ---- Copying --------------------------------------------------------------------------------------------------
async function copy(button) {
  const answer = button.closest("[data-turn]").querySelector("[data-answer]");
  const text = answer.innerText.trim();
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // No clipboard outside a secure context: the selection does it.
    getSelection().selectAllChildren(answer);
    document.execCommand("copy");
    getSelection().removeAllRanges();
  }
  say(chat.dataset.copied);
  const use = button.querySelector("use");
  const before = use.getAttribute("href");
  use.setAttribute("href", before.replace(/#.*/, "#i-check"));
  setTimeout(() => use.setAttribute("href", before), 1600);
}

// ---- Keyboard -------------------------------------------------------------------------------------------------
document.addEventListener("keydown", (event) => {
  const area = event.target.closest?.(".k-composer textarea");
  // keyCode 229: some input methods report their Enter so, without isComposing.
  const composing = event.isComposing || event.keyCode === 229;
  if (area && event.key === "Enter" && !event.shiftKey && !composing) {
    event.preventDefault();
    if (area.value.trim()) area.form.requestSubmit();
  } else if (event.key === "Escape" && !composing) {
    if (drawer.open) closeDrawer();
    else running?.abort();
  } else if (event.key === "/" && !event.target.closest?.("input, textarea, select, [contenteditable]")) {
    event.preventDefault();
    field()?.focus();
  }
});

// A conversation opens at its last turn; an address with a turn's name decides for itself.
if (!location.hash && !thread.hidden) thread.lastElementChild?.scrollIntoView({ block: "start" });
