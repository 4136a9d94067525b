// Rules for every page: permissions, cross-site requests, empty workspaces, an unavailable service.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { start } from "../product.js";
import { showsRole, visitor } from "./app.js";
import { crawl, pages } from "./crawl.js";
import { checkLayout } from "./hostile.js";
import { launch } from "./person.js";
import { cuttableProxy } from "./proxy.js";

let product, browser, app;

before(async () => {
  product = await start();
  app = product.appUrl;
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await product?.stop();
});

/**
 * useControl clicks the nth control of the page, or selects another option of it, and reports whether there is one.
 * Of similar controls only the first two count. Signing out and leaving are skipped, since everybody may. If the
 * control leads to another page, useControl returns when the browser has received that.
 */
const useControl = (page, nth) => page.evaluate(async (nth) => {
  const list = [...document.querySelectorAll("main button, main select, main input[type=checkbox], main summary, [role=option], dialog button")];
  const counts = {};
  const el = list.filter((el) => {
    if (el.disabled || el.closest("[action='/sign-out']") || el.textContent.includes("Leave")) return false;
    const kind = el.tagName + el.className + el.closest("form")?.getAttribute("action")?.split("/").at(-1);
    return (counts[kind] = (counts[kind] ?? 0) + 1) <= 2;
  })[nth];
  if (!el) return false;
  let leaves = false;
  navigation.addEventListener("navigate", ({ destination }) => { leaves ||= !destination.sameDocument; });
  if (el.matches("select")) {
    el.selectedIndex = (el.selectedIndex + 1) % el.options.length;
    el.dispatchEvent(new Event("change", { bubbles: true }));
  } else el.click();
  await new Promise((later) => setTimeout(later)); // forms are sent a moment later
  if (leaves) await new Promise((late) => setTimeout(late, 30000)); // ends with the page
  return true;
}, nth).catch((error) => /context was destroyed/.test(error.message) || Promise.reject(error));

test("no control that is enabled for a Viewer is refused", async () => {
  const vera = await visitor(browser, app, "vera", { ownSession: true, permissions: ["clipboard-write"] });
  const refused = [];
  let used = 0, control;
  vera.page.on("response", (answer) => { if (answer.status() === 403) refused.push(`${control}: ${answer.request().method()} ${answer.url().slice(app.length)}`); });
  const forms = ["farm/enroll", "settings", "settings/repositories/new", "farm/secrets", "service-accounts", "members"].map((place) => "/w/acme/" + place);
  await crawl(vera, app, [...pages, ...forms], async (path, pattern) => {
    const sent = vera.page.locator("main form[method=post]:has(input:not([type=hidden]), textarea)");
    for (const form of path.startsWith("/w/acme/") ? await sent.all() : []) {
      const reason = form.locator("xpath=ancestor-or-self::*").locator(".reason").first();
      assert.equal(await form.locator("input:not([type=hidden]):enabled, textarea:enabled").count(), 0, `${path}: a form that a Viewer may not send is disabled`);
      await reason.waitFor();
    }
    for (let nth = 0; ; nth++, used++) {
      control = `${pattern}, control ${nth}`;
      if (!await useControl(vera.page, nth)) break;
      const yes = vera.page.locator("dialog[open]").locator("button[value=yes]");
      if (await yes.count()) await yes.click();
      await vera.page.waitForLoadState();
      await vera.page.waitForFunction(() => !document.querySelector(".htmx-request"));
      if (vera.page.url() !== app + path || await vera.page.locator("dialog[open]").count()) await vera.open(path);
    }
  });
  assert.deepEqual(refused, []);
  assert.ok(used > 20, `${used} controls`);
  assert.deepEqual(vera.problems, []);
});

test("no page can be framed, no form sent from another site or by a double click twice, and of filters the last counts", async () => {
  const ada = await visitor(browser, app, "ada");
  const forms = new Set(), frameable = [], resent = [], overtaken = new Set(), lost = [];
  ada.page.on("response", (answer) => {
    const headers = answer.headers();
    const safe = headers["x-frame-options"] === "DENY" && headers["content-security-policy"]?.includes("frame-ancestors 'none'");
    if (headers["content-type"]?.startsWith("text/html") && !safe) frameable.push(answer.url());
  });
  await crawl(ada, app, [...pages, "/w/nowhere/runs", "/nothing"], async (_, pattern) => {
    // A page below those of the navigation says which one that is, and ends with itself.
    const crumbs = await ada.page.locator("nav.crumbs > *").evaluateAll((list) => list.filter((el) => !el.matches(".icon")).map((el) => el.pathname ?? el.ariaCurrent));
    const parents = await ada.page.locator("#navigation a").evaluateAll((list) => list.map((a) => a.pathname));
    const path = new URL(ada.page.url()).pathname;
    if (parents.length && !parents.includes(path) && !path.endsWith("/audit/verify") && !(parents.includes(crumbs[0]) && crumbs.at(-1) === "page")) lost.push(path);
    for (const action of await ada.page.locator("form[method=post]").evaluateAll((list) => list.map((form) => form.getAttribute("action")))) forms.add(action);
    resent.push(...await ada.page.locator("form[hx-post]:not([hx-sync$=':drop'])").evaluateAll((list) => list.map((form) => form.action)));
    const controls = ada.page.locator("form:not([hx-sync\\:inherited='this:replace']) [hx-include='closest form']");
    for (const id of await controls.evaluateAll((list) => list.map((control) => control.id))) overtaken.add(`${pattern} #${id}`);
  });
  assert.deepEqual(frameable, []);
  assert.deepEqual(lost, [], "pages without breadcrumbs");
  assert.deepEqual(resent, [], "a second click on a form's button is dropped");
  assert.deepEqual([...overtaken], [], "a control of a form gives up the requests of the others");
  assert.ok(forms.size > 20, `${forms.size} forms`);
  const before = await (await ada.context.request.get(product.restUrl + "/api/v1/workspace", { headers: { "X-Svc-Tenant": "acme" } })).json();
  for (const action of forms) {
    for (const headers of [{ "Sec-Fetch-Site": "cross-site" }, { "Sec-Fetch-Site": "same-site" }, { Origin: "https://evil.example" }, { Origin: "null" }]) {
      assert.equal((await ada.context.request.post(app + action, { headers, form: {} })).status(), 403, `${action} ${JSON.stringify(headers)}`);
    }
  }
  const now = await (await ada.context.request.get(product.restUrl + "/api/v1/workspace", { headers: { "X-Svc-Tenant": "acme" } })).json();
  assert.equal(now.seq, before.seq, "no event was appended");
});

test("pages of an empty workspace say so, and lead on", async () => {
  const { page, open, problems } = await visitor(browser, app, "ada");
  for (const [place, [text, next]] of Object.entries({
    dashboard: ["0 of 5 done", "/settings/repositories/new"], needs: ["You're all caught up", "/runs"],
    runs: ["No active runs", "/settings/repositories/new"], "runs?status=finished": ["No finished runs yet", "/backlog"],
    backlog: ["No repository is connected", "/settings/repositories/new"],
    "settings/repositories": ["No repository is connected", "/settings/repositories/new"],
    farm: ["No runners yet", "/farm/enroll"], "farm/jobs": ["No active jobs", "/backlog"],
    "farm/jobs?status=finished": ["No finished jobs yet", "/backlog"], "farm/secrets": ["No secrets yet", "#secret-name"],
    "service-accounts": ["No service accounts yet", "new-account"], members: ["Only you are here so far", "members/invite"],
    "members?q=nobody": ["No matching people", "/members"], "audit?q=nothing": ["No events found", "/audit"], insights: ["No data yet", "/backlog"],
  })) {
    assert.equal((await open("/w/ada/" + place)).status(), 200, place);
    await page.locator("main").getByText(text).first().waitFor();
    const ways = await page.locator("main a, main form, main button[commandfor]").evaluateAll((list) => list.map((el) => el.getAttribute("href") ?? el.getAttribute("action") ?? el.getAttribute("commandfor")));
    assert.ok(ways.some((way) => way.endsWith(next)), `${place} leads to ${next}, not only to ${ways}`);
    assert.doesNotMatch(await page.innerText("main"), /NaN|undefined|Infinity|%!|<nil>/, place);
    await checkLayout(page, place, 520);
    assert.equal(await page.locator("main a, main button:enabled").filter({ hasText: "Queue an issue" }).count(), 0, place);
  }
  await open("/w/ada/runs#queue-issue"); // as the palette does
  await page.locator("dialog#queue-issue[open]").getByText("This workspace has none yet.").waitFor();
  assert.deepEqual(problems, []);
});

test("a page says that the service is unavailable, and catches up afterwards", async () => {
  const proxy = await cuttableProxy(product.restUrl);
  const placeholder = createServer().listen(0, "127.0.0.1");
  await once(placeholder, "listening");
  const address = `127.0.0.1:${placeholder.address().port}`;
  await new Promise((closed) => placeholder.close(closed));
  const running = spawn(fileURLToPath(new URL("../../bin/svc-ui", import.meta.url)), { stdio: "ignore", env: { ...process.env, SVC_UI_ADDR: address, SVC_REST_URL: proxy.url, AUTH_URL: "http://" + address, SVC_METRICS_ADDR: "" } });
  try {
    const { context } = await visitor(browser, app, "ada");
    const page = await context.newPage();
    for (let left = 100; ; left--) {
      if (await page.goto(`http://${address}/w/acme/members`).catch(() => left ? null : Promise.reject(new Error("svc-ui does not start")))) break;
      await page.waitForTimeout(100);
    }
    await page.locator('#live[data-state="live"]').waitFor();
    await showsRole(page, "Vera Novak", "Viewer");

    proxy.cut();
    await page.locator("#stale").getByText("reconnecting").waitFor();
    const other = await context.newPage();
    assert.equal((await other.goto(`http://${address}/w/acme/runs`)).status(), 502);
    await other.getByText("The service is not responding").waitFor();
    assert.match(await other.innerText("main"), /Request \S+/);
    const ask = (method, path, data) => context.request.fetch(product.restUrl + "/api/v1" + path, { method, data, headers: { "X-Svc-Tenant": "acme" } });
    const vera = (await (await ask("GET", "/members?q=vera")).json()).items[0];
    assert.ok((await ask("PATCH", "/members/" + vera.id, { role: "Maintainer" })).ok());
    await showsRole(page, "Vera Novak", "Viewer"); // the page keeps its content

    proxy.restore();
    await page.evaluate(() => document.querySelector("[data-retry]").click()); // not by a real click: the button disappears if the page reconnects by itself
    await page.locator('#live[data-state="live"]').waitFor();
    await page.locator("#stale").waitFor({ state: "hidden" });
    await showsRole(page, "Vera Novak", "Maintainer");
    await other.getByRole("link", { name: "Try again" }).click();
    await other.getByRole("heading", { name: "Runs" }).waitFor();
  } finally {
    running.kill("SIGTERM");
    proxy.close();
  }
});

test("without scripts a removed member is told by the next page", async () => {
  const ada = await visitor(browser, app, "ada"), max = await visitor(browser, app, "max", { javaScriptEnabled: false });
  await max.page.goto(app + "/w/acme/farm");
  const ask = (method, path) => ada.context.request.fetch(product.restUrl + "/api/v1" + path, { method, headers: { "X-Svc-Tenant": "acme" } });
  const member = (await (await ask("GET", "/members?q=max")).json()).items[0];
  assert.ok((await ask("DELETE", "/members/" + member.id)).ok());
  await max.page.locator("nav").getByText("Needs You").click();
  await max.page.getByText("You are not in this workspace").waitFor();
  await max.page.getByRole("link", { name: "Your workspaces" }).click();
  await max.page.waitForURL(app + "/w");
});
