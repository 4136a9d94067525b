// Service accounts: a token is shown once, and stops working at once when it is rotated or revoked.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { checkAccessibility, visitor } from "./app.js";
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

const isAccepted = async (token) => (await fetch(product.restUrl + "/api/v1/runs?status=active", { headers: { Authorization: "Bearer " + token } })).status === 200;
const row = (page, name) => page.locator(".account-row", { hasText: name });

async function create(page, name, scopes = []) {
  await page.getByRole("button", { name: "New service account" }).click();
  await page.getByLabel("Name").fill(name);
  for (const scope of scopes) await page.getByRole("checkbox", { name: scope }).check();
  await page.getByRole("button", { name: "Create", exact: true }).click();
}

/** save says that the shown token is saved. */
const save = (page) => page.getByRole("link", { name: "I’ve saved it" }).click();

test("a token is shown once, can be copied, and is stored nowhere in the browser", async () => {
  const { page, context, open, toast, problems } = await visitor(browser, app, "ada", { permissions: ["clipboard-read", "clipboard-write"] });
  const addresses = [];
  page.on("request", (request) => addresses.push(request.url()));
  await open("/w/acme/members");
  await create(page, "release-bot");
  await toast("Service account created.");
  await page.getByText("Copy this token now. You won’t be able to see it again.").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), "new-token");
  const token = await page.locator("#new-token .token-line code").innerText();
  assert.match(token, /^tok_svc_[0-9A-Za-z]{38}$/);
  await page.locator("#new-token").getByRole("button", { name: "Copy" }).first().click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), token);
  assert.ok(await isAccepted(token));

  const command = await page.locator("#new-token pre").innerText();
  assert.ok(!command.includes(token), "the token would be in the shell's history");
  assert.ok(command.includes(product.restUrl + "/api/v1/runs?status=active"));

  await row(page, "release-bot").getByText("tok_svc_…" + token.slice(-4)).waitFor();
  await row(page, "release-bot").getByText("created by Ada Lind").waitFor();
  await page.locator("#account-list").evaluate((list) => { list.dataset.old = "yes"; });
  await create(await (await openAs("mia")).page, "other-bot"); // another person's change updates the list
  await row(page, "other-bot").waitFor();
  assert.equal(await page.locator("#new-token .token-line code").innerText(), token, "the token is still there");

  const dialog = page.getByRole("dialog", { name: "Token of release-bot" }), asked = [];
  page.on("dialog", async (leaving) => { asked.push(leaving.type()); await leaving.dismiss(); });
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await page.mouse.click(5, 5);
  await page.evaluate(() => document.querySelector("#navigation a").click());
  await page.waitForFunction(() => navigation.transition === null);
  assert.deepEqual(asked, ["beforeunload"]);
  assert.ok(await dialog.isVisible());
  await page.getByRole("link", { name: "I’ve saved it" }).click();
  await page.locator("#new-token").waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement.id), "service-accounts-title");
  await page.getByRole("button", { name: "New service account" }).click(); // the page is usable again
  await page.keyboard.press("Escape");
  assert.ok(!(await page.content()).includes(token));
  await page.reload();
  assert.ok(!(await page.content()).includes(token));
  for (const address of [...addresses, page.url()]) assert.ok(!address.includes("tok_svc_"), address);
  for (const cookie of await context.cookies()) assert.ok(!cookie.value.includes("tok_svc_"), cookie.name);
  assert.ok(!(await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]))).includes("tok_svc_"));
  assert.deepEqual(problems, []);
});

test("a shown token disappears when somebody else rotates it, and only then", async () => {
  const ada = await openAs("ada"), mia = await openAs("mia");
  await create(ada.page, "first-bot");
  await create(mia.page, "second-bot");
  await ada.page.locator("#new-token").getByText("tok_svc_").waitFor();
  await row(ada.page, "second-bot").waitFor();
  await ada.page.locator("#new-token").waitFor();
  await save(mia.page);
  await mia.page.getByRole("button", { name: "Rotate the token of first-bot" }).click();
  await mia.page.getByRole("button", { name: "Rotate the token", exact: true }).click();
  await ada.page.locator("#new-token").waitFor({ state: "detached" });
  await mia.page.locator("#new-token").waitFor();
});

/** openAs opens the page as somebody. */
async function openAs(name) {
  const who = await visitor(browser, app, name);
  await who.open("/w/acme/service-accounts");
  return who;
}

test("the rule for names is checked while typing, and refusals are shown in the form", async () => {
  const { page } = await openAs("ada");
  await page.getByRole("button", { name: "New service account" }).click();
  const name = page.getByLabel("Name"), valid = () => name.evaluate((field) => field.checkValidity());
  const ruleColour = () => page.locator("#account-rule").evaluate((p) => getComputedStyle(p).color);
  await page.getByText("3–40 lowercase letters, digits and hyphens, starting with a letter.").waitFor();
  const normal = await ruleColour();
  for (const invalid of ["ab", "1bot", "Bot", "a_bot", "-bot", "bot!"]) {
    await name.fill("");
    await name.pressSequentially(invalid);
    assert.equal(await valid(), false, invalid);
    assert.notEqual(await ruleColour(), normal, invalid);
  }
  const red = await ruleColour();
  await name.fill("ci-bot");
  assert.equal(await valid(), true);
  assert.notEqual(await ruleColour(), red);
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.locator("#account-name-error").waitFor();
  assert.equal(await page.locator("#toasts .toast.bad").count(), 0, "shown only in the form");
  assert.ok(await page.locator("#new-account").isVisible(), "the dialog stays");
  assert.equal(await name.inputValue(), "ci-bot", "the typed name stays");
  await name.fill("no-scopes");
  await page.getByRole("checkbox", { name: "Read what a Viewer can read" }).uncheck();
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.locator("#account-scopes-error", { hasText: "must not be empty" }).waitFor();
});

test("rotating asks for confirmation, and the old token stops working at once", async () => {
  const { page, toast } = await openAs("mia");
  await create(page, "rotated-bot");
  const first = await page.locator("#new-token .token-line code").innerText();
  await save(page);
  await page.getByRole("button", { name: "Rotate the token of rotated-bot" }).click();
  await page.getByText("The old token stops working at once").waitFor();
  await page.getByRole("button", { name: "Keep the old token" }).click();
  assert.ok(await isAccepted(first), "the token was not rotated");
  await page.getByRole("button", { name: "Rotate the token of rotated-bot" }).click();
  await page.getByRole("button", { name: "Rotate the token", exact: true }).click();
  await toast("The old token has stopped working.");
  assert.equal(await page.evaluate(() => document.activeElement.id), "new-token");
  const second = await page.locator("#new-token .token-line code").innerText();
  assert.notEqual(second, first);
  assert.deepEqual([await isAccepted(first), await isAccepted(second)], [false, true]);
  await row(page, "rotated-bot").getByText("tok_svc_…" + second.slice(-4)).waitFor();
});

test("revoking requires the name to be typed, and is permanent", async () => {
  const { page, toast } = await openAs("ada");
  await create(page, "revoked-bot", ["Submit and cancel build-farm jobs"]);
  const token = await page.locator("#new-token .token-line code").innerText();
  await save(page);
  await page.getByRole("button", { name: "Revoke revoked-bot" }).click();
  const confirm = page.getByRole("dialog").getByRole("button", { name: "Revoke revoked-bot" });
  assert.ok(await confirm.isDisabled());
  await page.getByLabel("Type revoked-bot").fill("revoked-bo");
  assert.ok(await confirm.isDisabled());
  await page.keyboard.press("Enter");
  assert.ok(await confirm.isVisible(), "the dialog stays until the name is right");
  await page.getByLabel("Type revoked-bot").fill("revoked-bot");
  await page.keyboard.press("Enter");
  await toast("revoked-bot is revoked.");
  assert.equal(await isAccepted(token), false);
  await page.waitForFunction(() => document.activeElement.closest(".account-row")?.innerText.includes("revoked-bot"));
  await row(page, "revoked-bot").getByText("revoked", { exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Rotate the token of revoked-bot" }).count(), 0);
});

test("a Viewer sees the reason instead of the button", async () => {
  for (const path of ["/w/acme/service-accounts", "/w/acme/members"]) {
    const { page, open } = await visitor(browser, app, "leo");
    await open(path);
    await page.getByText("Only an Owner or Maintainer can manage service accounts.").waitFor();
    assert.equal(await page.getByRole("button", { name: "New service account" }).count(), 0);
    assert.equal(await page.locator(".account-row").count(), 0);
  }
  const { context } = await visitor(browser, app, "leo");
  const answer = await context.request.post(app + "/w/acme/service-accounts", { headers: { Origin: app }, form: { name: "viewers-bot", scope: "api.read" } });
  assert.ok(!(await answer.text()).includes("tok_svc_"));
});

test("without scripts a token is in the form's response, and a reload creates no second account", async () => {
  const { page } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await page.goto(app + "/w/acme/service-accounts");
  await page.getByRole("button", { name: "New service account" }).click();
  await page.getByLabel("Name").fill("plain-bot");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const token = await page.locator("#new-token .token-line code").innerText();
  assert.ok(await isAccepted(token));
  await page.reload();
  await page.getByText("its token was shown then").first().waitFor();
  assert.ok(!(await page.content()).includes(token));
  assert.ok(await isAccepted(token));
});

test("without scripts revoking requires the name to be typed", async () => {
  const { page } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await page.goto(app + "/w/acme/service-accounts");
  await page.getByRole("button", { name: "Revoke plain-bot" }).click();
  await page.getByRole("heading", { name: "Revoke plain-bot?" }).waitFor();
  await page.getByLabel("Type plain-bot").fill("plain-bo");
  await page.getByRole("button", { name: "Revoke plain-bot" }).click();
  await page.getByText("That is not plain-bot.").waitFor();
  await page.getByLabel("Type plain-bot").fill("plain-bot");
  await page.getByRole("button", { name: "Revoke plain-bot" }).click();
  await page.getByText("plain-bot is revoked.").waitFor();
});

test("service accounts pass axe", async () => {
  await checkAccessibility(browser, app, "ada", "/w/acme/service-accounts", (page) => create(page, "axe-bot-" + Math.random().toString(36).replace(/[^a-z]/g, "").slice(0, 9)));
  await checkAccessibility(browser, app, "ada", "/w/acme/service-accounts", (page) => page.getByRole("button", { name: "New service account" }).click());
  await checkAccessibility(browser, app, "leo", "/w/acme/service-accounts");
});
