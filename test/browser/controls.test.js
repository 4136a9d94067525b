// What all pages share while they are used: the sidebar, notices, refused changes, menus, keys.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { visitor } from "./app.js";
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

test("the sidebar stays in view on a page that is scrolled", async () => {
  const { page, open } = await visitor(browser, app, "ada", { viewport: { width: 1280, height: 400 } });
  await open("/w/acme/audit");
  await page.locator(".event").nth(20).scrollIntoViewIfNeeded();
  assert.ok(await page.evaluate(() => scrollY) > 300, "scrolled");
  const { y } = await page.locator("#navigation").boundingBox();
  assert.equal(y, await page.locator(".top").evaluate((top) => top.getBoundingClientRect().height));
});

/** onTop waits until nothing covers what a selector finds. */
const onTop = (page, selector) => page.waitForFunction((selector) => {
  const at = document.querySelector(selector), { x, y, width, height } = at.getBoundingClientRect();
  return document.elementFromPoint(x + width / 2, y + height / 2) === at;
}, selector);

test("a refusal is read over the dialog that it is about, which stays", async () => {
  const { page, open, toast } = await visitor(browser, app, "ada");
  await open("/w/acme/farm");
  await page.getByLabel(/More about/).first().click();
  await page.getByRole("button", { name: "Drain…" }).first().click();
  const note = page.locator("dialog[open] [name=note]");
  await note.evaluate((field) => field.removeAttribute("maxlength"));
  await note.fill("x".repeat(1000));
  await page.locator("dialog[open]").getByRole("button", { name: "Drain" }).click();
  await toast("The text");
  await onTop(page, "#toasts .toast");
  assert.equal((await note.inputValue()).length, 1000);
  await page.locator("dialog[open]").getByRole("button", { name: "Cancel" }).click();
  await onTop(page, "#toasts .toast");
});

test("a change that gets no answer, or is refused, does not stay on the screen", async () => {
  const { page, open, toast, context } = await visitor(browser, app, "ada");
  await open("/w/acme/members");
  const role = page.getByLabel("Role of Vera Novak", { exact: true }), approves = page.getByLabel("Leo Brandt may approve loops", { exact: true });
  const was = await approves.isChecked();
  await context.setOffline(true);
  await role.selectOption("Maintainer");
  await toast("No answer from the server.");
  assert.equal(await role.inputValue(), "Viewer");
  await approves.click();
  if (was) await page.getByRole("button", { name: "Continue" }).click();
  await page.locator("#toasts .toast").nth(1).waitFor();
  assert.equal(await approves.isChecked(), was);
  await context.setOffline(false);
  await page.route("**/approve", (route) => route.fulfill({ status: 503, headers: { "HX-Reswap": "none", "X-Notice": '{"text":"Busy.","bad":true}' } }));
  await approves.click();
  if (was) await page.getByRole("button", { name: "Continue" }).click();
  await toast("Busy.");
  assert.equal(await approves.isChecked(), was);
});

test("a menu closes by Escape, by a press elsewhere, and when another opens", async () => {
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
  await page.getByRole("button", { name: "Cancel" }).last().click();
  await openMenus(1);
});

test("Enter opens what the row is about", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/members");
  await page.locator('[id^="member-"]', { hasText: "vera@acme.example" }).evaluate((row) => { row.tabIndex = -1; row.focus(); });
  await page.keyboard.press("Enter");
  assert.ok(await page.locator("details.more[open]", { hasText: "Remove from the workspace" }).count());
  assert.equal(new URL(page.url()).pathname, "/w/acme/members");
  await open("/w/acme/audit");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.locator(".event > details[open]").waitFor();
  assert.equal(new URL(page.url()).pathname, "/w/acme/audit");
});
