// What pages do beyond links and forms: live updates, dialogs, keys, copying. All of it
// goes by attributes, so that what htmx swaps in works as well.
const $ = (selector, of = document) => of.querySelector(selector);
const $$ = (selector, of = document) => [...of.querySelectorAll(selector)];
const body = document.body;

// Notices: what was done goes away by itself, what was refused stays longer.
function toast(text, bad) {
  const line = Object.assign(document.createElement("p"), { className: bad ? "toast bad" : "toast", textContent: text });
  toasts.append(line);
  raise();
  setTimeout(() => line.remove(), bad ? 9000 : 5000);
}
const toasts = $("#toasts");
let again = 0, backoff = 3000; // the timer of a refresh; milliseconds until it
function raise() { // into the dialog that is open, which covers all else and takes no part in it
  const over = $$("dialog:modal").at(-1) ?? body;
  if (toasts.parentNode !== over) over.append(toasts);
  toasts.hidePopover();
  if (toasts.firstChild) toasts.showPopover();
}
document.addEventListener("close", raise, true);
document.addEventListener("htmx:after:swap", () => { if (!toasts.isConnected) raise(); });
document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
  const said = ctx.response?.headers.get("X-Notice");
  if (!said) return;
  const { text, bad } = JSON.parse(said);
  toast(text, bad);
  if (!bad) ctx.sourceElement.closest("dialog")?.close();
});
document.addEventListener("htmx:error", (e) => {
  toast("No answer from the server. Check your connection and try again.", true);
  asBefore(e);
});
document.addEventListener("htmx:response:error", asBefore);
for (const failed of ["htmx:error", "htmx:response:error"]) document.addEventListener(failed, ({ detail: { ctx } }) => {
  const status = ctx?.response?.status ?? 500;
  if (again || ctx?.request.method !== "GET" || (status < 500 && status !== 429)) return;
  again = setTimeout(() => { again = 0; refresh(); }, backoff); // an update that did not come is asked for again
  backoff = Math.min(2 * backoff, 60000);
});
function asBefore({ detail: { ctx } }) { // a filter says what the list shows, a setting what holds
  const at = ctx?.sourceElement;
  if (at?.matches("select")) at.value = at.dataset.now ?? ([...at.options].find((o) => o.defaultSelected) ?? at.options[0]).value;
  else if (at?.type === "checkbox") at.checked = at.defaultChecked;
}

// The row that has the focus leaves it, when it goes, to the one that takes its place.
// Swaps overlap: each knows for itself which row had it.
const chosen = () => document.activeElement.closest("[data-row]");
document.addEventListener("htmx:before:swap", ({ detail: { ctx } }) => {
  const row = chosen();
  ctx.left = row && { id: row.id, at: $$("main [data-row]").indexOf(row) };
  ctx.dialog = $("dialog[open]:has([data-late])");
});
document.addEventListener("htmx:after:swap", ({ detail: { ctx: { left, dialog } } }) => {
  if (dialog && !dialog.isConnected && $("textarea", dialog).value) tooLate(dialog);
  const fresh = $("[data-focus]"); // what an answer is about
  if (fresh) { delete fresh.dataset.focus; return focus(fresh); }
  if (!left || document.activeElement !== body) return;
  const rows = $$("main [data-row]");
  focus(rows.find(({ id }) => id === left.id) ?? rows[Math.min(left.at, rows.length - 1)] ?? $("#main"));
});
function focus(at) { at.tabIndex = -1; at.focus(); }

// A dialog whose row has gone, since somebody else answered, stays with what was typed until it is closed.
function tooLate(dialog) {
  dialog.open = false; // it is not modal any more
  body.append(dialog);
  $("[data-late]", dialog).hidden = false;
  $(".primary", dialog).disabled = true;
  dialog.onclose = () => dialog.remove();
  dialog.showModal();
}

// A select or a switch that was refused, or whose row came anew, shows what holds now.
document.addEventListener("htmx:after:swap", () => {
  backoff = 3000;
  for (const field of $$("select[data-now]")) if (field !== document.activeElement) field.value = field.dataset.now;
  for (const at of $$("[data-gone]")) if ($(at.dataset.gone)) at.remove(); // what it is about is no longer so
  for (const log of $$("[data-follow]")) if (log.dataset.follow !== "off" && !$("[hx-trigger=revealed]", log)) log.scrollTop = log.scrollHeight;
  const found = $("[data-found]"); // in a log
  if (found) { delete found.dataset.found; found.scrollIntoView({ block: "center" }); }
  dress();
});
document.addEventListener("scroll", ({ target: at }) => { // whoever scrolls up reads; at the end they follow again
  if (at.dataset?.follow !== undefined) at.dataset.follow = at.scrollHeight - at.scrollTop - at.clientHeight > 40 ? "off" : "";
}, true);

// Confirmation: what takes something away is asked about first. A select or a switch asks
// only for the values that its data-confirm-for names; {} in the question is the chosen one.
document.addEventListener("htmx:confirm", (e) => {
  const { ctx, issueRequest, dropRequest } = e.detail;
  const at = ctx.sourceElement, select = at.matches("select"), flip = at.matches("[type=checkbox]");
  const chosen = select ? at.value : flip ? String(at.checked) : "";
  e.preventDefault();
  if (at.dataset.confirmFor && !at.dataset.confirmFor.split(" ").includes(chosen)) return issueRequest();
  confirmed(ctx.confirm.replace("{}", chosen), at.dataset.confirmText ?? "It applies at once.", at.dataset.confirmWord).then((yes) => {
    if (yes) return issueRequest();
    if (select) at.value = at.dataset.now;
    if (flip) at.checked = !at.checked;
    dropRequest();
    at.focus();
  });
});
function confirmed(title, text, word) {
  const dialog = Object.assign(document.createElement("dialog"), { className: "dialog" });
  dialog.setAttribute("aria-labelledby", "confirm-title");
  dialog.innerHTML = '<h2 id="confirm-title"></h2><p></p><form method="dialog"><div class="buttons"><button type="button" class="button" data-close autofocus>Cancel</button><button class="button danger" value="yes">Continue</button></div></form>';
  $("h2", dialog).textContent = title;
  $("p", dialog).textContent = text;
  if (word) { // it has to be typed
    const field = Object.assign(document.createElement("input"), { autocomplete: "off" });
    field.setAttribute("aria-label", "Type " + word);
    const yes = $("[value=yes]", dialog);
    yes.disabled = true;
    field.oninput = () => { yes.disabled = field.value !== word; };
    $("form", dialog).prepend(field);
  }
  body.append(dialog);
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => { done(dialog.returnValue === "yes"); dialog.remove(); }));
}

// A dialog is told before it opens: what is typed right away is not taken for what was there.
function show(dialog) {
  if (!dialog || dialog.open) return;
  dialog.dispatchEvent(new Event("show"));
  dialog.showModal();
}

// Presses.
document.addEventListener("click", async (e) => {
  const at = e.target.closest?.("[data-copy],[data-open],[data-close],[data-retry],[data-href],[command]");
  if (!at) return;
  if (at.dataset.copy !== undefined) {
    await navigator.clipboard.writeText(at.dataset.copy.replace(/^\/w\//, location.origin + "$&"));
    toast("Copied.");
  } else if (at.dataset.open) show($("#" + at.dataset.open));
  else if (at.hasAttribute("command") && !("commandForElement" in at)) { // a browser of before 2025
    const dialog = $("#" + at.getAttribute("commandfor"));
    if (dialog.open) dialog.close(); else show(dialog);
  }
  else if (at.dataset.close !== undefined) { const dialog = at.closest("dialog"); if (dialog) { e.preventDefault(); dialog.close(); } }
  else if (at.dataset.retry !== undefined) { port?.postMessage({ retry: true }); refresh(); }
  else if (at.dataset.href && !e.target.closest("a,button,input,select,label,summary")) go(at.dataset.href);
});

// Menus of details close when something else is pressed, by Escape, and when another opens.
const menus = "details:has(> .menu-list)[open]";
function closeMenus(but) {
  if (!but.closest?.("dialog")) for (const menu of $$(menus)) if (!menu.contains(but)) menu.open = false;
}
document.addEventListener("click", (e) => closeMenus(e.target));
document.addEventListener("toggle", ({ target: at }) => { if (at.matches(menus)) closeMenus(at); }, true);

// Times are said anew as they pass.
const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
function ago(seconds) {
  const ahead = seconds < 0, s = Math.floor(Math.abs(seconds));
  if (!ahead && s < 5) return "just now";
  if (!ahead && s >= 86400 && s < 172800) return "yesterday";
  const [name, length] = units.find(([, length]) => s >= length) ?? units[3];
  const n = Math.floor(s / length), text = `${n} ${name}${n === 1 ? "" : "s"}`;
  return ahead ? "in " + text : text + " ago";
}
function tick() {
  for (const at of $$("time[data-ago]")) at.textContent = ago((Date.now() - new Date(at.dateTime)) / 1000);
}
setInterval(tick, 10000);
function took(s) { // as kit.Took
  const [a, b] = s < 60 ? [`${s} s`] : s < 3600 ? [`${Math.floor(s / 60)} min`, s % 60 && `${s % 60} s`] : [`${Math.floor(s / 3600)} h`, Math.floor(s % 3600 / 60) && `${Math.floor(s % 3600 / 60)} min`];
  return b ? `${a} ${b}` : a;
}
setInterval(() => { // what goes on, and what runs out
  for (const at of $$("[data-since],[data-until]")) {
    const { since, until } = at.dataset;
    at.textContent = took(Math.max(0, Math.floor((since ? Date.now() - new Date(since) : new Date(until) - Date.now()) / 1000)));
  }
}, 1000);

// dress shows what only works with scripts, and hides what is for those without.
function dress() {
  const theme = $(".theme");
  if (theme) document.documentElement.dataset.theme = theme.dataset.themeNow;
  for (const at of $$("[data-copy][hidden]")) at.hidden = false;
  for (const at of $$("[data-no-script]")) at.hidden = true;
}
dress();

// Live updates: an event of a noun asks the parts of the page for anew that show it, by
// hx-trigger="live-member from:body". After a break everything is asked for.
let port, since = Date.now(), seen = 0;
document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
  if (seen) ctx.request.headers["X-Svc-Min-Position"] = String(seen);
  if (ctx.sourceElement.dataset.here !== undefined && ctx.request.action === location.pathname) ctx.request.action += ctx.here = location.search;
  if (ctx.request.method === "GET") for (const [name, value] of [...ctx.request.body]) if (!value) ctx.request.body.delete(name); // addresses are shared
});
document.addEventListener("htmx:before:swap", (e) => { // a search was answered before an update that was asked for without it
  const { here } = e.detail.ctx;
  if (here === undefined || here === location.search) return;
  e.preventDefault();
  refresh();
});
function refresh() { body.dispatchEvent(new Event("live-all")); }
function live(state) {
  const mark = $("#live");
  if (!mark) return;
  if (mark.dataset.state !== state) since = Date.now();
  mark.dataset.state = state;
  $("[data-live-text]", mark).textContent = { live: "Live", stale: "Reconnecting", over: "Ended" }[state] ?? "Connecting";
  const stale = $("#stale");
  if (state === "live") { if (!stale.hidden) { stale.hidden = true; refresh(); } }
  else if (state === "stale") setTimeout(() => {
    if (mark.dataset.state !== "stale") return;
    const at = $("time", stale);
    at.dateTime = at.title = new Date(since).toISOString();
    tick();
    stale.hidden = false;
  }, 2000);
  else if (state === "over") location.reload(); // the page says why
}
function follow() {
  const { live: address, seq, worker } = body.dataset;
  if (!address) return;
  port = self.SharedWorker ? new SharedWorker(worker).port : new Worker(worker);
  port.onmessage = ({ data }) => {
    if (data.state) live(data.state);
    if (data.all) refresh();
    if (data.event) {
      seen = Math.max(seen, data.event.seq);
      const { kind, target } = data.event; // decision.answered is about a run
      for (const noun of new Set([target, kind.split(".")[0].replaceAll("_", "-"), "any"])) body.dispatchEvent(new CustomEvent("live-" + noun, { detail: data.event }));
    }
  };
  port.postMessage({ join: { address, seq: Number(seq) } });
}
follow();
addEventListener("pagehide", () => port?.postMessage({ leave: true }));
addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); }); // kept by the browser, and old by now

// Keys. A dialog that has closed may still have the focus.
let g = 0;
document.addEventListener("keydown", (e) => {
  if ((e.metaKey || e.ctrlKey) && e.key.toLowerCase() === "k") { e.preventDefault(); show($("#palette")); return; }
  const menu = e.key === "Escape" && !$("dialog[open]") && $(menus);
  if (menu) { menu.open = false; $("summary", menu).focus(); return; }
  if (e.metaKey || e.ctrlKey || e.altKey || e.target.closest?.("input,select,textarea,dialog[open]")) return;
  const place = Date.now() - g < 1500 && $(`#navigation [data-key="${CSS.escape(e.key)}"]`);
  if (place) { g = 0; place.click(); return; }
  const row = chosen(); // what is in a row answers to keys only while that has the focus
  const act = $$(`main [data-press="${CSS.escape(e.key.toLowerCase())}"]`).find((at) => [null, row].includes(at.closest("[data-row]")));
  switch (e.key) {
    case "g": g = Date.now(); break;
    case "?": $("#key-search").hidden = !$("main [type=search]"); show($("#keys")); break;
    case "/": { const field = $("main [type=search]"); if (field) { e.preventDefault(); field.focus(); field.select(); } break; }
    case "j": case "k": move(e.key === "j" ? 1 : -1); break;
    case "Enter": { // what the row names, else its first link, or the head of what it folds away
      const at = document.activeElement;
      if (at.matches("[data-row]")) ($("[data-enter]", at) ?? $("a:not(.more *), summary:not(.more *)", at))?.click();
      break;
    }
    default: if (act) { e.preventDefault(); if (!e.repeat || !act.form) act.click(); }
  }
});
function move(by) {
  const rows = $$("main [data-row]"), at = rows.indexOf(chosen());
  const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
  if (next) { focus(next); next.scrollIntoView({ block: "nearest" }); }
}

// The palette filters what the page knows, and the service finds the rest.
const palette = $("#palette");
if (palette) {
  const field = $("input", palette), status = $("#palette-status"), found = $("#palette-found");
  const all = () => $$("[role=option]", palette), shown = () => all().filter((li) => !li.hidden);
  const chosen = () => shown().find((li) => li.ariaSelected === "true");
  const choose = (li) => {
    for (const other of all()) other.ariaSelected = String(other === li);
    field.setAttribute("aria-activedescendant", li?.id ?? "");
    li?.scrollIntoView({ block: "nearest" });
  };
  const tell = (none) => {
    const n = shown().length;
    if (!chosen()) choose(shown()[0]);
    status.textContent = n ? `${n} ${n === 1 ? "result" : "results"}` : none;
  };
  field.oninput = () => {
    const q = field.value.trim().toLowerCase();
    const text = (li) => li.textContent.trim().toLowerCase();
    for (const li of all()) li.hidden = !text(li).includes(q);
    choose(shown().find((li) => text(li).startsWith(q)));
    tell("Searching…");
  };
  field.addEventListener("htmx:after:swap", () => tell("No results"));
  for (const broken of ["htmx:error", "htmx:response:error"]) field.addEventListener(broken, () => tell("Search is not responding. Try again."));
  field.onkeydown = (e) => {
    const list = shown(), at = list.indexOf(chosen());
    if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); choose(list[(at + (e.key === "ArrowDown" ? 1 : -1) + list.length) % list.length]); }
    if (e.key === "Enter" && list[at]) { e.preventDefault(); go(list[at].dataset.href); }
  };
  palette.addEventListener("show", () => {
    field.dispatchEvent(new Event("htmx:abort"));
    found.replaceChildren();
    field.value = "";
    field.oninput();
  });
}

// An address may name a dialog, a field or a row: it is opened, or has the focus.
function go(address) {
  palette?.close();
  location.href = address;
}
function arrive() {
  const at = document.getElementById(location.hash.slice(1));
  if (at?.matches("[data-row]")) return focus(at);
  if (!at?.matches("dialog,input")) return;
  history.replaceState(history.state, "", location.pathname + location.search); // so that it can be named again
  if (at.matches("dialog")) show(at); else at.focus();
}
addEventListener("hashchange", arrive);
arrive();
