// The command palette finds pages, actions, people, runs and accounts.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { checkAccessibility, submitJob, visitor } from "./app.js";
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

const api = (who, method, to, data) => who.context.request.fetch(product.restUrl + "/api/v1" + to, { method, data, headers: { "X-Svc-Tenant": "acme" } });
/** openPalette opens the palette on a page as somebody. */
async function openPalette(name, path = "/w/acme/dashboard") {
  const who = await visitor(browser, app, name);
  await who.open(path);
  await who.page.keyboard.press("Control+k");
  await who.page.locator("#palette[open]").waitFor();
  return who;
}
const option = (page, text) => page.locator("#palette [role=option]:visible", { hasText: text });
const selected = (page) => page.evaluate(() => document.getElementById(document.activeElement.getAttribute("aria-activedescendant"))?.innerText);

test("a person is found by name and by address, and opened with the keyboard", async () => {
  const { page, problems } = await openPalette("vera");
  await page.keyboard.type("TORR");
  await option(page, "Mia Torres").waitFor();
  assert.match(await selected(page), /Mia Torres/);
  await page.getByRole("status").getByText("1 result", { exact: true }).waitFor();
  await page.locator("#palette input").fill("");
  await page.locator("#palette-found [role=option]").waitFor({ state: "detached" }); // results of the previous search are removed
  await page.locator("#palette input").fill("mia@acme");
  await option(page, "mia@acme.example").waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL(/members\?q=mia%40acme\.example$/);
  await page.getByText("mia@acme.example").waitFor();
  assert.deepEqual(problems, []);
});

test("a run is found by the number of its issue and by its title", async () => {
  const who = await openPalette("leo"), { page } = who;
  const { items: [run] } = await (await api(who, "GET", "/runs?status=active&limit=1")).json();
  const found = page.locator("#found-" + run.id);
  for (const typed of ["#" + run.issueNumber, run.issueTitle.slice(2, 14)]) {
    await page.locator("#palette input").fill("");
    await found.waitFor({ state: "detached" });
    await page.locator("#palette input").fill(typed);
    await found.waitFor();
  }
  await found.click();
  await page.waitForURL(new RegExp("/w/acme/runs/" + run.id));
});

test("a run is found by the number of its pull request, a job by its name", async () => {
  const who = await openPalette("vera"), { page } = who;
  const { items } = await (await api(who, "GET", "/runs?status=terminal&limit=50")).json();
  const run = items.find((run) => run.prNumber);
  await page.locator("#palette input").fill("#" + run.prNumber);
  await page.locator("#found-" + run.id).getByText("PR #" + run.prNumber).waitFor();
  const job = await submitJob(product, { name: "Sought by its name", steps: [{ run: "true" }] });
  await page.locator("#palette input").fill("sought by");
  await page.locator("#found-" + job).click();
  await page.waitForURL(app + "/w/acme/farm/jobs/" + job);
});

test("a service account is found only by those who may see it, and its row gets the focus", async () => {
  const { page } = await openPalette("ada");
  await page.keyboard.type("ci-b");
  await option(page, "ci-bot").waitFor();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement?.closest(".account-row")?.innerText.includes("ci-bot"));
  const leo = await openPalette("leo");
  await leo.page.keyboard.type("ci-b");
  await leo.page.getByRole("status").getByText("No results").waitFor();
  assert.equal(await leo.page.locator("#palette [role=option]:visible").count(), 0);
  const [list, said] = await Promise.all(["#palette-list", "#palette-status"].map((selector) => leo.page.locator(selector).boundingBox()));
  assert.ok(said.y > list.y && said.y + said.height < list.y + list.height, "it is said where the results would be");
  await leo.page.keyboard.press("Enter");
  assert.match(leo.page.url(), /dashboard$/);
});

test("Enter opens a result as soon as it is displayed", async () => {
  const { page } = await openPalette("ada");
  await page.evaluate(() => new MutationObserver((_, observer) => { // before htmx says that it has added the results
    if (!document.querySelector("#palette-found [role=option]")) return;
    observer.disconnect();
    document.querySelector("#palette input").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  }).observe(document.getElementById("palette-found"), { childList: true, subtree: true }));
  await page.locator("#palette input").fill("ci-b"); // at once, since slow typing searches for "c" too
  await page.waitForURL(/service-accounts#account-/);
});

test("results for a text that was typed on are not shown", async () => {
  const { page } = await visitor(browser, app, "ada");
  await page.clock.install();
  await page.goto(app + "/w/acme/dashboard");
  await page.keyboard.press("Control+k");
  await page.locator("#palette[open]").waitFor();
  await page.clock.pauseAt(Date.now() + 60000);
  let answer;
  const requested = new Promise((resolve) => page.route(/search\?q=c$/, (route) => { answer = () => route.continue(); resolve(); }));
  await page.keyboard.type("c");
  await page.clock.runFor(200);
  await requested;
  await page.keyboard.type("i-b"); // what follows is requested later
  const over = await page.evaluateHandle(() => ({ told: new Promise((told) => document.addEventListener("htmx:finally:request", told, { once: true })) }));
  answer();
  await over.evaluate(async ({ told }) => { await told; });
  assert.equal(await page.locator("#palette-found [role=option]").count(), 0);
  await page.clock.runFor(200);
  await option(page, "ci-bot").waitFor();
  assert.equal(await page.locator("#palette-found [role=option]").count(), 1);
});

test("actions depend on the role and lead to their form", async () => {
  const { page } = await openPalette("ada");
  await page.keyboard.type("invite");
  await page.keyboard.press("Enter");
  await page.waitForURL(/members$/);
  await page.waitForFunction(() => document.activeElement.id === "invite-email");
  for (let i = 0; i < 2; i++) { // also from the page that has the form
    await page.locator("#invite-email").blur();
    await page.keyboard.press("Control+k");
    await page.keyboard.type("invite");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.activeElement.id === "invite-email");
  }
  await page.keyboard.press("Control+k");
  await page.keyboard.type("create a serv");
  await page.keyboard.press("Enter");
  await page.locator("#new-account[open]").waitFor();
  const viewer = await openPalette("vera");
  for (const action of ["Invite people", "Create a service account", "Queue an issue", "Audit log"]) assert.equal(await option(viewer.page, action).count(), 0, action);
});

test("arrow keys wrap around, Escape closes, and the next search starts empty", async () => {
  const { page } = await openPalette("ada");
  const first = await selected(page);
  await page.keyboard.press("ArrowDown");
  assert.notEqual(await selected(page), first);
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowUp");
  assert.equal(await selected(page), await page.locator("#palette [role=option]:visible").last().innerText());
  await page.keyboard.type("mia");
  await option(page, "Mia Torres").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("#palette").waitFor({ state: "hidden" });
  await page.keyboard.press("Control+k");
  assert.equal(await page.locator("#palette input").inputValue(), "");
  assert.equal(await option(page, "Mia Torres").count(), 0);
  await page.keyboard.type("mia"); // the same text is searched for again
  await option(page, "Mia Torres").waitFor();
});

test("a search without an answer is reported", async () => {
  const { page } = await openPalette("ada");
  await page.route("**/w/acme/search?*", (route) => route.abort());
  await page.keyboard.type("mia");
  await page.getByRole("status").getByText("Search is not responding. Try again.").waitFor();
});

test("the palette passes axe", async () => {
  await checkAccessibility(browser, app, "ada", "/w/acme/members", async (page) => {
    await page.keyboard.press("Control+k");
    await page.keyboard.type("a");
    await page.locator("#palette-found [role=option]").first().waitFor();
  }, "#palette");
});
