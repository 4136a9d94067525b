// The audit log, and replays of past states of the workspace.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { checkAccessibility, phone, visitor } from "./app.js";
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

/** openAs opens a path as somebody. */
async function openAs(name, path, options) {
  const who = await visitor(browser, app, name, options);
  await who.open(path);
  return who;
}
const rows = (page) => page.locator(".event");
const codes = (page) => page.locator(".did code").allInnerTexts();
const api = (who, method, path, data) => who.context.request.fetch(product.restUrl + "/api/v1" + path, { method, data, headers: { "X-Svc-Tenant": "acme" } });

test("the table of changes is below its heading, and on a phone an event takes three lines", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/audit?q=action%3Amember.role_changed");
  await page.locator(".event-row").first().click();
  const box = page.locator(".event .fact-box").first();
  await box.locator("table").waitFor();
  const [head, table] = await Promise.all(["h3", "table"].map((part) => box.locator(part).boundingBox()));
  assert.ok(table.y >= head.y + head.height - 1 && Math.abs(table.width - head.width) <= 1, JSON.stringify({ head, table }));
  await page.setViewportSize(phone);
  const heights = await page.locator(".event:not(:has([open])) .event-row:has(.done)").evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect().height));
  assert.ok(heights.length > 0 && Math.max(...heights) <= 110, heights.join());
});

test("qualifiers filter the log, and two values of one qualifier are alternatives", async () => {
  const { page, problems } = await openAs("ada", "/w/acme/audit?show=all");
  assert.equal(await rows(page).count(), 50);
  await page.keyboard.press("/");
  await page.keyboard.type("action:member.*");
  await page.keyboard.press("Enter");
  await page.waitForURL(/q=action%3Amember.*show=all/);
  assert.ok((await codes(page)).every((code) => code.startsWith("member.")));
  await page.locator("#add").fill("action:invitation.sent");
  await page.keyboard.press("Enter");
  await page.locator(".chip").nth(1).waitFor();
  await page.waitForLoadState(); // the events are below
  const both = await codes(page);
  assert.ok(both.some((code) => code.startsWith("member.")) && both.includes("invitation.sent"));
  assert.ok(both.every((code) => code.startsWith("member.") || code === "invitation.sent"));
  assert.match(await page.locator(".card-foot").innerText(), new RegExp(`${both.length} of ${both.length} matching events`));
  await page.getByRole("link", { name: "Remove action:member.*" }).click();
  await page.waitForURL(/q=action%3Ainvitation\.sent&show=all$/);
  assert.deepEqual([...new Set(await codes(page))], ["invitation.sent"]);
  await page.locator("#add").fill("actor:mia@acme.example");
  await page.keyboard.press("Enter");
  await page.getByText("No events found").waitFor();
  await page.getByRole("link", { name: "Clear search" }).click();
  await page.waitForURL(app + "/w/acme/audit");
  assert.deepEqual(problems, []);
});

test("days filter the log, and an invalid day is refused", async () => {
  const { page, open } = await openAs("ada", "/w/acme/audit");
  const today = new Date().toISOString().slice(0, 10);
  await page.locator("summary", { hasText: "All days" }).click();
  await page.locator(".days [name=from]").fill(today);
  await page.locator(".days [name=to]").fill(today);
  await page.getByRole("button", { name: "Apply" }).click();
  await page.locator(".chip", { hasText: "created: " + today }).waitFor();
  await page.waitForLoadState();
  assert.ok(await rows(page).count() > 0);
  for (const time of await page.locator(".event time").evaluateAll((list) => list.map((t) => t.dateTime))) assert.ok(time.startsWith(today), time);
  await open("/w/acme/audit?q=created:yesterday");
  await page.getByText("created: takes a day or two of them").waitFor();
});

test("actor: accepts names of people", async () => {
  const { page, open } = await openAs("ada", "/w/acme/audit");
  await page.locator("#add").fill('actor:"Mia Torres"');
  await page.keyboard.press("Enter");
  await page.waitForURL(/\?q=actor%3Amia%40acme\.example$/);
  await open("/w/acme/audit?q=" + encodeURIComponent("actor:Ada action:member.*"));
  await page.locator(".chip", { hasText: "ada@acme.example" }).waitFor();
  await rows(page).filter({ hasText: "Ada Lind" }).first().waitFor();
  await open("/w/acme/audit?q=actor:Nobody");
  await page.getByText("No member has this name.").waitFor();
});

test("a refused search is explained and stays in the field", async () => {
  const { page, open } = await openAs("ada", "/w/acme/audit");
  for (const query of ["x".repeat(3000), "created:0001-01-01..9999-12-31"]) {
    assert.equal((await open("/w/acme/audit?q=" + query)).status(), 200);
    await page.locator(".banner.bad").waitFor();
    assert.equal(await page.locator('.search-bar [name="q"]').getAttribute("value"), query);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  }
});

test("an event shows its changes, its origin and its stored form", async () => {
  const ada = await openAs("ada", "/w/acme/members");
  const vera = (await (await api(ada, "GET", "/members?q=vera")).json()).items[0];
  assert.equal((await api(ada, "PATCH", "/members/" + vera.id, { role: "Maintainer" })).status(), 200);
  const { page, open } = ada;
  await open("/w/acme/audit?q=action:member.role_changed");
  const row = rows(page).first();
  await row.locator("summary").click();
  await row.locator(".before", { hasText: "Viewer" }).waitFor();
  await row.locator(".after", { hasText: "Maintainer" }).waitFor();
  await row.getByText("API", { exact: true }).waitFor();
  await row.getByText('"kind": "member.role_changed"').waitFor();
  await row.getByRole("link", { name: /Link to event/ }).click();
  await page.waitForURL(/\/w\/acme\/audit\/[0-9a-f-]{36}$/);
  await page.getByRole("heading", { name: "Changed a member’s role" }).waitFor();
  const stored = JSON.parse(await page.locator(".raw-event pre").innerText());
  assert.equal(stored.data.to, "Maintainer");
  assert.equal((await open("/w/acme/audit/019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9")).status(), 404);
});

test("a refused command is in the log with its error code", async () => {
  const mia = await openAs("mia", "/w/acme/members");
  const ada = (await (await api(mia, "GET", "/members?q=ada")).json()).items[0];
  assert.equal((await api(mia, "PATCH", "/members/" + ada.id, { role: "Viewer" })).status(), 403);
  await mia.open("/w/acme/audit?q=actor:mia@acme.example");
  const row = rows(mia.page).filter({ hasText: "member_update_forbidden" });
  await row.getByText("Refused").waitFor();
  await row.getByText("Tried to change a member’s role").waitFor();
  await row.getByText("Mia Torres").waitFor();
});

test("new events are announced, and rows do not move", async () => {
  const ada = await openAs("ada", "/w/acme/audit?q=action:invitation.*");
  const first = await rows(ada.page).first().getAttribute("id"), count = await rows(ada.page).count();
  for (const name of ["news1", "news2"]) assert.equal((await api(ada, "POST", "/invitations", { email: name + "@example.com" })).status(), 201);
  const announcement = ada.page.getByRole("link", { name: "2 new events" });
  await announcement.waitFor({ timeout: 15000 });
  assert.deepEqual([await rows(ada.page).first().getAttribute("id"), await rows(ada.page).count()], [first, count]);
  await announcement.click();
  await rows(ada.page).filter({ hasText: "news2@example.com" }).waitFor();
});

test("people and access come first, and everything is a click away", async () => {
  const { page, open, problems } = await openAs("ada", "/w/acme/audit");
  const which = page.getByRole("navigation", { name: "Which events" });
  assert.equal(await which.locator("[aria-current]").innerText(), "People and access");
  const first = await codes(page);
  assert.ok(first.includes("service_account.revoked") && first.every((code) => !/^run\.(?!cancelled|stop)|^job\.(?!cancel)/.test(code)), first.join());
  assert.match(await page.locator(".card-foot").innerText(), /of [\d,]+ matching events/);
  await which.getByRole("link", { name: "Everything" }).click();
  await page.waitForURL(/show=all/);
  assert.ok((await codes(page)).some((code) => /^(run|job)\./.test(code)));
  await open("/w/acme/audit?q=action:run.merged"); // a search is for everything
  assert.deepEqual([...new Set(await codes(page))], ["run.merged"]);
  await which.getByRole("link", { name: "People and access" }).click();
  await page.getByText("No event about people and access matches").waitFor();
  await page.getByRole("link", { name: "Search everything" }).click();
  await page.waitForURL(/show=all/);
  assert.ok(await rows(page).count() > 0);
  assert.deepEqual(problems, []);
});

test("the search field completes qualifiers, and a noun stands for all its actions", async () => {
  const { page, problems } = await openAs("ada", "/w/acme/audit");
  const offered = (value) => page.locator(`#completions option[value='${value}']`);
  const add = page.locator("#add");
  await add.focus();
  for (const key of ["actor:", "action:", "target:", "created:"]) await offered(key).waitFor({ state: "attached" });
  await page.keyboard.type("member");
  await offered("action:member.*").waitFor({ state: "attached" });
  await add.fill("maria actor:mia");
  await offered("maria actor:mia@acme.example").waitFor({ state: "attached" });
  assert.equal(await offered("maria actor:mia@acme.example").innerText(), "Mia Torres");
  await add.fill("actor:service:ci");
  await offered("actor:service:ci-bot").waitFor({ state: "attached" });
  await add.fill("created:");
  await page.locator("#completions option", { hasText: "The last 7 days" }).waitFor({ state: "attached" });
  await add.fill("action:member");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "Remove action:member.*" }).waitFor();
  const found = await codes(page);
  assert.ok(found.length > 0 && found.every((code) => code.startsWith("member.")), found.join());
  assert.deepEqual(problems, []);
});

test("a row shows what changed without being opened", async () => {
  for (const viewport of [undefined, phone]) {
    const { page, open } = await visitor(browser, app, "ada", viewport && { viewport });
    await open("/w/acme/audit?q=action:member.role_changed");
    const row = rows(page).filter({ hasText: "Changed a member’s role" }).first(); // refused attempts changed nothing
    assert.match(await row.locator(".change-of").innerText(), /^role: (Viewer|Maintainer|Owner) → (Viewer|Maintainer|Owner)$/);
    assert.ok(await row.locator(".change-of").isVisible());
  }
});

test("older events are appended, each once", async () => {
  const { page } = await openAs("ada", "/w/acme/audit?show=all");
  await page.getByRole("link", { name: "Older events" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".event").length === 100);
  const ids = await rows(page).evaluateAll((list) => list.map((row) => Number(row.id.slice("event-".length))));
  assert.deepEqual(ids, ids.toSorted((a, b) => b - a));
  assert.equal(new Set(ids).size, 100);
});

test("the log is verified, and its checkpoint can be copied", async () => {
  const { page } = await openAs("ada", "/w/acme/audit", { permissions: ["clipboard-read", "clipboard-write"] });
  await page.getByRole("link", { name: "Verify now" }).click();
  await page.getByText(/Verified up to event [\d,]+/).waitFor();
  assert.equal(await page.title(), "Audit log · Acme · Workspace Service");
  await page.getByRole("button", { name: "Copy checkpoint" }).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^\S+\/[0-9a-f-]{36}\n\d+\n.+=\n\n— /);
  const verified = await page.getByText(/Verified up to event [\d,]+/).innerText();
  const mia = await openAs("mia", "/w/acme/audit"); // a Maintainer sees the result
  assert.equal(await mia.page.getByText(/Verified up to event [\d,]+/).innerText(), verified);
});

test("an export contains the search result, or everything", async () => {
  const { page } = await openAs("ada", "/w/acme/audit?q=action:member.joined");
  const exportAs = async (format) => {
    const menu = page.locator("summary", { hasText: "Export" });
    if (!await page.locator(".exports").isVisible()) await menu.click();
    const [download] = await Promise.all([page.waitForEvent("download"), page.locator(`.exports [value=${format}]`).click()]);
    return { name: download.suggestedFilename(), lines: readFileSync(await download.path(), "utf8").trimEnd().split(/\r?\n/) };
  };
  const found = await rows(page).count();
  const csv = await exportAs("csv");
  assert.match(csv.name, /^audit-acme-\d+\.csv$/);
  assert.equal(csv.lines.length, 1 + found);
  await page.locator(".exports [name=all]").check();
  const ndjson = await exportAs("ndjson");
  assert.equal(JSON.parse(ndjson.lines[0]).seq, 1);
  assert.ok(ndjson.lines.length > 1000);
  await page.goto(app + "/w/acme/audit?q=action:audit.exported");
  assert.equal(await rows(page).count(), 2, "two exports are recorded");
  const { context } = await visitor(browser, app, "ada");
  const crossSite = await context.request.get(app + "/w/acme/audit/export?format=csv", { headers: { "Sec-Fetch-Site": "cross-site" } });
  assert.equal(crossSite.status(), 403);
});

test("a Maintainer reads the log but sees what only Owners can do, and a Viewer is refused", async () => {
  const { page } = await openAs("mia", "/w/acme/audit");
  for (const name of ["Replay", "Export", "Verify now"]) assert.ok(await page.getByRole("button", { name, exact: true }).isDisabled(), name);
  for (const reason of ["Only an Owner can replay or export the audit log.", "Only an Owner can verify the log."]) {
    assert.ok(await page.getByText(reason).isVisible(), reason);
  }
  assert.equal((await page.goto(app + "/w/acme/audit/export?format=csv")).status(), 403);
  assert.equal((await page.goto(app + "/w/acme/audit/replay")).status(), 403);
  const leo = await visitor(browser, app, "leo");
  assert.equal((await leo.open("/w/acme/audit")).status(), 403);
  await leo.page.getByText("Your role does not allow this").waitFor();
  await leo.page.getByText("Only an Owner or Maintainer can do this. You are a Viewer.").waitFor();
  assert.equal(await leo.page.locator("nav >> text=Audit log").count(), 0);
});

test("replay by steps, by playing and by the slider", async () => {
  const ada = await openAs("ada", "/w/acme/members");
  const max = (await (await api(ada, "GET", "/members?q=max")).json()).items[0];
  for (const role of ["Viewer", "Maintainer", "Viewer"]) assert.equal((await api(ada, "PATCH", "/members/" + max.id, { role })).status(), 200);
  const { page, open, problems } = ada;
  await open("/w/acme/audit/replay");
  const asOf = page.locator("#replay .banner"), step = page.locator(".re-step");
  await asOf.getByText(/As of .+ UTC, event [\d,]+ of [\d,]+/).waitFor();
  await page.getByText("Read-only").waitFor();
  const changed = page.locator(".re-state tr", { hasText: "Max Weber" });
  const [last, middle, first] = (await (await api(ada, "GET", "/audit?action=member.role_changed&limit=3")).json()).items.map((r) => r.seq.toLocaleString("en"));
  /** waitForStep waits until the step is this event and Max has this role. */
  const waitForStep = async (event, role) => {
    await step.getByText("event " + event).waitFor();
    await changed.locator("ins", { hasText: role }).waitFor();
  };
  await open("/w/acme/audit/replay?seq=" + last.replaceAll(",", ""));
  await waitForStep(last, "Viewer");
  await page.keyboard.press("ArrowLeft");
  await waitForStep(middle, "Maintainer");
  await page.getByRole("link", { name: "Previous" }).click();
  await waitForStep(first, "Viewer");
  await step.locator(".before", { hasText: /role: Maintainer/ }).waitFor();

  await page.locator("#play").click(); // plays to the newest step and stops
  await page.locator('#play[title^="Play from the first"]').waitFor({ timeout: 20000 });
  await waitForStep(last, "Viewer");

  const slider = page.locator("#slider");
  const before = await asOf.innerText();
  await slider.focus();
  await page.keyboard.press("PageDown");
  await page.waitForFunction((was) => document.querySelector("#replay .banner").innerText !== was, before);
  assert.equal(await page.evaluate(() => document.activeElement.id), "slider", "the slider keeps the focus");
  await page.getByLabel("Time, in UTC").fill("2020-01-01T00:00");
  await page.getByRole("button", { name: "Go" }).click();
  await asOf.getByText(/event 1 of/).waitFor();
  assert.deepEqual(problems, []);
});

test("replay names actors and targets, and says if its event is not on the timeline", async () => {
  const { page, open, context } = await openAs("ada", "/w/acme/audit/replay?seq=10", { permissions: ["clipboard-read", "clipboard-write"] });
  await page.getByText("before these days").waitFor();
  assert.equal(await page.locator(".re-playhead").count(), 0);
  const { min, value } = await page.locator("#slider").evaluate((s) => ({ min: s.getAttribute("min"), value: s.getAttribute("value") }));
  assert.ok(Number(value) >= Number(min));
  const marks = await (await context.request.get(product.restUrl + "/api/v1/audit?limit=3&after=10&category=people", { headers: { "X-Svc-Tenant": "acme" } })).json();
  const numbers = await page.locator(".re-steps .num").allInnerTexts();
  assert.deepEqual(numbers.slice(-2), marks.items.slice(0, 2).map((r) => String(r.seq)), "the nearest events, regardless of their days");
  assert.match(await page.locator(".re-steps").innerText(), /Ada Lind invited \S+@acme\.example/);
  await page.getByRole("button", { name: "Copy link" }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), app + "/w/acme/audit/replay?seq=10");
  await open("/w/acme/audit/replay?range=90d");
  assert.equal(await page.locator(".re-playhead").count(), 1);
  assert.equal(await page.getByText("before these days").count(), 0);
  const [first, last] = await page.locator(".re-line-foot > *").evaluateAll((list) => [list[0], list.at(-1)].map((e) => e.getBoundingClientRect().bottom));
  assert.ok(Math.abs(first - last) < 8, "the controls are in one row");
  await page.locator(".re-state .pill", { hasText: "expired" }).waitFor(); // Piet's invitation
  await page.locator(".re-state .pill", { hasText: "revoked" }).waitFor(); // old-bot
  await page.locator(".re-state td", { hasText: /^Viewer member$/ }).waitFor();
});

test("replay from an older event selects a range that contains it, and Play works at the newest", async () => {
  const day = (ago) => new Date(Date.now() - ago * 86400000).toISOString().slice(0, 10);
  const { page, open } = await openAs("ada", `/w/acme/audit?q=action:run.merged+created:${day(45)}..${day(38)}`);
  const path = await page.getByRole("link", { name: /Link to event/ }).last().getAttribute("href");
  await open(path);
  assert.ok(await page.locator(".raw-event .json-key").count() > 3);
  await page.getByRole("link", { name: "Replay from here" }).click();
  await page.waitForURL(/range=90d/);
  assert.equal(await page.locator(".re-playhead").count(), 1);
  await open("/w/acme/audit/replay");
  assert.equal(await page.locator("#play").getAttribute("aria-disabled"), null);
  await page.getByRole("link", { name: "16×" }).waitFor();
});

test("in a replay Space is for the button or switch that has the focus, and plays otherwise", async () => {
  const { page, problems } = await openAs("ada", "/w/acme/audit/replay?seq=10");
  const theme = await page.locator(".theme").getAttribute("data-theme-now");
  await page.locator("#theme").focus();
  await page.keyboard.press("Space");
  await page.waitForFunction((was) => document.querySelector(".theme").dataset.themeNow !== was, theme);
  assert.equal(await page.evaluate(() => location.search), "?seq=10");
  const people = page.getByRole("switch", { name: "Only people and access" });
  await people.focus();
  await page.keyboard.press("Space");
  await page.waitForURL(/replay\?all=1&seq=10$/);
  assert.equal(await people.getAttribute("aria-checked"), "false");
  await page.keyboard.press("Space");
  await page.waitForURL(/play=1/);
  assert.deepEqual(problems, []);
});

test("replay works without scripts", async () => {
  const { page } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await page.goto(app + "/w/acme/audit/replay?seq=14");
  await page.locator("#replay .banner").getByText(/event 14 of/).waitFor();
  await page.getByRole("link", { name: "Next" }).click();
  await page.locator("#replay .banner").getByText(/event 15 of/).waitFor();
  await page.getByRole("button", { name: "Go to this time" }).click();
  await page.locator("#replay .banner").getByText(/As of/).waitFor();
  assert.equal((await page.goto(app + "/w/acme/audit/replay?seq=999999999")).status(), 422);
});

test("the audit log and replay pass axe", async () => {
  await checkAccessibility(browser, app, "ada", "/w/acme/audit?q=action:member.*", async (page) => {
    await page.locator("summary.event-row").first().click();
    await page.locator(".event .raw-event pre").first().waitFor();
  });
  await checkAccessibility(browser, app, "mia", "/w/acme/audit?q=created:never");
  await checkAccessibility(browser, app, "ada", "/w/acme/audit/replay?seq=14");
});
