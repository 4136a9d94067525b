// Service accounts: a token is shown once, and ends at once.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { accessible, visitor } from "./app.js";
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

const works = async (token) => (await fetch(product.restUrl + "/api/v1/runs?status=active", { headers: { Authorization: "Bearer " + token } })).status === 200;
const row = (page, name) => page.locator(".account-row", { hasText: name });

async function create(page, name, scopes = []) {
  await page.getByRole("button", { name: "New service account" }).click();
  await page.getByLabel("Name").fill(name);
  for (const scope of scopes) await page.getByRole("checkbox", { name: scope }).check();
  await page.getByRole("button", { name: "Create", exact: true }).click();
}

test("a token is shown once, can be copied, and is nowhere else", async () => {
  const { page, context, open, toast, complaints } = await visitor(browser, app, "ada", { permissions: ["clipboard-read", "clipboard-write"] });
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
  assert.ok(await works(token));

  const command = await page.locator("#new-token pre").innerText();
  assert.ok(!command.includes(token), "the history of the shell would have it");
  assert.ok(command.includes(product.restUrl + "/api/v1/runs?status=active"));

  await row(page, "release-bot").getByText("tok_svc_…" + token.slice(-4)).waitFor();
  await row(page, "release-bot").getByText("created by ada@acme.example").waitFor();
  await page.locator("#account-list").evaluate((list) => { list.dataset.old = "yes"; });
  await create(await (await visitorOf("mia")).page, "other-bot"); // somebody else's change asks for the list anew
  await row(page, "other-bot").waitFor();
  assert.equal(await page.locator("#new-token .token-line code").innerText(), token, "the token is still there");

  await page.getByRole("link", { name: "I’ve saved it" }).click();
  await page.locator("#new-token").waitFor({ state: "detached" });
  assert.ok(!(await page.content()).includes(token));
  await page.reload();
  assert.ok(!(await page.content()).includes(token));
  for (const address of [...addresses, page.url()]) assert.ok(!address.includes("tok_svc_"), address);
  for (const cookie of await context.cookies()) assert.ok(!cookie.value.includes("tok_svc_"), cookie.name);
  assert.deepEqual(await page.evaluate(() => [localStorage.length, sessionStorage.length]), [0, 0]);
  assert.deepEqual(complaints, []);
});

test("a token goes from the page when somebody else rotates it, and with no other account", async () => {
  const ada = await visitorOf("ada"), mia = await visitorOf("mia");
  await create(ada.page, "first-bot");
  await create(mia.page, "second-bot");
  await ada.page.locator("#new-token").getByText("tok_svc_").waitFor();
  await row(ada.page, "second-bot").waitFor();
  await ada.page.locator("#new-token").waitFor();
  await mia.page.getByRole("button", { name: "Rotate the token of first-bot" }).click();
  await mia.page.getByRole("button", { name: "Continue" }).click();
  await ada.page.locator("#new-token").waitFor({ state: "detached" });
  await mia.page.locator("#new-token").waitFor();
});

async function visitorOf(name) {
  const who = await visitor(browser, app, name);
  await who.open("/w/acme/service-accounts");
  return who;
}

test("the rule of names is told while typing, and refusals where they arise", async () => {
  const { page } = await visitorOf("ada");
  await page.getByRole("button", { name: "New service account" }).click();
  const name = page.getByLabel("Name"), valid = () => name.evaluate((field) => field.checkValidity());
  const rule = () => page.locator("#account-rule").evaluate((p) => getComputedStyle(p).color);
  await page.getByText("3–40 lowercase letters, digits and hyphens, starting with a letter.").waitFor();
  const plain = await rule();
  for (const wrong of ["ab", "1bot", "Bot", "a_bot", "-bot", "bot!"]) {
    await name.fill("");
    await name.pressSequentially(wrong);
    assert.equal(await valid(), false, wrong);
    assert.notEqual(await rule(), plain, wrong);
  }
  const red = await rule();
  await name.fill("ci-bot");
  assert.equal(await valid(), true);
  assert.notEqual(await rule(), red);
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("alert").getByText(/name/i).waitFor();
  assert.equal(await page.locator("#toasts .toast.bad").count(), 0, "told in the form alone");
  assert.ok(await page.locator("#new-account").isVisible(), "the dialog stays");
  assert.equal(await name.inputValue(), "ci-bot", "what was typed stays");
  await name.fill("no-scopes");
  await page.getByRole("checkbox", { name: "Read what a Viewer can read" }).uncheck();
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("alert").getByText("Scopes must not be empty.").waitFor();
});

test("rotating ends the old token at once, and asks first", async () => {
  const { page, toast } = await visitorOf("mia");
  await create(page, "rotated-bot");
  const first = await page.locator("#new-token .token-line code").innerText();
  await page.getByRole("button", { name: "Rotate the token of rotated-bot" }).click();
  await page.getByText("The old token stops working at once").waitFor();
  await page.getByRole("button", { name: "Cancel" }).last().click();
  assert.ok(await works(first), "nothing was done");
  await page.getByRole("button", { name: "Rotate the token of rotated-bot" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
  await toast("The old token has stopped working.");
  assert.equal(await page.evaluate(() => document.activeElement.id), "new-token");
  const second = await page.locator("#new-token .token-line code").innerText();
  assert.notEqual(second, first);
  assert.deepEqual([await works(first), await works(second)], [false, true]);
  await row(page, "rotated-bot").getByText("tok_svc_…" + second.slice(-4)).waitFor();
});

test("revoking wants the name typed, and is for good", async () => {
  const { page, toast } = await visitorOf("ada");
  await create(page, "revoked-bot", ["Submit and cancel build-farm jobs"]);
  const token = await page.locator("#new-token .token-line code").innerText();
  await page.getByRole("button", { name: "Revoke revoked-bot" }).click();
  const go = page.getByRole("button", { name: "Continue" });
  assert.ok(await go.isDisabled());
  await page.getByLabel("Type revoked-bot").fill("revoked-bo");
  assert.ok(await go.isDisabled());
  await page.keyboard.press("Enter");
  assert.ok(await go.isVisible(), "it is asked until the name is right");
  await page.getByLabel("Type revoked-bot").fill("revoked-bot");
  await page.keyboard.press("Enter");
  await toast("revoked-bot is revoked.");
  await page.locator("#new-token").waitFor({ state: "detached" }); // it opens nothing any more
  assert.equal(await works(token), false);
  await page.waitForFunction(() => document.activeElement.closest(".account-row")?.innerText.includes("revoked-bot"));
  await row(page, "revoked-bot").getByText("revoked", { exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Rotate the token of revoked-bot" }).count(), 0);
});

test("a Viewer has no button, but the reason", async () => {
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

test("without scripts a token is in the answer of the form, and a reload makes no second one", async () => {
  const { page } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await page.goto(app + "/w/acme/service-accounts");
  await page.getByRole("button", { name: "New service account" }).click();
  await page.getByLabel("Name").fill("plain-bot");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const token = await page.locator("#new-token .token-line code").innerText();
  assert.ok(await works(token));
  await page.reload();
  await page.getByText("its token was shown then").first().waitFor();
  assert.ok(!(await page.content()).includes(token));
  assert.ok(await works(token));
});

test("without scripts the name is typed as well before an account is revoked", async () => {
  const { page } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await page.goto(app + "/w/acme/service-accounts");
  await page.getByRole("button", { name: "Revoke plain-bot" }).click();
  await page.getByRole("heading", { name: "Revoke plain-bot?" }).waitFor();
  await page.getByLabel("Type plain-bot").fill("plain-bo");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("That is not plain-bot.").waitFor();
  await page.getByLabel("Type plain-bot").fill("plain-bot");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("plain-bot is revoked.").waitFor();
});

test("service accounts pass axe", async () => {
  await accessible(browser, app, "ada", "/w/acme/service-accounts", (page) => create(page, "axe-bot-" + Math.random().toString(36).replace(/[^a-z]/g, "").slice(0, 9)));
  await accessible(browser, app, "ada", "/w/acme/service-accounts", (page) => page.getByRole("button", { name: "New service account" }).click());
  await accessible(browser, app, "leo", "/w/acme/service-accounts");
});
