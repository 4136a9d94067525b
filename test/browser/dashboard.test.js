// The dashboard, also while a part of the product is down, and the events on the page of a run.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { phone, visitor } from "./app.js";
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

/** pidOf returns the process id of a program of the product. */
function pidOf(name) {
  const list = execFileSync("ps", ["--ppid", String(product.pid), "-o", "pid=,args="], { encoding: "utf8" });
  const line = list.split("\n").find((l) => l.trim().split(/\s+/)[1]?.endsWith("/" + name));
  assert.ok(line, name + " does not run");
  return parseInt(line);
}

test("the dashboard shows the service's answer", async () => {
  const { page, context, open, problems } = await visitor(browser, app, "ada");
  await open("/w/acme/dashboard");
  const answer = await context.request.get(product.restUrl + "/api/v1/dashboard", { headers: { "X-Svc-Tenant": "acme" } });
  const dashboard = await answer.json();
  await page.getByText(dashboard.head.sentence).waitFor();
  for (const { label, count } of dashboard.runs.byStage) {
    const row = page.locator(".stages tr", { hasText: label });
    assert.equal(parseInt(await row.locator("td.num").innerText()), count, label);
  }
  assert.equal(await page.locator(".system li").count(), dashboard.system.dependencies.length + 1, "the dependencies and the farm's gateway");
  assert.equal(await page.locator(".system .removed").count(), 0);
  assert.match(await page.locator(".lines-of-runs li").first().innerText(), new RegExp(dashboard.recent[0].issueTitle));
  assert.deepEqual(problems, []);
});

test("the system card shows outages without a reload", async () => {
  const { page, open, problems } = await visitor(browser, app, "leo");
  await open("/w/acme/dashboard");
  await page.getByText("All up").waitFor();
  assert.match(await page.locator(".system footer").innerText(), /Checked every 5 seconds\s+last /);
  const engine = pidOf("svc-engine");
  process.kill(engine, "SIGSTOP");
  try {
    await page.getByText("1 of 3 is down").waitFor({ timeout: 60_000 });
    const row = page.locator(".system li", { hasText: "Engine" });
    assert.match(await row.innerText(), /Down/);
    assert.notEqual((await row.locator("small").innerText()).trim(), "", "no message");
    assert.match(await page.locator(".system li", { hasText: "Database" }).innerText(), /Up/);
  } finally {
    process.kill(engine, "SIGCONT");
  }
  await page.getByText("All up").waitFor({ timeout: 60_000 });
  assert.deepEqual(problems, []);
});

test("the focus stays when the dashboard is updated", async () => {
  const { page, context, open } = await visitor(browser, app, "ada");
  await open("/w/acme/dashboard");
  const link = page.locator(".lines-of-runs a").nth(1);
  await link.focus();
  const row = await link.evaluate((at) => at.closest("li").id);
  const focused = () => page.evaluate(() => [document.activeElement.tagName, document.activeElement.closest("li")?.id]);
  await page.evaluate(() => {
    document.querySelector("#dashboard").dataset.old = "yes";
    document.body.dispatchEvent(new Event("live-all"));
  });
  await page.locator("#dashboard:not([data-old])").waitFor({ state: "attached" });
  assert.deepEqual(await focused(), ["A", row]);
  const headers = { "X-Svc-Tenant": "acme" };
  const repos = await (await context.request.get(product.restUrl + "/api/v1/repos", { headers })).json();
  const data = { repoId: repos.items[0].id, title: "Moves the others down" };
  assert.equal((await context.request.post(product.restUrl + "/api/v1/backlog/queue", { data, headers })).status(), 201);
  await page.locator(".lines-of-runs li", { hasText: "Moves the others down" }).waitFor();
  assert.deepEqual(await focused(), ["A", row]);
});

test("every member sees the events of a run", async () => {
  const { page, open, problems } = await visitor(browser, app, "leo");
  await open("/w/acme/runs");
  await page.locator(".stage", { hasText: "Merge" }).locator(".run a").first().click();
  await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);
  const lines = await page.locator(".happened li").allInnerTexts();
  assert.match(lines.at(-1), /^Queued by /, "the oldest event is the last");
  assert.ok(lines.some((l) => /^Planned\n/.test(l)), "the plan");
  assert.ok(lines.some((l) => /facts? recorded\n/.test(l)), "the facts");
  assert.equal(await page.getByRole("link", { name: "Audit log" }).count(), 0, "a Viewer has no link to the audit log");
  assert.deepEqual(problems, []);
});

test("the events of a run are paged", async () => {
  const { page, context, open, problems } = await visitor(browser, app, "leo");
  await open("/w/acme/runs");
  const path = await page.locator(".stage", { hasText: "Merge" }).locator(".run a").first().getAttribute("href");
  const answer = await context.request.get(`${product.restUrl}/api/v1/runs/${path.split("/").at(-1)}/events?order=desc&limit=5`, { headers: { "X-Svc-Tenant": "acme" } });
  const { items, nextCursor } = await answer.json();
  await open(path);
  assert.equal(await page.locator(".happened li").first().getAttribute("id"), "event-" + items.find((e) => e.kind !== "decision.raised").id);
  await open(`${path}?cursor=${nextCursor}`);
  for (const { id } of items) assert.equal(await page.locator("#event-" + id).count(), 0, "newer events are on another page");
  assert.match(await page.locator(".happened li").last().innerText(), /^Queued by /);
  await page.getByRole("link", { name: "Newest events" }).click();
  await page.getByText("newest first", { exact: true }).waitFor();
  assert.equal(new URL(page.url()).search, "");
  await page.waitForFunction(() => document.activeElement?.id === "happened");
  assert.equal((await open(path + "?cursor=7")).status(), 422, "a cursor for another order");
  assert.deepEqual(problems, []);
});

test("a run fits a phone", async () => {
  const { page, open } = await visitor(browser, app, "ada", { viewport: phone });
  await open("/w/acme/runs?view=list");
  await page.locator("#runs li a").first().click();
  await page.locator(".happened li").first().waitFor();
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
});

test("an unknown run is a 404", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  for (const id of ["nothing", "019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"]) {
    assert.equal((await open("/w/acme/runs/" + id)).status(), 404);
    await page.getByText("Page not found").waitFor();
  }
});
