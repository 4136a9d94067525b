// What holds of every page: who may do what, other sites, nothing there yet, a service that is away.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { start } from "../product.js";
import { visitor } from "./app.js";
import { crawl, pages } from "./crawl.js";
import { inShape } from "./hostile.js";
import { launch } from "./person.js";

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
 * press presses what is nth of the page that can be pressed or chosen, and reports whether
 * there was anything. Nobody signs out or leaves, which everybody may.
 */
const press = (page, nth) => page.evaluate((nth) => {
  const list = [...document.querySelectorAll("main button, main select, main input[type=checkbox], main summary, [role=option], dialog button")];
  const alike = {};
  const at = list.filter((at) => {
    if (at.disabled || at.closest("[action='/sign-out']") || at.textContent.includes("Leave")) return false;
    const kind = at.tagName + at.className + at.closest("form")?.getAttribute("action")?.split("/").at(-1);
    return (alike[kind] = (alike[kind] ?? 0) + 1) <= 3; // of fifty rows of the log three tell as much
  })[nth];
  if (!at) return false;
  if (at.matches("select")) {
    at.selectedIndex = (at.selectedIndex + 1) % at.options.length;
    at.dispatchEvent(new Event("change", { bubbles: true }));
  } else at.click();
  return true;
}, nth);

test("a Viewer meets nothing that is refused", async () => {
  const vera = await visitor(browser, app, "vera", { own: true, permissions: ["clipboard-write"] });
  const refused = [];
  let pressed = 0, at;
  vera.page.on("response", (answer) => { if (answer.status() === 403) refused.push(`${at}: ${answer.request().method()} ${answer.url().slice(app.length)}`); });
  await crawl(vera, app, pages, async (path, kind) => {
    for (let nth = 0; ; nth++, pressed++) {
      at = `${kind}, control ${nth}`;
      if (!await press(vera.page, nth)) break;
      const yes = vera.page.locator("dialog[open]").getByRole("button", { name: "Continue" });
      if (await yes.count()) await yes.click();
      await vera.page.waitForLoadState();
      await vera.page.waitForFunction(() => !document.querySelector(".htmx-request"));
      if (vera.page.url() !== app + path || await vera.page.locator("dialog[open]").count()) await vera.open(path);
    }
  });
  assert.deepEqual(refused, []);
  assert.ok(pressed > 20, `${pressed} controls`);
  assert.deepEqual(vera.complaints, []);
});

test("no page can be framed, and no form sent from another site", async () => {
  const ada = await visitor(browser, app, "ada");
  const forms = new Set(), framed = [];
  ada.page.on("response", (answer) => {
    const headers = answer.headers();
    const safe = headers["x-frame-options"] === "DENY" && headers["content-security-policy"]?.includes("frame-ancestors 'none'");
    if (headers["content-type"]?.startsWith("text/html") && !safe) framed.push(answer.url());
  });
  await crawl(ada, app, [...pages, "/w/nowhere/runs", "/nothing"], async () => {
    for (const action of await ada.page.locator("form[method=post]").evaluateAll((list) => list.map((form) => form.getAttribute("action")))) forms.add(action);
  });
  assert.deepEqual(framed, []);
  assert.ok(forms.size > 20, `${forms.size} forms`);
  const before = await (await ada.context.request.get(product.restUrl + "/api/v1/workspace", { headers: { "X-Svc-Tenant": "acme" } })).json();
  for (const action of forms) {
    for (const headers of [{ "Sec-Fetch-Site": "cross-site" }, { "Sec-Fetch-Site": "same-site" }, { Origin: "https://evil.example" }, { Origin: "null" }]) {
      assert.equal((await ada.context.request.post(app + action, { headers, form: {} })).status(), 403, `${action} ${JSON.stringify(headers)}`);
    }
  }
  const now = await (await ada.context.request.get(product.restUrl + "/api/v1/workspace", { headers: { "X-Svc-Tenant": "acme" } })).json();
  assert.equal(now.seq, before.seq, "nothing has happened");
});

test("a workspace in which nothing is yet says what comes next", async () => {
  const { page, open, complaints } = await visitor(browser, app, "ada");
  for (const [place, text] of Object.entries({
    dashboard: "No runs yet", needs: "You're all caught up", runs: "No active runs", "runs?status=finished": "No finished runs yet",
    farm: "No runners yet", "farm/jobs": "No active jobs", "farm/jobs?status=finished": "No finished jobs yet",
    "service-accounts": "No service accounts yet", "members?q=nobody": "No matching people", "audit?q=nothing": "No events found", insights: "by day",
  })) {
    assert.equal((await open("/w/ada/" + place)).status(), 200, place);
    await page.locator("main").getByText(text).first().waitFor();
    assert.doesNotMatch(await page.innerText("main"), /NaN|undefined|Infinity|%!|<nil>/, place);
    await inShape(page, place, 520);
  }
  assert.deepEqual(complaints, []);
});

/** wire leads to the REST service until it is cut. */
async function wire(to) {
  const sockets = new Set();
  let whole = true;
  const server = createServer((socket) => {
    if (!whole) return socket.destroy();
    const other = connect(to.port, to.hostname);
    for (const [one, two] of [[socket, other], [other, socket]]) {
      sockets.add(one);
      one.on("error", () => two.destroy()).on("close", () => { sockets.delete(one); two.destroy(); }).pipe(two);
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = () => { whole = false; sockets.forEach((socket) => socket.destroy()); };
  return { url: `http://127.0.0.1:${server.address().port}`, cut, mend: () => { whole = true; }, close: () => { cut(); server.close(); } };
}

test("a page says that the service is away, and misses nothing of that time", async () => {
  const line = await wire(new URL(product.restUrl));
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const address = `127.0.0.1:${free.address().port}`;
  await new Promise((closed) => free.close(closed));
  const running = spawn(fileURLToPath(new URL("../../bin/svc-ui", import.meta.url)), { stdio: "ignore", env: { ...process.env, SVC_UI_ADDR: address, SVC_REST_URL: line.url, AUTH_URL: "http://" + address, SVC_METRICS_ADDR: "" } });
  try {
    const { context } = await visitor(browser, app, "ada");
    const page = await context.newPage();
    const role = page.getByLabel("Role of Vera Novak", { exact: true });
    for (let left = 100; ; left--) {
      if (await page.goto(`http://${address}/w/acme/members`).catch(() => left ? null : Promise.reject(new Error("svc-ui does not start")))) break;
      await page.waitForTimeout(100);
    }
    await page.locator('#live[data-state="live"]').waitFor();
    assert.equal(await role.inputValue(), "Viewer");

    line.cut();
    await page.locator("#stale").getByText("reconnecting").waitFor();
    const other = await context.newPage();
    assert.equal((await other.goto(`http://${address}/w/acme/runs`)).status(), 502);
    await other.getByText("The service is not responding").waitFor();
    assert.match(await other.innerText("main"), /Request \S+/);
    const ask = (method, path, data) => context.request.fetch(product.restUrl + "/api/v1" + path, { method, data, headers: { "X-Svc-Tenant": "acme" } });
    const vera = (await (await ask("GET", "/members?q=vera")).json()).items[0];
    assert.ok((await ask("PATCH", "/members/" + vera.id, { role: "Maintainer" })).ok());
    assert.equal(await role.inputValue(), "Viewer", "the page is kept");

    line.mend();
    await page.evaluate(() => document.querySelector("[data-retry]").click()); // or it tries by itself, and the button is gone
    await page.locator('#live[data-state="live"]').waitFor();
    await page.locator("#stale").waitFor({ state: "hidden" });
    await page.waitForFunction(() => document.querySelector('select[aria-label="Role of Vera Novak"]').value === "Maintainer");
    await other.getByRole("link", { name: "Try again" }).click();
    await other.getByRole("heading", { name: "Runs" }).waitFor();
  } finally {
    running.kill("SIGTERM");
    line.close();
  }
});

test("who was removed is told by the next click, whatever it was", async () => {
  const ada = await visitor(browser, app, "ada"), max = await visitor(browser, app, "max", { javaScriptEnabled: false });
  await max.page.goto(app + "/w/acme/farm");
  const ask = (method, path) => ada.context.request.fetch(product.restUrl + "/api/v1" + path, { method, headers: { "X-Svc-Tenant": "acme" } });
  const one = (await (await ask("GET", "/members?q=max")).json()).items[0];
  assert.ok((await ask("DELETE", "/members/" + one.id)).ok());
  await max.page.locator("nav").getByText("Needs You").click();
  await max.page.getByText("You are not in this workspace").waitFor();
  await max.page.getByRole("link", { name: "Your workspaces" }).click();
  await max.page.waitForURL(app + "/w");
});
