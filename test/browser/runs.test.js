// Board and list of runs, the page of a run, decisions.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { checkAccessibility, phone, visitor } from "./app.js";
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

test("the board has a column for each stage", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/runs");
  assert.deepEqual(await page.locator(".stage h2").evaluateAll((list) => list.map((h) => h.firstChild.textContent.trim())),
    ["Queued", "Analyze", "Plan", "Implementing", "Build farm", "Self-review", "Merge"]);
  const tops = await page.locator(".stage").evaluateAll((list) => list.map((s) => s.getBoundingClientRect().top));
  assert.equal(new Set(tops).size, 1, "the columns are side by side");
  assert.equal(await page.locator(".stage-chips").isVisible(), false);
});

test("on a phone the board is a list by stage, with stage links and hidden filters", async () => {
  const { page, open } = await visitor(browser, app, "ada", { viewport: phone });
  await open("/w/acme/runs");
  const lefts = await page.locator(".stage:visible").evaluateAll((list) => list.map((s) => s.getBoundingClientRect().left));
  assert.equal(new Set(lefts).size, 1, "the stages are below each other");
  assert.equal(await page.getByRole("navigation", { name: "Layout" }).isVisible(), false);
  assert.equal(await page.locator("main kbd:visible").count(), 0);
  const all = await page.locator(".run:visible").count();
  const chips = page.getByRole("navigation", { name: "Stage" });
  assert.equal(await chips.getByRole("link", { name: /^All/ }).innerText().then((text) => parseInt(text.replace(/\D/g, ""))), all);
  await chips.getByRole("link", { name: /^Merge/ }).click();
  await page.waitForURL(/stage=Merge/);
  await page.locator(".run:visible").first().waitFor();
  assert.deepEqual(await page.locator(".stage:visible h2").evaluateAll((list) => list.map((h) => h.firstChild.textContent.trim())), ["Merge"]);
  assert.ok(await page.locator(".run:visible").count() < all);
  assert.equal(await page.locator("#find").isVisible(), false);
  await page.getByRole("button", { name: "Filter runs" }).click();
  await page.fill("#find", "no such title");
  await page.getByText("No runs match").waitFor();
  assert.ok(await page.locator("#find").isVisible(), "the filters stay open while typing");
  await page.mouse.click(200, 800);
  assert.equal(await page.locator("#find").isVisible(), false);
  assert.match(await page.getByRole("button", { name: "Filter runs" }).getAttribute("class"), /\bon\b/);
});

test("filters are kept in the address, and keys open a run", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/runs");
  await page.selectOption("#repo", { label: "acme/web" });
  await page.waitForURL(/repo=[0-9a-f-]{36}/);
  await page.waitForFunction(() => [...document.querySelectorAll(".run-foot bdi")].every((b) => b.textContent === "acme/web"));
  await page.reload();
  assert.equal(await page.locator("#repo option:checked").innerText(), "acme/web");
  await page.fill("#find", "no such title");
  await page.getByText("No runs match").waitFor();
  await page.click("text=Clear filters");
  await page.locator(".run").first().waitFor();
  await page.locator('#live[data-state="live"]').waitFor(); // keyboard shortcuts work
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);
  await page.locator(".timeline li").first().waitFor();
  assert.equal(await page.locator(".timeline li").count(), 7);
});

test("a search counts what it shows in each stage", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/runs");
  const title = await page.locator(".run a bdi").first().innerText();
  await open("/w/acme/runs?q=" + encodeURIComponent(title));
  const stages = await page.locator(".stage").evaluateAll((list) => list.map((stage) => [Number(stage.querySelector(".count").innerText), stage.querySelectorAll(".run").length]));
  for (const [count, shown] of stages) assert.equal(count, shown);
  assert.ok(stages.some(([count]) => count > 0));
  const chips = (await page.locator(".stage-chips .num").allTextContents()).map(Number);
  assert.equal(chips[0], chips.slice(1).reduce((sum, n) => sum + n, 0));
  assert.equal(chips[0], await page.locator(".run").count());
});

test("finished runs are paged", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/runs?status=finished");
  await page.getByText(/^1 to 50 of \d+$/).waitFor();
  const first = await page.locator("#runs li a").first().innerText();
  await page.click("text=Older");
  await page.waitForURL(/offset=50/);
  assert.notEqual(await page.locator("#runs li").first().getAttribute("id"), null);
  await page.click("text=Newer");
  await page.waitForFunction((text) => document.querySelector("#runs li a")?.innerText === text, first);
});

test("a run links to its issue, its pull request and its diff at the code host", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/needs");
  const merge = page.locator(".decision", { hasText: "Merge approval" }).filter({ hasText: "acme/web #" }).first();
  const pull = await merge.getByRole("link", { name: /^View PR #/ }).getAttribute("href"), number = pull.split("/").at(-1);
  assert.match(pull, /^http:\/\/127\.0\.0\.1:\d+\/acme\/web\/pull\/\d+$/);
  const issue = await merge.getByRole("link", { name: /^acme\/web #/ }).innerText();
  await merge.getByRole("link", { name: issue }).click();
  await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);
  assert.equal(await page.getByRole("link", { name: "PR #" + number }).getAttribute("href"), pull);
  assert.equal(await page.getByRole("link", { name: "View diff" }).getAttribute("href"), pull + "/files");
  const resources = page.getByRole("region", { name: "Resources" });
  await resources.getByText("of $5.00 budget").waitFor();
  await resources.getByText("of 30 min 0 s budget").or(resources.getByText("of 30 min budget")).waitFor();
  await page.getByRole("region", { name: "Guardrails" }).getByText(/^\d+ of 1,500 lines$/).waitFor();
  await page.getByRole("link", { name: issue }).click();
  await page.getByRole("heading", { name: issue }).waitFor();
  assert.ok(page.url().endsWith("/acme/web/issues/" + issue.split("#")[1]));
  assert.equal(await page.evaluate(() => document.referrer), "");
});

test("a run links to its jobs, and they link back", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/runs");
  await page.locator(".stage", { hasText: "Merge" }).locator(".run > a").first().click(); // its jobs are done
  await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);
  const run = page.url();
  await page.getByRole("region", { name: "Resources" }).getByRole("link").first().click();
  await page.waitForURL(/\/farm\/jobs\//);
  await page.getByRole("link", { name: "Back to the run" }).click();
  await page.waitForURL(run);
});

test("Back from another page of a run's history shows a page that works", async () => {
  const { page, open, context, problems } = await visitor(browser, app, "ada");
  const { items: [run] } = await (await context.request.get(product.restUrl + "/api/v1/runs?status=terminal&limit=1", { headers: { "X-Svc-Tenant": "acme" } })).json();
  await open(`/w/acme/runs/${run.id}?cursor=-5`);
  await page.getByRole("link", { name: "Newest events" }).click();
  await page.waitForURL(/runs\/[^?]+$/);
  await page.goBack();
  await page.waitForURL(/cursor=-5$/);
  await page.getByRole("link", { name: "Newest events" }).waitFor();
  await page.locator('#live[data-state="live"]').waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("acc");
  await page.locator("#palette-dashboard").waitFor({ state: "hidden" });
  await page.keyboard.press("Enter");
  await page.waitForURL(app + "/account");
  assert.deepEqual(problems, []);
});

test("active runs are paged without scripts", async () => {
  const { page, context } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  const headers = { "X-Svc-Tenant": "acme" };
  const repos = await (await context.request.get(product.restUrl + "/api/v1/repos", { headers })).json();
  for (let i = 0; i < 45; i++) {
    const data = { repoId: repos.items[0].id, issueNumber: 800000 + i };
    assert.equal((await context.request.post(product.restUrl + "/api/v1/backlog/queue", { data, headers })).status(), 201);
  }
  await page.goto(app + "/w/acme/runs?view=list");
  const first = await page.locator("#runs li").evaluateAll((list) => list.map((li) => li.id));
  assert.equal(first.length, 50);
  await page.getByRole("link", { name: "More runs" }).click();
  await page.waitForURL(/offset=50/);
  const rest = await page.locator("#runs li").evaluateAll((list) => list.map((li) => li.id));
  assert.ok(rest.length >= 5 && rest.every((id) => !first.includes(id)));
  assert.equal(await page.getByRole("link", { name: "More runs" }).count(), 0);
  await page.getByRole("link", { name: "Previous runs" }).click();
  await page.waitForURL(/offset=0/);
});

test("disabled controls say why queueing, cancelling or answering is not allowed", async () => {
  const vera = await visitor(browser, app, "vera"), leo = await visitor(browser, app, "leo"); // Viewer and legacy member
  await vera.open("/w/acme/runs");
  assert.ok(await vera.page.getByRole("button", { name: "Queue an issue" }).isDisabled());
  assert.ok(await vera.page.getByText("Only an Owner or Maintainer can queue an issue.").isVisible());
  await leo.open("/w/acme/runs");
  await leo.page.getByRole("button", { name: "Queue an issue" }).click();
  await leo.page.locator("#queue-repo").selectOption({ label: "acme/web" });
  await leo.page.locator("#queue-title").fill("A legacy member may queue this");
  await leo.page.locator("dialog[open] .primary").click();
  await leo.toast("Queued.");
  await leo.page.locator(".run a").first().click();
  await leo.page.getByRole("button", { name: "Cancel run" }).waitFor();
  assert.ok(await leo.page.getByRole("button", { name: "Cancel run" }).isDisabled());
  assert.ok(await leo.page.getByText("Only an Owner or Maintainer can cancel a run.").isVisible());
  await leo.open("/w/acme/needs");
  const merges = leo.page.locator(".decision", { hasText: "Merge approval" });
  assert.ok(await merges.count() > 0);
  for (const merge of await merges.all()) {
    for (const button of await merge.locator("button").all()) assert.ok(await button.isDisabled());
    assert.match(await merge.locator(".reason").innerText(), /Needs the Owner or Maintainer role. You are a Viewer.|Needs the approve-loops permission/);
    assert.doesNotMatch(await merge.locator(".reason").innerText(), /You are a member/);
    assert.match(await merge.locator(".reason").innerText(), /Ask Ada, Ben or \w+\.$/);
    assert.equal(await merge.locator("kbd").count(), 0, "no hint at keys that do nothing");
    const ben = await leo.page.context().newPage();
    await ben.goto(app + await merge.getByRole("link", { name: "Ben" }).getAttribute("href"));
    assert.deepEqual(await ben.locator(".person-row[data-row] .name bdi").allInnerTexts(), ["Ben Okoro"]);
    await ben.close();
    await merge.focus();
    await leo.page.keyboard.press("a"); // has no effect
  }
  assert.equal(await leo.page.locator("#toasts .toast").count(), 0);
});

test("the flag on the board and the banner of a run link to the decision", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/runs");
  const card = page.locator(".run", { has: page.locator("a.flag", { hasText: "Approve" }) }).last();
  const run = (await card.getAttribute("data-href")).split("/").pop();
  await card.locator("a.flag").click();
  await page.waitForURL(/\/needs#/);
  await page.waitForFunction((id) => document.activeElement?.id === id, "of-" + run);
  await open("/w/acme/runs/" + run);
  await page.getByRole("link", { name: "View decision" }).click();
  await page.waitForFunction((id) => document.activeElement?.id === id, "of-" + run);
});

test("a decision shows its evidence", async () => {
  const { page, open } = await visitor(browser, app, "ada", { viewport: phone });
  await open("/w/acme/needs");
  const fact = page.locator(".decision", { hasText: "Fact review" }).first();
  assert.ok(await fact.locator(".facts dd").count() > 0);
  const path = page.locator(".decision", { hasText: "Protected path" }).first();
  assert.match(await path.locator(".finding").innerText(), /\+2[^]*−1[^]*matches\s+\.github/);
  await path.getByText("Not built yet").waitFor();
  const merge = page.locator(".decision", { hasText: "Merge approval" }).first();
  assert.match(await merge.locator(".decision-body h2").innerText(), /^Merge #\d+ “.+” into main\?$/);
  assert.equal(await page.locator("main kbd:visible").count(), 0);
  const primary = await page.locator("main .decision-foot > form > .button.primary").evaluateAll((list) => list.map((b) => b.textContent.trim().split("\n")[0].trim()));
  assert.ok(primary.length > 0 && primary.every((text) => text.startsWith("Approve and merge")), String(primary));
  const [approve, change, reject] = await merge.locator(".decision-foot .button:visible").evaluateAll((list) => list.map((b) => b.getBoundingClientRect().toJSON()));
  assert.ok(approve.width > 300 && change.top > approve.bottom && reject.top === change.top && Math.abs(change.width - reject.width) < 2);
});

test("guardrails show their findings without broken words", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/runs");
  await page.locator(".run", { hasText: "Allow a path" }).locator("a").first().click();
  const card = page.getByRole("region", { name: "Guardrails" });
  await card.getByText("Blocked").waitFor();
  const heights = await card.locator("li > span:nth-child(2)").evaluateAll((list) => list.map((name) => [name.textContent, name.getBoundingClientRect().height]));
  for (const [name, height] of heights) assert.ok(height < 24, `${name}: ${height} high`);
  assert.match(await card.locator(".check-finding").innerText(), /^\.github\/\S+ matches/);
  await open("/w/acme/needs");
  await page.locator(".decision", { hasText: "Exception allowed once" }).first().locator("a").first().click();
  await page.getByRole("region", { name: "Guardrails" }).getByText("allowed once by Ada").waitFor();
  assert.equal(await page.getByRole("region", { name: "Guardrails" }).locator(".removed").count(), 0);
});

test("one key answers a decision, and other windows are updated", async () => {
  const ada = await visitor(browser, app, "ada");
  const mia = await visitor(browser, app, "mia");
  await ada.open("/w/acme/needs");
  await mia.open("/w/acme/needs");
  const before = await ada.page.locator(".decision").count();
  assert.ok(before >= 3);
  assert.match(await ada.page.title(), new RegExp(`^\\(${before}\\) Needs You`));
  assert.equal(await ada.page.locator("#badge b").innerText().then(parseInt), before);
  assert.equal(await ada.page.evaluate(() => document.activeElement.id), await ada.page.locator(".decision").first().getAttribute("id"), "the first decision has the focus");
  const posts = [];
  ada.page.on("request", (request) => { if (request.method() === "POST") posts.push(request.url()); });
  await ada.page.evaluate(() => document.addEventListener("htmx:before:settle", () => // another swap begins before the answer's has settled
    document.body.dispatchEvent(new CustomEvent("htmx:before:swap", { bubbles: true, detail: { ctx: {} } })), { once: true }));
  for (let i = 0; i < 5; i++) await ada.page.keyboard.down("a"); // the key is held
  await ada.page.keyboard.up("a");
  await ada.page.getByRole("dialog").getByText("A merge can't be undone here.").waitFor();
  assert.deepEqual(posts, [], "nothing is sent before it is confirmed");
  await ada.page.keyboard.press("Tab");
  await ada.page.keyboard.press("Enter");
  await ada.toast("Answered: Approve and merge.");
  await ada.page.waitForFunction((n) => document.querySelectorAll(".decision").length === n, before - 1);
  await mia.page.waitForFunction((n) => document.querySelectorAll(".decision").length === n, before - 1, { timeout: 10000 });
  await mia.page.waitForFunction((n) => parseInt(document.querySelector("#badge b")?.innerText) === n, before - 1);
  assert.equal(posts.length, 1, "a held key answers once: " + posts);
  assert.equal(await ada.page.evaluate(() => document.activeElement.id), await ada.page.locator(".decision").first().getAttribute("id"));
});

test("an answer that needs a text asks for it", async () => {
  const { page, open, toast } = await visitor(browser, app, "ada");
  await open("/w/acme/needs");
  const before = await page.locator(".decision").count();
  const merge = page.locator(".decision", { hasText: "Merge approval" }).first();
  assert.deepEqual(await merge.locator(".decision-foot button > kbd").allInnerTexts(), ["A", "C", "R"]);
  await merge.focus();
  await page.keyboard.press("c");
  const dialog = page.locator("dialog[open]");
  await dialog.getByRole("button", { name: "Request changes" }).click(); // without a text
  assert.ok(await dialog.isVisible());
  await dialog.locator("textarea").fill("Keep the old limit. <b>‮bold</b>");
  await dialog.getByRole("button", { name: "Request changes" }).click();
  await toast("Answered");
  await page.waitForFunction((n) => document.querySelectorAll(".decision").length === n, before - 1);
});

test("an issue is queued, shown as text, and its run cancelled", async () => {
  const { page, open, toast, problems } = await visitor(browser, app, "ada");
  const title = "<img src=x onerror=alert(1)> ‮evil‬ " + "wide".repeat(30);
  await open("/w/acme/runs");
  await page.click("text=Queue an issue");
  await page.fill("#queue-title", title);
  await page.fill("#queue-body", "What it says.");
  await page.click("dialog[open] >> text=Queue >> nth=-1");
  await toast("Issue queued.");
  const card = page.locator(".run", { hasText: "onerror" });
  await card.waitFor();
  await page.locator("#queue-issue").waitFor({ state: "hidden" });
  assert.deepEqual([await page.inputValue("#queue-title"), await page.inputValue("#queue-body")], ["", ""], "the form was reset");
  assert.equal(await page.locator("main img").count(), 0, "markup is shown as text");
  await page.waitForFunction(() => document.activeElement.textContent.includes("onerror")); // the new card, scrolled into view
  const inView = await card.evaluate((el) => el.getBoundingClientRect().bottom <= innerHeight && el.getBoundingClientRect().top >= 0);
  assert.ok(inView, "the new card is in view");
  assert.equal(await page.getByRole("link", { name: "Open its run" }).getAttribute("href"), await card.locator("a").first().getAttribute("href"));
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is not wider than the window");
  await card.locator("a").first().click();
  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.getByRole("button", { name: /^Cancel run #/ }).click();
  await page.getByText("Run cancelled.").first().waitFor();
  await page.locator("h1 .pill", { hasText: "Cancelled" }).waitFor();
  assert.deepEqual(problems, []);
});

test("an invisible title is refused, a missing one replaced, and a long one limited in height", async () => {
  const { page, open, context } = await visitor(browser, app, "ada");
  await open("/w/acme/runs");
  await page.click("text=Queue an issue");
  await page.fill("#queue-title", "\u200b\u200b\u200b");
  await page.click("dialog[open] >> text=Queue >> nth=-1");
  await page.locator("dialog[open] #queue-title-error").getByText("The title is needed").waitFor();
  assert.equal(await page.inputValue("#queue-title"), "\u200b\u200b\u200b", "what was typed is kept");
  assert.deepEqual(await page.evaluate(() => [document.activeElement.id, document.activeElement.tabIndex]), ["queue-title", 0], "the refused field has the focus");
  const queue = (data) => context.request.post(product.restUrl + "/api/v1/backlog/queue", { data, headers: { "X-Svc-Tenant": "acme" } });
  const repos = await (await context.request.get(product.restUrl + "/api/v1/repos", { headers: { "X-Svc-Tenant": "acme" } })).json();
  assert.equal((await queue({ repoId: repos.items[0].id, issueNumber: 909090 })).status(), 201);
  assert.equal((await queue({ repoId: repos.items[0].id, title: "W".repeat(200) })).status(), 201);
  await open("/w/acme/runs");
  await page.locator(".run", { hasText: "#909090" }).getByRole("link", { name: "(no title)" }).waitFor();
  const box = await page.locator(".run", { hasText: "WWWW" }).boundingBox();
  assert.ok(box.height < 180, `${box.height} pixels high`);
});

test("flags and numbers of a card do not wrap", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/runs");
  const heights = await page.locator(".flag, .run-foot, .run-head").evaluateAll((list) => list.map((e) => [e.innerText, e.getBoundingClientRect().height]));
  assert.ok(heights.length > 10);
  for (const [text, height] of heights) assert.ok(height <= 22, `${text}: ${height}`);
  for (const width of [1280, 1120, 1081]) {
    await page.setViewportSize({ width, height: 900 });
    const wide = await page.locator(".run").evaluateAll((list) => list.filter((run) => run.scrollWidth > run.clientWidth).map((run) => run.innerText));
    assert.deepEqual(wide, [], "content does not overflow its card, at " + width);
  }
});

test("without scripts a decision can be answered", async () => {
  const { page } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await page.goto(app + "/w/acme/needs");
  const before = await page.locator(".decision").count();
  assert.ok(before > 0);
  const card = page.locator(".decision", { has: page.getByRole("button", { name: "Deny" }) }).first();
  const [, issue] = (await card.locator(".decision-head a").first().innerText()).match(/(#\d+)/);
  await card.getByRole("button", { name: "Deny" }).click();
  await page.getByRole("heading", { name: `Deny the change for ${issue}?` }).waitFor();
  await page.getByRole("button", { name: `Deny it for ${issue}` }).click();
  await page.getByText("Answered: Deny.").waitFor();
  await page.waitForLoadState(); // the decisions are below the message
  assert.equal(await page.locator(".decision").count(), before - 1);
});

/** runsTitled returns how many active runs have a title. */
async function runsTitled(context, title) {
  const answer = await context.request.get(product.restUrl + "/api/v1/runs?status=active&limit=100", { headers: { "X-Svc-Tenant": "acme" } });
  return (await answer.json()).items.filter((run) => run.issueTitle === title).length;
}

test("a double click on Queue sends the form once", async () => {
  const { page, context, open, toast } = await visitor(browser, app, "ada");
  let posts = 0;
  page.on("request", (request) => { if (request.method() === "POST") posts++; });
  await open("/w/acme/runs");
  await page.getByRole("button", { name: "Queue an issue" }).click();
  await page.fill("#queue-title", "Clicked twice");
  await page.locator("dialog[open]").getByRole("button", { name: "Queue", exact: true }).dblclick();
  await toast("Issue queued.");
  await page.locator("#queue-issue").waitFor({ state: "hidden" });
  await page.locator(".run", { hasText: "Clicked twice" }).waitFor();
  assert.equal(posts, 1);
  assert.equal(await runsTitled(context, "Clicked twice"), 1);
});

test("a form that is sent twice queues one run", async () => {
  const { page, context } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await page.goto(app + "/w/acme/runs");
  const form = { repo: await page.locator("#queue-repo option").first().getAttribute("value"), key: await page.locator("#queue-form [name=key]").getAttribute("value"), title: "Sent twice" };
  const send = (more, options) => context.request.post(app + "/w/acme/runs", { headers: { Origin: app }, form: { ...form, ...more }, ...options });
  // The pages that follow are not compared: the one that is read first takes the notice of both, which is a cookie.
  for (const answer of await Promise.all([1, 2].map(() => send({}, { maxRedirects: 0 })))) assert.equal(answer.status(), 303);
  assert.equal(await runsTitled(context, "Sent twice"), 1);
  assert.match(await (await send({ title: "Sent once" })).text(), /Issue queued/);
  assert.equal(await runsTitled(context, "Sent once"), 1, "a form with other values is another request");
});

test("an issue's text may be as long as its field permits, in any script", async () => {
  const { page, context, toast } = await visitor(browser, app, "ada");
  await page.goto(app + "/w/acme/runs");
  await page.getByRole("button", { name: "Queue an issue" }).click();
  await page.fill("#queue-title", "A long text");
  await page.fill("#queue-body", "水".repeat(Number(await page.locator("#queue-body").getAttribute("maxlength"))));
  await page.locator("#queue-form button.primary").click();
  await toast("Issue queued.");
  assert.equal(await runsTitled(context, "A long text"), 1);
});

test("without scripts an issue is queued, and a refusal keeps the form's values", async () => {
  const { page } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await page.goto(app + "/w/acme/runs");
  await page.getByRole("button", { name: "Queue an issue" }).click();
  const dialog = page.locator("dialog[open]");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Queue an issue" }).click();
  await page.locator("#queue-repo").selectOption({ label: "acme/web" });
  const repo = await page.inputValue("#queue-repo");
  await page.fill("#queue-number", "#twelve");
  await page.fill("#queue-title", "Typed without scripts");
  await page.fill("#queue-body", "A <b>text</b>\nof two lines");
  await dialog.getByRole("button", { name: "Queue", exact: true }).click();
  await dialog.getByText("An issue number has only digits.").waitFor();
  assert.deepEqual([repo, "#twelve", "Typed without scripts", "A <b>text</b>\nof two lines"],
    await Promise.all(["repo", "number", "title", "body"].map((field) => page.inputValue("#queue-" + field))));
  await page.fill("#queue-number", "");
  await dialog.getByRole("button", { name: "Queue", exact: true }).click();
  await page.getByText("Issue queued.").waitFor();
  await page.locator(".run", { hasText: "Typed without scripts" }).waitFor();
});

for (const path of ["dashboard", "runs", "runs?view=list", "needs"]) {
  test(`${path} passes axe`, () => checkAccessibility(browser, app, "ada", "/w/acme/" + path));
}

test("a run passes axe", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/runs");
  await checkAccessibility(browser, app, "ada", await page.locator(".run a").last().getAttribute("href"));
});
