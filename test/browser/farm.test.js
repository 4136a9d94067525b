// The pages of the build farm, with the runner that make run starts, and the account.
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

/** submit submits a job with a token and returns its id. */
async function submit(job) {
  const { token } = product.serviceAccounts.find((a) => a.scopes.includes("farm.submit"));
  const answer = await fetch(product.restUrl + "/api/v1/farm/jobs", {
    method: "POST", body: JSON.stringify(job),
    headers: { Authorization: "Bearer " + token, "Content-Type": "application/json" },
  });
  assert.equal(answer.status, 201);
  return (await answer.json()).job.id;
}

test("the runner is there, is drained with a note and resumed", async () => {
  const { page, open, toast } = await visitor(browser, app, "ada");
  const leo = await visitor(browser, app, "leo");
  await open("/w/acme/farm");
  await leo.open("/w/acme/farm");
  const row = page.locator(".runner-row", { hasText: "make-run" });
  await row.getByText(/Online|Busy/).waitFor();
  await row.locator("summary").click();
  await page.getByRole("button", { name: "Drain…" }).click();
  await page.locator("dialog[open] input").fill("Disk swap on Monday");
  await page.locator("dialog[open]").getByRole("button", { name: "Drain" }).click();
  await toast("takes no more");
  await row.getByText("“Disk swap on Monday”").waitFor();
  await leo.page.getByText("“Disk swap on Monday”").waitFor({ timeout: 20000 });
  await row.locator("summary").click();
  await page.getByRole("button", { name: "Take jobs again" }).click();
  await toast("takes jobs again");
  assert.ok(await leo.page.getByRole("button", { name: "Add a runner" }).isDisabled());
});

test("what is open stays open and usable while the page changes under it", async () => {
  const ada = await visitor(browser, app, "ada");
  const mia = await visitor(browser, app, "mia");
  await ada.open("/w/acme/farm");
  const row = ada.page.locator(".runner-row", { hasText: "make-run" });
  /** drain has another person change the row, and waits until it shows that. */
  const drain = async (note) => {
    await mia.open("/w/acme/farm");
    await mia.page.locator(".runner-row summary").click();
    await mia.page.getByRole("button", { name: "Drain…" }).click();
    await mia.page.locator("dialog[open] input").fill(note);
    await mia.page.locator("dialog[open]").getByRole("button", { name: "Drain" }).click();
    await row.getByText(note).waitFor({ state: "attached" });
    await mia.page.locator(".runner-row summary").click();
    await mia.page.getByRole("button", { name: "Take jobs again" }).click();
    await row.getByText(note).waitFor({ state: "detached" });
  };
  await ada.page.getByRole("button", { name: "Add a runner" }).click();
  await ada.page.fill("#add-name", "builder-7");
  await drain("under a dialog");
  assert.ok(await ada.page.locator("#add").isVisible());
  assert.equal(await ada.page.inputValue("#add-name"), "builder-7");
  await ada.page.keyboard.press("Escape");
  await row.locator("summary").click();
  await drain("under a menu");
  assert.ok(await row.getByRole("button", { name: "Revoke" }).isVisible());
  await row.locator("summary").click();
  await ada.page.keyboard.press("j");
  await drain("under the focus");
  assert.match(await ada.page.evaluate(() => document.activeElement.id), /^runner-/);
});

test("a job is followed as it runs: its log is text, whatever it says", async () => {
  const { page, open, complaints } = await visitor(browser, app, "ada");
  const id = await submit({
    name: "log <b>bold</b>",
    steps: [{ name: "Say", run: "printf '\\033[31mred\\033[0m <script>alert(1)</script> \\033]8;;https://evil.example\\alink\\033]8;;\\a\\n'; mkdir out; echo file > out/a.txt; sleep 4; echo the end" }],
    artifacts: [{ name: "out", paths: ["out/**"] }],
  });
  await open("/w/acme/farm/jobs/" + id);
  const log = page.locator(".lines");
  await log.getByText("<script>alert(1)</script>").waitFor();
  assert.equal(await log.locator(".red").innerText(), "red");
  assert.equal(await log.locator("script").count(), 0);
  assert.equal(await log.locator("a[href*=evil]").count(), 0);
  await log.getByText("the end").waitFor({ timeout: 20000 });
  await page.locator("h1 .pill", { hasText: "Succeeded" }).waitFor({ timeout: 20000 });
  await page.getByText("out/a.txt").first().waitFor({ timeout: 20000 });
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: /^Get/ }).click()]);
  const text = (await (await import("node:fs/promises")).readFile(await file.path(), "utf8"));
  assert.equal(text, "file\n");
  assert.deepEqual(complaints, []);
});

test("a long log is shown from its tail and does not hold the page up", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  const id = await submit({ name: "long", steps: [{ name: "Count", run: "seq -f 'line %.0f of many' 100000" }] });
  await open("/w/acme/farm/jobs/" + id);
  await page.locator("h1 .pill", { hasText: "Succeeded" }).waitFor({ timeout: 60000 });
  await open("/w/acme/farm/jobs/" + id);
  await page.locator(".lines").getByText("line 100000 of many").waitFor();
  assert.ok(await page.locator(".lines .line-of").count() < 6000);
  await page.click("text=From the beginning");
  await page.locator(".lines").getByText("line 1 of many", { exact: true }).waitFor();
  assert.ok(await page.locator(".lines .line-of").count() < 11000, "the rest comes when it is scrolled to");
});

test("a job that waits says why, and is cancelled", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  const id = await submit({ name: "train", steps: [{ name: "Train", run: "true" }], requires: { labels: ["gpu=a100"] } });
  await open("/w/acme/farm/jobs/" + id);
  await page.getByText("No runner that is online has the labels it requires.").waitFor();
  await page.keyboard.press("x");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.locator("h1 .pill", { hasText: "Cancelled" }).waitFor({ timeout: 20000 });
});

test("the command to enrol a machine is shown once", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/farm");
  await page.getByRole("button", { name: "Add a runner" }).click();
  await page.fill("#add-name", "builder-9");
  await page.getByRole("button", { name: "Make the command" }).click();
  const command = await page.locator(".command pre").first().innerText();
  const token = command.match(/--token (\S+)/)[1];
  assert.ok(token.length > 20);
  assert.ok(!page.url().includes(token));
  await page.getByText("Waiting for the runner to connect…").waitFor();
  await page.getByRole("button", { name: "Withdraw the command" }).click();
  await page.getByText("The command works no more.").waitFor();
  assert.ok(!(await page.content()).includes(token));
});

test("an invitation is accepted on the page of the account", async () => {
  const ada = await visitor(browser, app, "ada");
  const host = await visitor(browser, app);
  await ada.open("/w/acme/members");
  await ada.page.fill("#invite-email", "vera@acme.example");
  await ada.page.getByRole("button", { name: "Invite", exact: true }).click();
  await ada.page.locator("#toasts .toast").first().waitFor();
  await host.page.goto(app + "/account");
  assert.match(host.page.url(), /sign-in\?to=%2Faccount$/);
  const ida = await visitor(browser, app, "ada");
  await ida.page.goto(app + "/account");
  await ida.page.getByText("this one").waitFor();
  await ida.page.getByText("No invitation waits for you").waitFor();
});

for (const path of ["/w/acme/farm", "/w/acme/farm/jobs?status=finished", "/account"]) {
  test(`${path} passes axe`, () => accessible(browser, app, "ada", path));
}

test("a job passes axe", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/farm/jobs?status=finished");
  await accessible(browser, app, "ada", await page.locator("#jobs li a").first().getAttribute("href"));
});
