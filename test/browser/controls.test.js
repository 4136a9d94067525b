// Controls that all pages share: sidebar, notices, reset after refusals, menus, dialogs, keyboard shortcuts.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { checkAccessibility, chooseRole, desktop, phone, setRole, showsRole, visitor } from "./app.js";
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

test("the sidebar stays in view when the page is scrolled", async () => {
  const { page, open } = await visitor(browser, app, "ada", { viewport: { width: 1280, height: 400 } });
  await open("/w/acme/audit");
  await page.locator(".event").nth(20).scrollIntoViewIfNeeded();
  assert.ok(await page.evaluate(() => scrollY) > 300, "the page was not scrolled");
  const { y } = await page.locator("#navigation").boundingBox();
  assert.equal(y, await page.locator(".top").evaluate((top) => top.getBoundingClientRect().height));
});

/** waitUntilOnTop waits until nothing covers the element that a selector finds. */
const waitUntilOnTop = (page, selector) => page.waitForFunction((selector) => {
  const el = document.querySelector(selector);
  if (!el) return false;
  const { x, y, width, height } = el.getBoundingClientRect();
  return el.contains(document.elementFromPoint(x + width / 2, y + height / 2));
}, selector);

test("a refusal is shown above its dialog, which stays open", async () => {
  const { page, open, toast } = await visitor(browser, app, "ada");
  await page.addInitScript(() => { // the notice stays until the end of the test
    const set = window.setTimeout;
    window.setTimeout = (then, wait, ...rest) => set(then, wait === 9000 ? 600000 : wait, ...rest);
  });
  await open("/w/acme/farm");
  await page.getByLabel(/More actions for/).first().click();
  await page.getByRole("button", { name: "Drain…" }).first().click();
  const note = page.locator("dialog[open] [name=note]");
  await note.evaluate((field) => field.removeAttribute("maxlength"));
  await note.fill("x".repeat(1000));
  await page.locator("dialog[open]").getByRole("button", { name: "Drain" }).click();
  await toast("The text");
  await waitUntilOnTop(page, "#toasts .toast");
  assert.equal((await note.inputValue()).length, 1000);
  await page.locator("dialog[open]").getByRole("button", { name: "Cancel" }).click();
  await waitUntilOnTop(page, "#toasts .toast");
});

test("a control is reset when its change is refused or gets no answer", async () => {
  const { page, open, toast, context } = await visitor(browser, app, "ada");
  await open("/w/acme/members");
  const approves = page.getByLabel("Leo Brandt may approve loops", { exact: true });
  const was = await approves.isChecked();
  await context.setOffline(true);
  await setRole(page, "Vera Novak", "Maintainer");
  await toast("No answer from the server.");
  await showsRole(page, "Vera Novak", "Viewer");
  await approves.click();
  if (was) await page.getByRole("button", { name: "Take approve-loops" }).click();
  await page.locator("#toasts .toast").nth(1).waitFor();
  assert.equal(await approves.isChecked(), was);
  await context.setOffline(false);
  await page.route("**/approve", (route) => route.fulfill({ status: 503, headers: { "HX-Reswap": "none", "X-Notice": '{"text":"Busy.","bad":true}' } }));
  await approves.click();
  if (was) await page.getByRole("button", { name: "Take approve-loops" }).click();
  await toast("Busy.");
  assert.equal(await approves.isChecked(), was);

  const busy = page.locator("#toasts .toast", { hasText: "Busy." });
  await busy.hover(); // so that it stays
  for (const viewport of [desktop, phone]) {
    await page.setViewportSize(viewport);
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    assert.deepEqual(await page.evaluate(() => {
      const { left, right, top, bottom } = document.querySelector("#toasts .toast:last-child").getBoundingClientRect();
      const covers = (r) => r.left < right && r.right > left && r.top < bottom && r.bottom > top;
      return [...document.querySelectorAll("main :is(a, button, input)")].filter((el) => el.checkVisibility() && covers(el.getBoundingClientRect())).map((el) => el.outerHTML);
    }), [], `notices cover no control at ${viewport.width}`);
  }
  await busy.getByRole("button", { name: "Close" }).click();
  await busy.waitFor({ state: "detached" });
});

test("a menu closes on Escape, on a click elsewhere, and when another one opens", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/members");
  const openMenus = (n) => page.waitForFunction((n) => document.querySelectorAll("details.more[open]").length === n, n);
  await page.getByLabel("More actions for Vera Novak").click();
  await openMenus(1);
  await page.keyboard.press("Escape");
  await openMenus(0);
  assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), "More actions for Vera Novak");
  await page.getByLabel("More actions for Vera Novak").click();
  await page.locator("h1").click();
  await openMenus(0);
  await page.getByLabel("More actions for Vera Novak").click();
  await page.getByLabel("More actions for Ada Lind").press("Enter");
  await openMenus(1);
  await page.getByRole("link", { name: "View activity" }).waitFor();
  await page.getByRole("button", { name: "Leave the workspace" }).click();
  await page.getByRole("button", { name: "Stay a member" }).click();
  await openMenus(1);
});

test("Enter activates the focused row", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/members");
  await page.locator('[id^="member-"]', { hasText: "vera@acme.example" }).evaluate((row) => { row.tabIndex = -1; row.focus(); });
  await page.keyboard.press("Enter");
  assert.ok(await page.locator("details.more[open]", { hasText: "Remove from the workspace" }).count());
  assert.equal(new URL(page.url()).pathname, "/w/acme/members");
  await open("/w/acme/audit");
  await page.keyboard.down("Enter"); // as on a button, after which a row has the focus
  await page.keyboard.press("j");
  await page.keyboard.down("Enter");
  await page.keyboard.up("Enter");
  assert.equal(await page.locator(".event > details[open]").count(), 0);
  await page.keyboard.press("Enter");
  await page.locator(".event > details[open]").waitFor();
  assert.equal(new URL(page.url()).pathname, "/w/acme/audit");
});

test("without scripts dialogs work, and controls that need scripts are hidden", async () => {
  const { page } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await page.goto(app + "/w/acme/farm");
  await page.getByRole("button", { name: "Add a runner" }).click();
  await page.locator("#add-name").waitFor();
  await page.keyboard.press("Escape");
  await page.getByLabel(/More actions for/).first().click();
  await page.getByRole("button", { name: "Drain…" }).first().click();
  await page.locator("dialog[open]").getByRole("button", { name: "Cancel" }).click();
  await page.locator("dialog[open]").waitFor({ state: "detached" });
  for (const selector of [".search kbd", "#live", ".loading .rows"]) assert.ok(await page.locator(selector).first().isHidden(), selector);
});

test("without scripts a search leads to a page with what was found", async () => {
  const { page } = await visitor(browser, app, "vera", { javaScriptEnabled: false });
  await page.goto(app + "/w/acme/dashboard");
  await page.locator(".search").click();
  await page.waitForURL(app + "/w/acme/search?");
  await page.locator("nav").getByText("Needs You").waitFor();
  await page.getByRole("searchbox").fill("torr");
  await page.keyboard.press("Enter");
  await page.locator("main").getByRole("link", { name: "Mia Torres" }).click();
  await page.waitForURL(/members\?q=mia%40acme\.example$/);
  await page.goto(app + "/w/acme/search?q=nothing+has+this");
  await page.getByText("No results").waitFor();
});
test("the list of shortcuts depends on the operating system and the page", async () => {
  const { page, open } = await visitor(browser, app, "ada", { userAgent: "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)" });
  await open("/w/acme/dashboard");
  await page.keyboard.press("?");
  assert.match(await page.locator("#keys").innerText(), /⌘\s*K/);
  assert.doesNotMatch(await page.locator("#keys").innerText(), /Search this page/);
  const other = await visitor(browser, app, "ada");
  await other.open("/w/acme/farm/jobs");
  await other.page.keyboard.press("?");
  assert.match(await other.page.locator("#keys").innerText(), /Ctrl\s*K[^]*Search this page[^]*Cancel the job/);
});

test("a slow search is indicated", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/members");
  let answer;
  const requested = new Promise((resolve) => page.route(/members\?.*q=ver/, (route) => { answer = () => route.continue(); resolve(); }));
  await page.locator("#find").pressSequentially("ver");
  await requested;
  await page.waitForFunction(() => getComputedStyle(document.querySelector("#people .rows")).opacity < 0.6);
  answer();
  await page.waitForFunction(() => getComputedStyle(document.querySelector("#people .rows")).opacity === "1");
});

test("on a phone touch targets are large enough", async () => {
  const { page, open } = await visitor(browser, app, "ada", { viewport: phone });
  await open("/w/acme/farm");
  const { height } = await page.locator(".seg a").first().boundingBox();
  assert.ok(height >= 40, `${height}`);
  await open("/w/acme/members");
  const flip = page.getByLabel("Mia Torres may approve loops", { exact: true });
  await flip.scrollIntoViewIfNeeded();
  const { x, y } = await flip.boundingBox();
  assert.ok(await page.evaluate(([x, y]) => document.elementFromPoint(x, y).matches(".switch"), [x + 17, y - 8]));
});

const dialogs = [
  ["/w/acme/members", "confirm", async (page) => { await chooseRole(page, "Mia Torres", "Viewer"); await page.getByText("Make Mia Torres a Viewer?").waitFor(); }],
  ["/w/acme/members", "keys", async (page) => { await page.keyboard.press("?"); await page.locator("#keys[open]").waitFor(); }],
  ["/w/acme/runs", "queue", async (page) => { await page.getByRole("button", { name: "Queue an issue" }).click(); await page.locator("dialog[open]").waitFor(); }],
  ["/w/acme/farm", "enroll", async (page) => { await page.getByRole("button", { name: "Add a runner" }).click(); await page.getByRole("button", { name: "Create command" }).click(); await page.locator(".command pre:visible").waitFor(); }],
  ["/w/acme/farm", "drain", async (page) => { await page.getByLabel(/More actions for/).first().click(); await page.getByRole("button", { name: "Drain…" }).first().click(); await page.locator("dialog[open]").waitFor(); }],
];
for (const [path, name, prepare] of dialogs) {
  test(`dialog ${name} passes axe`, () => checkAccessibility(browser, app, "ada", path, prepare, name === "enroll" ? "main" : "dialog[open]"));
}
for (const path of ["/w/acme/farm/enroll", "/w/acme/farm/enrollments", "/w/acme/search?q=a"]) {
  test(`${path} passes axe`, () => checkAccessibility(browser, app, "ada", path));
}
test("an event page passes axe", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/audit");
  await checkAccessibility(browser, app, "ada", await page.getByRole("link", { name: /Link to event/ }).first().getAttribute("href"));
});
