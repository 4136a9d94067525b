// Behaviour of pages beyond links and forms: live updates, dialogs, keyboard shortcuts, copying. Elements ask for
// it by data attributes, and listeners are on the document, so that content swapped in by htmx works as well.
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const body = document.body;

// Notices, at most three. Those of success disappear after 5 seconds, those of refusals after 9, and those that offer to
// undo after 10, but not under the pointer or with the focus.
function toast({ text, bad, undo, href, label }) {
  const line = Object.assign(document.createElement("p"), { className: bad ? "toast bad" : "toast" });
  const button = (text, run) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: text });
    button.onclick = () => { line.remove(); run?.(); };
    line.append(button);
    return button;
  };
  line.append(Object.assign(document.createElement("span"), { textContent: text }));
  if (href) line.firstChild.append(" ", Object.assign(document.createElement("a"), { href, textContent: label }));
  if (undo) button("Undo", () => htmx.ajax("POST", undo.action, { values: undo.values, swap: "none" }).then(refresh));
  button("✕").ariaLabel = "Close";
  raiseToasts();
  toasts.append(line);
  if (toasts.children.length > 3) toasts.firstChild.remove();
  const expire = () => { if (line.matches(":hover,:focus-within")) setTimeout(expire, 3000); else line.remove(); };
  setTimeout(expire, undo ? 10000 : bad ? 9000 : 5000);
}
const toasts = $("#toasts");
// retryTimer is set while a refresh is scheduled, backoff milliseconds after the last failure.
let retryTimer = 0, backoff = 3000;
// raiseToasts moves the notices into the topmost modal dialog: what is outside of it is covered and inert. They are shown
// although there are none, as screen readers read what is added to what is shown.
function raiseToasts() {
  const host = $$("dialog:modal").at(-1) ?? body;
  if (toasts.parentNode !== host) host.append(toasts);
  toasts.hidePopover();
  toasts.showPopover();
}
raiseToasts();
document.addEventListener("close", raiseToasts, true);
document.addEventListener("htmx:after:swap", () => { if (!toasts.isConnected) raiseToasts(); });
document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
  const notice = ctx.response?.headers.get("X-Notice");
  if (!notice) return;
  const told = JSON.parse(notice);
  toast(told);
  if (!told.bad) ctx.sourceElement.closest("dialog")?.close();
});
document.addEventListener("htmx:error", (e) => {
  toast({ text: "No answer from the server. Check your connection and try again.", bad: true });
  restoreControl(e);
});
document.addEventListener("htmx:response:error", restoreControl);
// A failed GET, with a 429, a 5xx or no response, is retried as a refresh of the page with exponential backoff.
for (const failed of ["htmx:error", "htmx:response:error"]) document.addEventListener(failed, ({ detail: { ctx } }) => {
  const status = ctx?.response?.status ?? 500;
  if (retryTimer || ctx?.request.method !== "GET" || (status < 500 && status !== 429)) return;
  retryTimer = setTimeout(() => { retryTimer = 0; refresh(); }, backoff);
  backoff = Math.min(2 * backoff, 60000);
});
// A refusal replaces nothing, except with 409, which comes with the page. One without a notice is not from the app, but
// from something in front of it.
document.addEventListener("htmx:before:swap", (e) => {
  const { response: { status = 200, headers } = {}, isWhole } = e.detail.ctx;
  if (status < 400 || status === 409 || isWhole) return;
  e.preventDefault();
  const name = headers.get("X-Signed-In");
  if (name) return askToGoOn(person, JSON.parse(name));
  if (!headers.has("X-Notice")) toast({ text: `Refused with status ${status}. Try again, or reload the page.`, bad: true });
});
// A browser has one session for all its tabs. A tab asks whether to go on once somebody else than it was opened for is
// signed in: when the app refuses a request of its page, or the next page is somebody else's. It forgets whom it was
// opened for on the sign-in page, whose data-person is empty. Others have an id of 36 characters, a space and a name.
function askToGoOn(openedFor, signedIn) {
  for (const el of $$("#other-person bdi")) el.textContent = el.className ? openedFor.slice(37) : signedIn;
  openDialog($("#other-person"));
}
const { person } = body.dataset, openedFor = sessionStorage.person;
if (person && openedFor && openedFor.slice(0, 36) !== person.slice(0, 36)) askToGoOn(openedFor, person.slice(37));
else if (person !== undefined) sessionStorage.person = person;

// restoreControl resets a filter after a failed request, so that it shows what the list shows.
function restoreControl({ detail: { ctx } }) {
  const el = ctx?.sourceElement;
  if (el?.matches("select")) el.value = ([...el.options].find((o) => o.defaultSelected) ?? el.options[0]).value;
}

// A switch that is sent when it changes shows the value in force: a browser ignores the attributes of a control that
// somebody has changed. changing has those whose change is being confirmed or sent.
const changing = new Set(), controls = "input[data-sends]";
function showInForce(el) { el.checked = el.defaultChecked; }
for (const begun of ["htmx:confirm", "htmx:before:request"]) document.addEventListener(begun, ({ detail: { ctx: { sourceElement: el } } }) => {
  if (el.matches(controls)) changing.add(el);
});
document.addEventListener("htmx:finally:request", ({ detail: { ctx: { sourceElement: el } } }) => { if (changing.delete(el)) showInForce(el); });

// After a swap the focus goes to an element with data-focus, if there is one, and first of all to a refused field. If the swap replaced the focused row,
// its new version gets the focus. If the row is gone, or has another subject, as its data-row tells, the row now in its
// place gets it after a change of the person's own, and otherwise none: a key must not answer what was not read. Swaps
// overlap, so each stores the row in its own context.
const focusedRow = () => document.activeElement.closest("[data-row]");
const rowsInView = () => $$("main [data-row]").filter((row) => row.checkVisibility()); // not those that are folded away
for (const [moment, isChanging] of [["htmx:before:request", true], ["htmx:finally:request", false]]) document.addEventListener(moment, ({ detail: { ctx } }) => {
  const row = ctx.request.method !== "GET" && ctx.sourceElement.closest("[data-row]");
  if (row) row.isChanging = isChanging;
});
document.addEventListener("htmx:before:swap", ({ detail: { ctx } }) => {
  const row = focusedRow();
  ctx.focused = row && {
    id: row.id, subject: row.dataset.row, index: rowsInView().indexOf(row), isOwn: ctx.request.method !== "GET" || row.isChanging,
  };
  ctx.dialog = $("dialog[open]:has([data-late])");
});
document.addEventListener("htmx:after:swap", ({ detail: { ctx: { focused, dialog } } }) => {
  openOnce();
  if (dialog && !dialog.isConnected && $("textarea", dialog).value) reopenTooLate(dialog);
  const target = $("[data-focus][aria-invalid]") ?? $("[data-focus]");
  for (const el of $$("[data-focus]")) delete el.dataset.focus;
  if (target) return focus(target);
  if (!focused) return;
  const isSame = ({ id, dataset }) => id === focused.id && dataset.row === focused.subject;
  const { activeElement } = document, isOther = activeElement.id === focused.id && activeElement.matches("[data-row]") && !isSame(activeElement);
  if (activeElement !== body && !isOther) return;
  const rows = rowsInView();
  focus(rows.find(isSame) ?? (focused.isOwn && rows[Math.min(focused.index, rows.length - 1)] || $("#main")));
});
function focus(el) {
  if (el.tabIndex < 0) el.tabIndex = -1; // fields keep their place in the order
  el.focus();
}

// What is shown once is in a modal dialog that only its button closes, and leaving the page before is asked about, unless
// its dialog was closed.
function openOnce() {
  const dialog = $("dialog[data-once]:not(:modal)");
  if (!dialog) return;
  dialog.open = false;
  dialog.onclose = openOnce;
  dialog.showModal();
  raiseToasts();
}
openOnce();
addEventListener("beforeunload", (e) => { if ($("[data-once]:not(dialog:not([open]) *)")) e.preventDefault(); });
function closeSaved(dialog) {
  const heading = $("h2", dialog.parentNode);
  dialog.remove();
  raiseToasts();
  focus(heading);
}

// reopenTooLate keeps a dialog whose row has been removed, because somebody else answered, with the text typed
// in it, until it is closed. A dialog that was removed is no longer modal although it is still open.
function reopenTooLate(dialog) {
  dialog.open = false;
  body.append(dialog);
  $("[data-late]", dialog).hidden = false;
  $(".primary", dialog).disabled = true;
  dialog.onclose = () => dialog.remove();
  dialog.showModal();
}

// After a swap: controls show the value in force, notes whose subject has changed are removed, logs follow their
// end, and a search hit in a log is scrolled to.
document.addEventListener("htmx:after:swap", () => {
  backoff = 3000;
  for (const el of $$(controls)) if (!changing.has(el)) showInForce(el);
  for (const el of $$("[data-gone]")) if ($(el.dataset.gone)) el.remove();
  for (const log of $$("[data-follow]")) if (log.dataset.follow !== "off" && !$("[hx-trigger=revealed]", log)) log.scrollTop = log.scrollHeight;
  const hit = $("[data-found]");
  if (hit) { delete hit.dataset.found; hit.scrollIntoView({ block: "center" }); }
  enhance();
});
// A log that is scrolled up stops following its end until it is scrolled down again.
document.addEventListener("scroll", ({ target: el }) => {
  if (el.dataset?.follow !== undefined) el.dataset.follow = el.scrollHeight - el.scrollTop - el.clientHeight > 40 ? "off" : "";
}, true);

// Confirmation. A form or a switch may ask only for one value of a field. The value is taken from the request, as the
// control may show another one by now.
document.addEventListener("htmx:confirm", (e) => {
  const { ctx, issueRequest, dropRequest } = e.detail;
  const el = ctx.sourceElement, { confirmField: field, confirmFor: value } = el.dataset;
  e.preventDefault();
  if (field && ctx.request.body.get(field) !== value) return issueRequest();
  askToConfirm(ctx.confirm, el.dataset).then((yes) => {
    if (yes) { closeMenu(el.closest(openMenus)); return issueRequest(); }
    dropRequest();
    el.focus();
  });
});
// askToConfirm resolves to true if the person says yes. A word has to be typed first, if there is one.
function askToConfirm(title, { confirmText, confirmYes, confirmNo, confirmPlain, confirmWord: word }) {
  const dialog = Object.assign(document.createElement("dialog"), { className: "dialog" });
  dialog.setAttribute("aria-labelledby", "confirm-title");
  dialog.innerHTML = '<h2 id="confirm-title"></h2><p></p><form method="dialog"><div class="buttons"><button type="button" class="button" data-close autofocus></button><button class="button" value="yes"></button></div></form>';
  const [no, yes] = $$("button", dialog);
  $("h2", dialog).textContent = title;
  $("p", dialog).textContent = confirmText;
  no.textContent = confirmNo;
  yes.textContent = confirmYes;
  yes.classList.add(confirmPlain === undefined ? "danger" : "primary");
  if (word) {
    const field = Object.assign(document.createElement("input"), { autocomplete: "off" });
    field.setAttribute("aria-label", "Type " + word);
    yes.disabled = true;
    field.oninput = () => { yes.disabled = field.value !== word; };
    $("form", dialog).prepend(field);
  }
  body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    no.onclick = dialog.oncancel = () => resolve(false); // at once: the next key may be pressed before the dialog has closed
    dialog.onclose = () => { resolve(dialog.returnValue === "yes"); dialog.remove(); };
  });
}

// A form that htmx does not send is not sent again within 10 seconds: of two requests the browser would show only the
// answer to the second one.
document.addEventListener("submit", (e) => {
  const form = e.target;
  if (e.defaultPrevented || form.method !== "post") return;
  if (form.dataset.sent !== undefined) return e.preventDefault();
  form.dataset.sent = "";
  setTimeout(() => delete form.dataset.sent, 10000);
});

// openDialog dispatches "show" before the dialog opens, so that a listener can reset it before anything is typed.
function openDialog(dialog) {
  if (!dialog || dialog.open) return;
  dialog.dispatchEvent(new Event("show"));
  dialog.showModal();
}

// Clicks. Browsers from before 2025 do not know the attributes command and commandfor.
document.addEventListener("click", async (e) => {
  const el = e.target.closest?.("[data-copy],[data-open],[data-close],[data-saved],[data-retry],[data-reload],[data-href],[command]");
  if (!el) return;
  if (el.dataset.copy !== undefined) {
    try {
      await navigator.clipboard.writeText(el.dataset.copy.replace(/^\/w\//, location.origin + "$&"));
      toast({ text: "Copied." });
    } catch { toast({ text: "This browser does not allow copying here. Select the text and copy it.", bad: true }); } // also without https
  } else if (el.dataset.open) { e.preventDefault(); openDialog($("#" + el.dataset.open)); }
  else if (el.hasAttribute("command") && !("commandForElement" in el)) {
    const dialog = $("#" + el.getAttribute("commandfor"));
    if (dialog.open) dialog.close(); else openDialog(dialog);
  }
  else if (el.dataset.close !== undefined) { const dialog = el.closest("dialog"); if (dialog) { e.preventDefault(); dialog.close(); } }
  else if (el.dataset.saved !== undefined) { e.preventDefault(); closeSaved(el.closest("dialog")); }
  else if (el.dataset.retry !== undefined) { port?.postMessage({ retry: true }); refresh(); }
  else if (el.dataset.reload !== undefined) { delete sessionStorage.person; location.reload(); }
  else if (el.dataset.href && !e.target.closest("a,button,input,select,label,summary")) navigate(el.dataset.href);
});

// Menus are details elements. They close on a click elsewhere, on Escape, and when another one opens.
const openMenus = "details:has(> .menu-list)[open]";
// closeMenu closes a menu, if there is one, and gives its button the focus.
function closeMenu(menu) {
  if (!menu) return;
  menu.open = false;
  $("summary", menu).focus();
}
// closeMenus closes the menus that do not contain el, unless el is in a dialog.
function closeMenus(el) {
  if (!el.closest?.("dialog")) for (const menu of $$(openMenus)) if (!menu.contains(el)) menu.open = false;
}
document.addEventListener("click", (e) => closeMenus(e.target));
document.addEventListener("toggle", ({ target: el }) => { if (el.matches(openMenus)) closeMenus(el); }, true);

// The time is that of the server, which tells when it rendered the page; the browser's clock may be wrong. measureAhead
// returns by how many milliseconds it is ahead: 0 if by it the page was rendered between request and first byte, and
// otherwise as if the first byte had arrived at once. origin is the time by the browser's clock when performance.now was 0.
function measureAhead(rendered, origin, { requestStart = 0, responseStart = 0 } = {}) {
  if (origin + requestStart <= rendered && rendered <= origin + responseStart) return 0;
  return origin + responseStart - rendered;
}
const clockAhead = measureAhead(Number(body.dataset.time), Date.now() - performance.now(), performance.getEntriesByType("navigation")[0]);
const now = () => Date.now() - clockAhead;

// Relative times are updated every 10 seconds, durations every second.
const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
function ago(seconds) {
  const ahead = seconds <= -1, s = Math.floor(Math.abs(seconds));
  if (!ahead && s < 5) return "just now";
  if (!ahead && s >= 86400 && s < 172800) return "yesterday";
  const [name, length] = units.find(([, length]) => s >= (ahead && length === 86400 ? 3 * length : length)) ?? units[3];
  const n = Math[ahead ? "round" : "floor"](Math.abs(seconds) / length), text = `${n} ${name}${n === 1 ? "" : "s"}`;
  return ahead ? "in " + text : text + " ago";
}
function updateTimes() {
  for (const el of $$("time[data-ago]")) el.textContent = ago((now() - new Date(el.dateTime)) / 1000);
}
setInterval(updateTimes, 10000);
// duration formats seconds as kit.Duration does, in at most two units.
function duration(s) {
  if (s < 60) return `${s} s`;
  const [large, name, small, rest] = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]].find(([large]) => s >= large);
  const n = Math.floor(s % large / small);
  return `${Math.floor(s / large)} ${name}` + (n ? ` ${n} ${rest}` : "");
}
setInterval(() => {
  for (const el of $$("[data-since],[data-until]")) {
    const { since, until } = el.dataset;
    el.textContent = duration(Math.max(0, Math.floor((since ? now() - new Date(since) : new Date(until) - now()) / 1000)));
  }
}, 1000);

// enhance applies the theme, shows elements that work only with scripts, and hides those for use without.
function enhance() {
  const theme = $(".theme");
  if (theme) document.documentElement.dataset.theme = theme.dataset.themeNow;
  for (const el of $$("[data-copy][hidden]")) el.hidden = false;
  for (const el of $$("[data-no-script]")) el.hidden = true;
}
enhance();

// Live updates. An event triggers the elements that show its noun, by hx-trigger="live-member from:body"; after an
// interruption live-all triggers all of them. position is the sequence number of the newest event received.
let port, stateSince = now(), position = 0;
document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
  if (position) ctx.request.headers["X-Svc-Min-Position"] = String(position);
  if (person) ctx.request.headers["X-Svc-Made-For"] = person.slice(0, 36);
  if (ctx.sourceElement.dataset.here !== undefined && ctx.request.action === location.pathname) ctx.request.action += ctx.search = location.search;
  // A switch sends the value that it shows.
  if (ctx.sourceElement.dataset.sends) ctx.request.body.set(ctx.sourceElement.dataset.sends, String(ctx.sourceElement.checked));
  // Empty parameters are left out, so that addresses stay short.
  if (ctx.request.method === "GET") for (const [name, value] of [...ctx.request.body]) if (!value) ctx.request.body.delete(name);
});
// What polls does not while its dialog is closed, and not after a refusal, which would be told again each time. It is
// checked when a request is sent, as one that waited for the answer to another may have become needless.
document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
  const status = ctx.response?.status ?? 0;
  ctx.sourceElement.isRefused = status >= 400 && status < 500 && status !== 429;
});
document.addEventListener("htmx:before:request", (e) => {
  const { sourceElement, sourceEvent } = e.detail.ctx;
  if (sourceEvent?.type === "every" && (sourceElement.isRefused || sourceElement.closest("dialog:not([open])"))) e.preventDefault();
});
// An update is dropped and requested again if the page's query has changed since, for example by a search: also while the
// answer to that is being shown, before it is in the address.
let sought;
document.addEventListener("htmx:before:swap", (e) => {
  const { ctx } = e.detail;
  if (e.defaultPrevented) return;
  if (ctx.replace) sought = new URL(ctx.request.action, location).search;
  if (ctx.search === undefined || ctx.search === (sought ?? location.search)) return;
  e.preventDefault();
  refresh();
});
document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => { if (ctx.replace) sought = undefined; });
function refresh() { body.dispatchEvent(new Event("live-all")); }
// showState shows the state of the connection, with a banner once it has been stale for 2 seconds. When access
// has ended the page is loaded again, and tells the reason.
function showState(state) {
  const mark = $("#live");
  if (!mark) return;
  if (mark.dataset.state !== state) stateSince = now();
  mark.dataset.state = state;
  $("[data-live-text]", mark).textContent = { live: "Live", stale: "Reconnecting", over: "Ended" }[state] ?? "Connecting";
  const banner = $("#stale");
  if (state === "live") { if (!banner.hidden) { banner.hidden = true; refresh(); } }
  else if (state === "stale") setTimeout(() => {
    if (mark.dataset.state !== "stale") return;
    const time = $("time", banner);
    time.dateTime = time.title = new Date(stateSince).toISOString();
    updateTimes();
    banner.hidden = false;
  }, 2000);
  else if (state === "over") location.reload();
}
// startLiveUpdates connects to the worker. An event triggers both its target and the noun of its kind, which may
// differ: decision.answered has a run as its target.
function startLiveUpdates() {
  const { live: address, seq, worker } = body.dataset;
  if (!address) return;
  port = self.SharedWorker ? new SharedWorker(worker).port : new Worker(worker);
  port.onmessage = ({ data }) => {
    if (data.state) showState(data.state);
    if (data.reset) position = body.dataset.roleSeq = 0;
    if (data.all || data.reset) refresh();
    if (data.event) {
      position = Math.max(position, data.event.seq);
      const { kind, target } = data.event;
      for (const noun of new Set([target, kind.split(".")[0].replaceAll("_", "-"), "any"])) body.dispatchEvent(new CustomEvent("live-" + noun, { detail: data.event }));
    }
  };
  port.postMessage({ join: { address, seq: Number(seq) } });
}
startLiveUpdates();
// When the person's role changes, all of the page is requested and morphed, also if its answer is now a refusal. If it
// contains what was typed, or a secret, it only tells so. Lists may lie behind the role that the page shows, so that
// earlier changes of it are sent too.
body.addEventListener("live-member", ({ detail: { kind, id, seq } }) => {
  if (kind !== "member.role_changed" || id !== body.dataset.member || seq <= Number(body.dataset.roleSeq)) return;
  const isTyped = $$("main :is(input:not([type=search],[type=checkbox],[type=radio]),textarea)").some((el) => el.value !== el.defaultValue);
  if (isTyped || $("dialog:modal,[data-once]")) $("#role-changed").hidden = false;
  else htmx.ajax("GET", location.pathname + location.search, { target: body, swap: "innerMorph", isWhole: true, headers: { "HX-Request": "" } });
});
addEventListener("pagehide", () => port?.postMessage({ leave: true }));
// A page from the back/forward cache is outdated and has left the worker.
addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });

// Keyboard shortcuts. They are ignored in fields and in open dialogs; a dialog that has closed may still contain the
// focus. gPressed is when g was pressed, which together with a second key leads to a page. That key does nothing else,
// also if it leads nowhere, as a key with another meaning might answer a decision.
let gPressed = 0;
document.addEventListener("keydown", (e) => {
  if ((e.metaKey || e.ctrlKey) && e.key.toLowerCase() === "k") { e.preventDefault(); openDialog($("#palette")); return; }
  const menu = e.key === "Escape" && !$("dialog[open]") && $(openMenus);
  if (menu) { closeMenu(menu); return; }
  if (e.metaKey || e.ctrlKey || e.altKey || e.target.closest?.("input,select,textarea,dialog[open]")) return;
  const list = e.target.closest?.("details:has(> .menu-list)"), by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (list && by) {
    e.preventDefault();
    list.open = true;
    const items = $$(".menu-list :is(a, button)", list), index = items.indexOf(document.activeElement);
    items.at(index < 0 ? (by - 1) / 2 : (index + by) % items.length)?.focus();
    return;
  }
  const isSecond = Date.now() - gPressed < 1500 && e.key !== "g" && (e.key.length === 1 || e.key === "Enter");
  if (isSecond) { gPressed = 0; e.preventDefault(); $(`#navigation [data-key="${CSS.escape(e.key)}"]`)?.click(); return; }
  // Space is for the control that has the focus. Browsers do that for a button, but not for a link that is a switch.
  if (e.key === " ") {
    if (e.target.matches("a[role=switch]")) { e.preventDefault(); e.target.click(); return; }
    if (e.target.matches("button,summary")) return;
  }
  // A control in a row responds to its key only while the row has the focus.
  const row = focusedRow();
  const control = $$(`main [data-press="${CSS.escape(e.key.toLowerCase())}"]`).find((el) => [null, row].includes(el.closest("[data-row]")));
  switch (e.key) {
    case "g": gPressed = Date.now(); break;
    case "?": $("#key-search").hidden = !$("main [type=search]"); openDialog($("#keys")); break;
    case "/": { const field = $("main [type=search]"); if (field) { e.preventDefault(); field.focus(); field.select(); } break; }
    case "j": case "k": moveFocus(e.key === "j" ? 1 : -1); break;
    // Enter activates the element that the row marks, or else its first link or summary.
    case "Enter": {
      const el = document.activeElement;
      if (!e.repeat && el.matches("[data-row]")) ($("[data-enter]", el) ?? $("a:not(.more *), summary:not(.more *)", el))?.click();
      break;
    }
    default: if (control) { e.preventDefault(); if (!e.repeat || !control.form) control.click(); }
  }
});
function moveFocus(by) {
  const rows = rowsInView(), index = rows.indexOf(focusedRow());
  const next = rows[Math.min(Math.max(index + by, 0), rows.length - 1)];
  if (next) { focus(next); next.scrollIntoView({ block: "nearest" }); }
}

// The command palette filters the options in the page, and htmx adds those that the service finds.
const palette = $("#palette");
if (palette) {
  const field = $("input", palette), status = $("#palette-status"), found = $("#palette-found");
  const options = () => $$("[role=option]", palette), visible = () => options().filter((li) => !li.hidden);
  const selected = () => visible().find((li) => li.ariaSelected === "true");
  const select = (li) => {
    for (const other of options()) other.ariaSelected = String(other === li);
    field.setAttribute("aria-activedescendant", li?.id ?? "");
    li?.scrollIntoView({ block: "nearest" });
  };
  const showCount = (textIfNone) => {
    const n = visible().length;
    if (!selected()) select(visible()[0]);
    status.textContent = n ? `${n} ${n === 1 ? "result" : "results"}` : textIfNone;
  };
  field.oninput = () => {
    const q = field.value.trim().toLowerCase();
    const text = (li) => li.textContent.trim().toLowerCase();
    for (const li of options()) li.hidden = !text(li).includes(q);
    select(visible().find((li) => text(li).startsWith(q)));
    showCount("Searching…");
  };
  // What was found for a text is not shown once the field has another one.
  field.addEventListener("htmx:config:request", ({ detail: { ctx } }) => { ctx.sought = field.value; });
  field.addEventListener("htmx:before:swap", (e) => { if (e.detail.ctx.sought !== field.value) e.preventDefault(); });
  field.addEventListener("htmx:after:swap", () => showCount("No results"));
  for (const failed of ["htmx:error", "htmx:response:error"]) field.addEventListener(failed, () => showCount("Search is not responding. Try again."));
  field.onkeydown = (e) => {
    const list = visible(), index = list.indexOf(selected());
    if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); select(list[(index + (e.key === "ArrowDown" ? 1 : -1) + list.length) % list.length]); }
    const chosen = list[Math.max(index, 0)]; // results are displayed shortly before the first one is selected
    if (e.key === "Enter" && chosen) { e.preventDefault(); navigate(chosen.dataset.href); }
  };
  palette.addEventListener("show", () => {
    field.dispatchEvent(new Event("htmx:abort"));
    found.replaceChildren();
    field.value = "";
    field.oninput();
  });
}

function navigate(address) {
  palette?.close();
  location.href = address;
}
// openFragment opens the dialog, or focuses the field or row, that the fragment of the address names. It removes
// the fragment of a dialog or field from the address, so that the same link works again.
function openFragment() {
  const el = document.getElementById(location.hash.slice(1));
  if (el?.matches("[data-row]")) return focus(el);
  if (!el?.matches("dialog,input")) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  if (el.matches("dialog")) openDialog(el); else el.focus();
}
addEventListener("hashchange", openFragment);
openFragment();
