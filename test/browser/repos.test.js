// A repository of the development's code host, from its connection to a merged run.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { checkAccessibility, visitor } from "./app.js";
import { launch } from "./person.js";

const list = "/w/acme/settings/repositories";
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

/** connect connects a repository of the code host with the form. */
async function connect(page, name, { credential = product.codeHostToken, read = product.codeHostReadToken } = {}) {
  await page.goto(app + list + "/new");
  await page.fill("#repo-url", `${product.codeHostUrl}/${name}`);
  await page.fill("#repo-credential", credential);
  await page.fill("#repo-read", read);
  await page.getByRole("button", { name: "Connect", exact: true }).click();
}

/** openRepo opens the page of a repository from the list. */
async function openRepo(page, name) {
  await page.goto(app + list);
  await page.locator(".repo-row:not(.past)").getByRole("link", { name }).click();
  await page.locator("#repo-state").waitFor();
}

/** row is the row of an issue in the backlog. */
const row = (page, number) => page.locator(`#issue-${number}`);

/** choose shows the backlog of a repository. */
async function choose({ page, open }, name) {
  await open("/w/acme/backlog");
  await page.selectOption("#repo", { label: name });
  await page.waitForURL(/repo=[0-9a-f-]{36}/);
  await page.locator("#repo option:checked", { hasText: name }).waitFor({ state: "attached" });
}

test("without a repository, pages lead to the form that connects one", async () => {
  const ada = await visitor(browser, app, "ada"), vera = await visitor(browser, app, "vera");
  await ada.open("/w/ada/backlog");
  await ada.page.locator("main").getByRole("link", { name: "Connect a repository" }).click();
  await ada.page.waitForURL(app + "/w/ada/settings/repositories/new");
  await ada.open("/w/ada/dashboard");
  await ada.page.locator("main").getByRole("link", { name: "Connect a repository" }).click();
  await ada.page.waitForURL(app + "/w/ada/settings/repositories/new");
  await vera.open(list + "/new");
  await vera.page.getByText("Only an Owner or Maintainer can connect a repository").first().waitFor();
  assert.equal(await vera.page.locator("#repo-credential").count(), 0);
  assert.deepEqual([...ada.problems, ...vera.problems], []);
});

for (const scripts of [true, false]) {
  test(`a credential that may only read is refused with what is lacking, and not kept, ${scripts ? "with" : "without"} scripts`, async () => {
    const { page, problems } = await visitor(browser, app, "mia", { javaScriptEnabled: scripts });
    await connect(page, "acme/web", { credential: product.codeHostReadToken });
    await page.getByRole("heading", { name: "What was found" }).waitFor();
    await page.locator(".findings .lacking", { hasText: "The credential may only read." }).getByText("Give the account of the credential the right to write.").waitFor();
    assert.ok(await page.locator(".findings .ok").count() > 2);
    assert.equal(await page.inputValue("#repo-url"), product.codeHostUrl + "/acme/web");
    assert.equal(await page.inputValue("#repo-credential"), "");
    assert.ok(!(await page.content()).includes(product.codeHostReadToken));
    assert.deepEqual(problems, []);
  });
}

test("an issue is queued from the backlog, waits for approval, and is merged", async () => {
  const ada = await visitor(browser, app, "ada"), { page, open, toast, problems } = ada;
  await connect(page, "acme/web");
  await page.getByText("acme/web is connected.").waitFor();
  await page.locator("#repo-state .findings .ok", { hasText: "The credential can create, change and delete branches." }).waitFor();
  await page.getByRole("button", { name: "Add a job" }).click();
  await page.locator("#job-0-name:focus").waitFor();
  await page.fill("#job-0-name", "test");
  await page.fill("#job-0-step-0", "sh test.sh");
  await page.selectOption("#job-0-sandbox", "none");
  await page.getByRole("button", { name: "Save settings" }).click();
  await toast("Settings saved.");
  await page.reload();
  assert.equal(await page.inputValue("#job-0-step-0"), "sh test.sh");

  await open("/w/acme/runs");
  await page.keyboard.press("g");
  await page.keyboard.press("b");
  await page.waitForURL(/\/backlog/);
  await choose(ada, "acme/web");
  await page.getByText("A queued issue begins at once: 0 of 5 places are used.").waitFor();
  await page.fill("#find", "typo");
  await page.waitForURL(/q=typo/);
  await page.waitForFunction(() => document.querySelectorAll(".issue-row").length === 1);
  await page.keyboard.press("Escape");
  await page.locator("#find").evaluate((field) => field.blur());
  await page.keyboard.press("j");
  await page.keyboard.press("q");
  await toast("1 issue is queued.");
  const number = (await page.locator(".issue-row").getAttribute("id")).slice("issue-".length);
  await row(page, number).getByRole("link", { name: "Waits for a person" }).waitFor({ timeout: 60000 });
  assert.ok(await page.locator(`#pick-${number}`).isDisabled());
  assert.equal(await page.evaluate(() => document.activeElement.id), `issue-${number}`, "the row keeps the focus");

  const run = await row(page, number).getByRole("link", { name: "Waits for a person" }).getAttribute("href");
  const watching = await visitor(browser, app, "leo");
  await watching.open(run);
  await watching.page.getByText("This run is waiting for a merge approval.").waitFor();
  await watching.page.getByText("tests the head").waitFor();
  await open("/w/acme/needs" + "#of-" + run.split("/").at(-1));
  await page.locator(`#of-${run.split("/").at(-1)}`).getByText("passed").waitFor();
  await page.keyboard.press("a");
  await page.getByRole("button", { name: /^Merge #\d+ into / }).click();
  await toast("Answered");
  await watching.page.locator("h1 .pill", { hasText: "Merged" }).waitFor({ timeout: 60000 });
  await watching.page.getByText("Tested against base").waitFor();
  const html = await (await fetch(product.codeHostUrl + "/api/v3/repos/acme/web/pulls?state=closed")).json();
  assert.ok(html.some((pull) => pull.merged_at), "the code host says so too");
  assert.deepEqual([...problems, ...watching.problems], []);
});

test("several issues are queued at once, and a run that has ended is tried again", async () => {
  const { page, context, toast, open, problems } = await visitor(browser, app, "mia");
  await connect(page, "acme/api");
  await page.getByText("acme/api is connected.").waitFor();
  await choose({ page, open }, "acme/api");
  const boxes = page.locator(".pick:enabled");
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  await page.getByRole("button", { name: "Queue selected" }).click();
  await toast("2 issues are queued.");
  await page.locator(".issue-run .pill").nth(1).waitFor(); // a live update may have been rendered between the two
  const run = await page.locator(".issue-run .pill").first().getAttribute("href");
  await context.request.post(`${product.restUrl}/api/v1/runs/${run.split("/").at(-1)}/cancel`, { headers: { "X-Svc-Tenant": "acme" } }); // refused if it has ended
  await open(run);
  await page.getByRole("button", { name: "Queue the issue again" }).click();
  await page.getByText("Queued again. This is the new run.").waitFor({ timeout: 20000 });
  assert.deepEqual(problems, []);
});

test("a repository is paused with a reason, and resumed, which others see without a reload", async () => {
  const ada = await visitor(browser, app, "ada"), vera = await visitor(browser, app, "vera"), { page, toast } = ada;
  await openRepo(page, "acme/web");
  await vera.open(new URL(page.url()).pathname);
  assert.ok(await vera.page.locator("#branch").isDisabled());
  assert.equal(await vera.page.getByRole("button", { name: "Check again" }).count(), 0);
  await page.fill("#branch", "typed");
  await page.getByRole("button", { name: "Pause…" }).click();
  await page.fill("#pause-reason", "Release freeze.");
  await page.locator("dialog[open]").getByRole("button", { name: "Pause" }).click();
  await toast("Paused.");
  await vera.page.getByText("Release freeze.").waitFor();
  await vera.page.getByText("by Ada Lind").first().waitFor();
  await page.getByRole("link", { name: "Backlog" }).last().click();
  await page.getByText("acme/web is paused:").waitFor();
  assert.equal(await page.locator(".issue-run button").count(), 0);
  await page.goBack();
  await page.getByRole("button", { name: "Resume" }).click();
  await toast("Resumed.");
  await vera.page.getByText("Release freeze.").waitFor({ state: "detached" });
  await page.fill("#branch", "typed");
  await page.getByRole("button", { name: "Check again" }).click();
  await toast("Checked.");
  assert.equal(await page.inputValue("#branch"), "typed", "a check leaves what is being typed");
  assert.deepEqual([...ada.problems, ...vera.problems], []);
});

test("a credential is replaced once it was tried, and never shown", async () => {
  const { page, toast, problems } = await visitor(browser, app, "ada");
  await openRepo(page, "acme/web");
  const replace = async (token) => {
    await page.getByRole("button", { name: "Replace the credential: To push and merge" }).click();
    await page.locator("dialog[open] input[type=password]").fill(token);
    await page.locator("dialog[open]").getByRole("button", { name: "Replace" }).click();
  };
  await replace(product.codeHostReadToken);
  await page.getByText("The old credential stays in force.").waitFor();
  await page.locator(".credential-refused .lacking").first().waitFor();
  assert.ok(!(await page.content()).includes(product.codeHostReadToken));
  await replace(product.codeHostToken);
  await toast("Replaced.");
  assert.ok(!(await page.content()).includes(product.codeHostToken));
  assert.deepEqual(problems, []);
});

test("pages of repositories pass axe", async () => {
  const { page } = await visitor(browser, app, "ada");
  await openRepo(page, "acme/web");
  const repo = new URL(page.url()).pathname;
  for (const path of [list, list + "/new", repo, "/w/acme/backlog"]) await checkAccessibility(browser, app, "ada", path);
  for (const path of [list + "/new", repo]) await checkAccessibility(browser, app, "vera", path); // disabled
  await checkAccessibility(browser, app, "ada", repo, async (page) => {
    await page.locator("#implementer-command").check();
    await page.getByRole("button", { name: "Add a job" }).click();
    await page.locator("#job-1-name").waitFor();
  });
  await page.goto(app + "/w/acme/runs?status=finished");
  await checkAccessibility(browser, app, "ada", await page.locator(".lines-of-runs a").first().getAttribute("href"));
});

test("without scripts settings are changed and a repository is disconnected by its name", async () => {
  const { page } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await page.goto(app + list);
  await page.locator(".repo-row:not(.past)").getByRole("link", { name: "acme/api" }).click();
  await page.fill("#max-active", "2");
  await page.getByRole("button", { name: "Add a job" }).click();
  assert.equal(await page.inputValue("#max-active"), "2", "the form keeps its values");
  await page.getByRole("button", { name: /^Remove the job/ }).last().click();
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByText("Settings saved.").waitFor();
  await page.getByRole("button", { name: "Disconnect" }).click();
  await page.getByLabel("Type acme/api").fill("acme/web");
  await page.getByRole("button", { name: "Disconnect acme/api" }).click();
  await page.getByText("That is not acme/api.").waitFor();
  await page.getByLabel("Type acme/api").fill("acme/api");
  await page.getByRole("button", { name: "Disconnect acme/api" }).click();
  await page.getByText("acme/api is disconnected.").waitFor();
  await page.locator(".repo-row.past", { hasText: "Disconnected" }).getByRole("link", { name: "acme/api" }).click();
  await page.getByRole("link", { name: "Connect it again" }).click();
  assert.equal(await page.inputValue("#repo-url"), product.codeHostUrl + "/acme/api");
});
