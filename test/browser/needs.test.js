// Answers that ask for a text first, with scripts and without.
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

test("an answer with a text is given without scripts, and one that is refused keeps it", async () => {
  for (const scripts of [false, true]) {
    const { page } = await visitor(browser, app, "ada", { javaScriptEnabled: scripts });
    await page.goto(app + "/w/acme/needs");
    const before = await page.locator(".decision").count();
    const press = () => page.getByRole("button", { name: /^(Request changes|Correct)…/ }).first().click();
    const dialog = page.locator("dialog[open]"), text = dialog.locator("textarea");
    await press();
    await text.evaluate((field) => field.removeAttribute("maxlength"));
    await text.fill("W".repeat(10_001));
    await dialog.locator("button.primary").click();
    await page.getByText(/The text must/).first().waitFor();
    assert.equal((await text.inputValue()).length, 10_001, "what was typed is kept");
    await text.fill("Keep the old limit.");
    await dialog.locator("button.primary").click();
    await page.getByText("Answered").first().waitFor();
    await page.waitForFunction((n) => document.querySelectorAll(".decision").length === n, before - 1);
  }
});

test("without scripts a text is not lost when its decision was answered meanwhile", async () => {
  const { page, context } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await page.goto(app + "/w/acme/needs");
  await page.getByRole("button", { name: /^(Request changes|Correct)…/ }).first().click();
  const dialog = page.locator("dialog[open]");
  await dialog.locator("textarea").fill("Keep the old limit.");
  const form = dialog.locator("form"), value = (name) => form.locator(`[name=${name}]`).inputValue();
  const faster = { action: await value("action"), head: await value("head"), note: "Do it." };
  assert.ok((await context.request.post(app + (await form.getAttribute("action")), { form: faster })).ok());
  await dialog.locator("button.primary").click();
  await page.getByRole("alert").getByText("Your text was not sent. Keep the old limit.").waitFor();
});
