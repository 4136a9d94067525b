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

/** onTop is whether nothing covers what is shown. */
const onTop = (at) => at.evaluate((at) => {
  const { x, y, width, height } = at.getBoundingClientRect();
  return document.elementFromPoint(x + width / 2, y + height / 2) === at;
});

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
  assert.ok(await onTop(page.locator("#toasts .toast").first()));
  assert.equal((await note.inputValue()).length, 1000);
  await page.locator("dialog[open]").getByRole("button", { name: "Cancel" }).click();
  assert.ok(await onTop(page.locator("#toasts .toast").first()));
});
