// Decisions whose answer needs a text, with scripts and without.
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

test("open pages show a right that a person is given, and a new role", async () => {
  const ada = await visitor(browser, app, "ada"), { page, context, open, problems } = await visitor(browser, app, "vera");
  const api = (who, method, path, data) => who.request.fetch(product.restUrl + "/api/v1" + path, { method, data, headers: { "X-Svc-Tenant": "acme" } });
  const { items: [vera] } = await (await api(context, "GET", "/members?q=vera")).json();
  const change = async (data) => assert.equal((await api(ada.context, "PATCH", "/members/" + vera.id, data)).status(), 200);
  await change({ role: "Viewer", canApproveLoops: false });
  await open("/w/acme/needs");
  const approve = page.getByRole("button", { name: /^Approve/ }).first(), told = page.getByText("Your role has changed.");
  assert.ok(await approve.isDisabled());
  assert.equal(await page.locator("#badge").innerText(), "");
  await change({ canApproveLoops: true });
  await page.waitForFunction((button) => !button.disabled, await approve.elementHandle());
  await page.locator("#badge b").waitFor();
  assert.equal(await told.isVisible(), false);

  await open("/w/acme/runs?view=list");
  await page.evaluate(() => { window.isSamePage = true; });
  const queue = page.locator("main").getByRole("button", { name: "Queue an issue" }).first();
  assert.ok(await queue.isDisabled());
  await change({ role: "Maintainer" });
  await page.getByRole("link", { name: "Audit log" }).waitFor();
  assert.match(await page.locator(".workspace").innerText(), /Maintainer/);
  assert.ok(await queue.isEnabled());
  assert.equal(await page.locator("#live").getAttribute("data-state"), "live");
  await page.locator("#badge b").waitFor();
  await queue.click();
  await page.locator("#queue-issue").getByLabel("Title").fill("Typed");
  await change({ role: "Viewer", canApproveLoops: false });
  await told.waitFor({ state: "attached" });
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#queue-issue").getByLabel("Title").inputValue(), "Typed", "what was typed is kept");
  assert.ok(await page.evaluate(() => window.isSamePage), "nothing was loaded again");
  await page.getByRole("button", { name: "Reload the page" }).click();
  await page.waitForFunction(() => /Viewer/.test(document.querySelector(".workspace").innerText));
  assert.equal(await told.isVisible(), false);
  assert.equal(new URL(page.url()).search, "?view=list");
  for (const path of ["members", "insights"]) {
    await open("/w/acme/" + path);
    await change({ role: "Maintainer" });
    await page.waitForFunction(() => /Maintainer/.test(document.querySelector(".workspace").innerText));
    await change({ role: "Viewer" });
    await page.waitForFunction(() => /Viewer/.test(document.querySelector(".workspace").innerText));
  }
  await change({ role: "Maintainer" });
  await open("/w/acme/audit");
  await change({ role: "Viewer" });
  await page.getByText("Your role does not allow this").waitFor();
  assert.equal(await page.getByRole("link", { name: "Audit log" }).count(), 0);

  // Lists that lie behind, as while a view has to catch up: the page shows the role after the changes that follow.
  const received = page.waitForEvent("console", (message) => message.text() === "member.role_changed");
  await page.addInitScript(() => addEventListener("live-member", (e) => console.log(e.detail.kind), true));
  await page.route("**/w/acme/settings", async (route) => {
    const answer = await route.fetch();
    const body = (await answer.text()).replace(/ data-seq="(\d+)"/, (_, seq) => ` data-seq="${seq - 10}"`);
    await route.fulfill({ response: answer, body });
  });
  await open("/w/acme/settings");
  await received;
  assert.equal(await told.isVisible(), false);
  assert.deepEqual(problems, []);
});

test("an answer with a text works with and without scripts, and a refusal keeps the text", async () => {
  for (const scripts of [false, true]) {
    const { page } = await visitor(browser, app, "ada", { javaScriptEnabled: scripts });
    await page.goto(app + "/w/acme/needs");
    const before = await page.locator(".decision").count();
    const openDialog = () => page.getByRole("button", { name: /^(Request changes|Correct)…/ }).first().click();
    const dialog = page.locator("dialog[open]"), text = dialog.locator("textarea");
    await openDialog();
    await text.evaluate((field) => field.removeAttribute("maxlength"));
    await text.fill("W".repeat(10_001));
    await dialog.locator("button.primary").click();
    await page.getByText(/The text must/).first().waitFor();
    assert.equal((await text.inputValue()).length, 10_001, "what was typed is kept");
    await text.fill("Keep the old limit.");
    await dialog.locator("button.primary").click();
    await page.getByText(/^Answered\.$|^Answered:/).first().waitFor();
    await page.waitForFunction((n) => document.querySelectorAll(".decision").length === n, before - 1);
  }
});

test("the second key after g answers nothing, also if it leads to no page", async () => {
  const { page, open, problems } = await visitor(browser, app, "ada"), answers = [];
  await page.route("**/answer", (route) => { answers.push(route.request().url()); return route.fulfill({ status: 204 }); });
  await open("/w/acme/needs");
  await page.evaluate(() => document.querySelector('#navigation [data-key="a"]').remove()); // as for a Viewer who may approve loops
  const approve = page.getByRole("button", { name: /^Approve/ }).first();
  await page.locator(".decision", { has: approve }).first().focus();
  await page.keyboard.press("g");
  await page.keyboard.press("a");
  assert.deepEqual(answers, []);
  await page.keyboard.press("a");
  await Promise.all([page.waitForResponse(/answer$/), page.getByRole("button", { name: /^Merge #\d+ into main$/ }).click()]);
  assert.equal(answers.length, 1);
  assert.deepEqual(problems, []);
});

test("an answer by a key is sent once it is confirmed, in words of its own, for the decision that was selected", async () => {
  for (const scripts of [true, false]) {
    const { page, open, problems } = await visitor(browser, app, "ada", { javaScriptEnabled: scripts }), sent = [];
    page.on("request", (request) => {
      const [, of] = new URL(request.url()).pathname.match(/([^/]+)\/answer$/) ?? [];
      if (of) sent.push(`${of} ${new URLSearchParams(request.postData()).get("action")}`);
    });
    await page.goto(app + "/w/acme/needs");
    const card = page.locator(".decision", { has: page.getByRole("button", { name: /^Approve/ }) }).first();
    const [id, decision, issue] = [await card.getAttribute("id"), await card.getAttribute("data-row"), (await card.locator(".decision-head a").first().innerText()).match(/#\d+/)[0]];
    if (!scripts) {
      await card.getByRole("button", { name: "Reject" }).click();
      await page.getByRole("heading", { name: `Reject ${issue}?` }).waitFor();
      await page.getByRole("link", { name: "Keep it" }).click();
      assert.equal(await page.locator("#" + id).count(), 1);
      continue;
    }
    await open("/w/acme/needs");
    await page.locator("#" + id).focus();
    for (const [key, yes, no] of [["r", `Reject ${issue}`, "Keep it"], ["a", /^Merge #\d+ into main$/, "Not now"]]) {
      for (const press of [key, key, key, "Enter"]) await page.keyboard.press(press); // the button that has the focus keeps it
      await page.locator("#confirm-title").waitFor({ state: "detached" });
      await page.keyboard.press(key);
      await page.getByRole("dialog").getByRole("button", { name: yes }).waitFor();
      await page.getByRole("dialog").getByRole("button", { name: no }).click();
      await page.locator("#confirm-title").waitFor({ state: "detached" });
      assert.equal(await page.evaluate(() => new Promise((later) => setTimeout(() => later(document.activeElement.id)))), id, "the same decision is selected");
    }
    assert.deepEqual(sent, []);
    await page.route("**/answer", (route) => route.fulfill({ status: 204 })); // the decision stays, for the tests that follow
    await page.keyboard.press("r");
    await page.getByText(/its pull request is closed\. This can't be undone\./).waitFor();
    await page.keyboard.press("Tab");
    await Promise.all([page.waitForResponse(/answer$/), page.keyboard.press("Enter")]);
    assert.deepEqual(sent, [`${decision} reject`]);
    assert.deepEqual(problems, []);
  }
});

test("a key does not answer a decision that appears where somebody else has answered one", async () => {
  const { page, open } = await visitor(browser, app, "ada"), cards = page.locator(".decision"), sent = [];
  page.on("request", (request) => { if (request.method() === "POST") sent.push(request.url()); });
  await page.route("**/answer", () => {}); // without an answer
  const show = async (change) => {
    await page.route("**/needs", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: change(await response.text()) });
    }, { times: 1 });
    await page.evaluate(() => document.body.dispatchEvent(new Event("live-all")));
  };
  const withoutFirst = (html) => html.replace(/<article[^]*?<\/article>/, "");
  const focused = () => page.evaluate(() => document.activeElement.id);
  await open("/w/acme/needs");
  const [first, second] = await cards.evaluateAll((list) => list.map((card) => card.id));
  const question = await cards.first().locator("h2").first().getAttribute("id"), other = question.replace(/.$/, (end) => end === "0" ? "1" : "0");

  await cards.first().focus();
  await show((html) => html.replaceAll(question.slice(9), other.slice(9))); // the same run asks something else
  await page.locator("#" + other).waitFor();
  await page.keyboard.press("a");
  assert.equal(await focused(), "main");

  await cards.first().focus();
  await show(withoutFirst);
  await page.locator("#" + first).waitFor({ state: "detached" });
  await page.keyboard.press("a");
  assert.equal(await focused(), "main");
  assert.deepEqual(sent, []);

  await show((html) => html);
  await page.locator("#" + first).focus();
  await page.keyboard.press("a");
  await Promise.all([page.waitForRequest("**/answer"), page.locator("dialog[open] [value=yes]").click()]);
  await show(withoutFirst);
  await page.locator("#" + first).waitFor({ state: "detached" });
  assert.equal(await focused(), second, "after an answer of one's own the next decision has the focus");
});

test("a typed text is kept when somebody else answers meanwhile", async () => {
  const noScripts = await visitor(browser, app, "ada", { javaScriptEnabled: false }), live = await visitor(browser, app, "ada");
  await noScripts.page.goto(app + "/w/acme/needs");
  await live.open("/w/acme/needs");
  const dialogs = [];
  for (const { page } of [noScripts, live]) {
    await page.getByRole("button", { name: /^(Request changes|Correct)…/ }).first().click();
    const dialog = page.locator("dialog[open]");
    await dialog.locator("textarea").fill("Keep the old limit.");
    dialogs.push(dialog);
  }
  const [plainDialog, dialog] = dialogs, text = dialog.locator("textarea"), tooLate = dialog.getByRole("alert");
  const answer = async (form) => {
    const value = (name) => form.locator(`[name=${name}]`).inputValue();
    const sent = await noScripts.context.request.post(app + (await form.getAttribute("action")), { form: { action: await value("action"), head: await value("head"), note: "Do it.", confirmed: "yes" } });
    assert.ok(sent.ok());
  };
  const cards = live.page.locator(".decision"), count = await cards.count();
  const waitForCards = (n) => live.page.waitForFunction((n) => document.querySelectorAll(".decision").length === n, n);

  const other = live.page.locator(".decision:not(:has(dialog[open])) form").first();
  await answer(other);
  await waitForCards(count - 1);
  assert.equal(await text.inputValue(), "Keep the old limit.", "another decision was answered");
  assert.equal(await tooLate.isVisible(), false);

  await answer(dialog.locator("form"));
  await tooLate.getByText("Answered meanwhile").waitFor();
  await waitForCards(count - 2);
  assert.equal(await text.inputValue(), "Keep the old limit.");
  assert.ok(await dialog.locator("button.primary").isDisabled());
  assert.ok(await dialog.evaluate((at) => at.matches(":modal")));
  await live.page.keyboard.press("Escape");
  await live.page.waitForFunction(() => !document.querySelector("body > dialog [data-late]")); // the event of closing follows a moment later
  assert.deepEqual(live.problems, []);

  await plainDialog.locator("button.primary").click();
  await noScripts.page.getByRole("alert").getByText("Your text was not sent. Keep the old limit.").waitFor();
});
