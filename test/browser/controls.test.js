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
