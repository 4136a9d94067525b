// The pages of a job and of the list of jobs. Jobs run on the runner that make run starts.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { checkAccessibility, phone, submitJob, visitor } from "./app.js";
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

test("a running job is followed, and its log is shown as text", async () => {
  const { page, open, problems } = await visitor(browser, app, "ada");
  const id = await submitJob(product, {
    name: "log <b>bold</b>",
    steps: [{ name: "Say", run: "printf '\\033[31mred\\033[0m <script>alert(1)</script> \\033]8;;https://evil.example\\alink\\033]8;;\\a\\n'; mkdir out; echo file > out/a.txt; sleep 4; echo the end" }],
    artifacts: [{ name: "out", paths: ["out/**"] }],
  });
  await open("/w/acme/farm/jobs/" + id);
  const log = page.locator(".line-of");
  await log.getByText("<script>alert(1)</script>").waitFor();
  assert.equal(await log.locator(".red").innerText(), "red");
  assert.equal(await log.locator("script").count(), 0);
  assert.equal(await log.locator("a[href*=evil]").count(), 0);
  await log.getByText("the end").waitFor({ timeout: 20000 });
  await page.locator("h1 .pill", { hasText: "Succeeded" }).waitFor({ timeout: 20000 });
  await page.getByText("out/a.txt").first().waitFor({ timeout: 20000 });
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "out/a.txt" }).click()]);
  const text = await readFile(await file.path(), "utf8");
  assert.equal(text, "file\n");
  assert.deepEqual(problems, []);
});

let longJob; // promise of the id of the job with a long log

/** openLongLog opens the page of a finished job with a long log. */
async function openLongLog({ page, open }) {
  longJob ??= submitJob(product, {
    name: "long", steps: [{ name: "Count", run: "seq -f 'line %.0f of many' 100000 | sed 's/^line 77777 .*/x \\x1b[31mNee\\x1b[0mdle <b>here<\\/b>/; s/^line 500 .*/a needle too/'" }],
  });
  const path = "/w/acme/farm/jobs/" + await longJob;
  await open(path);
  await page.locator("h1 .pill", { hasText: "Succeeded" }).waitFor({ timeout: 60000 });
  await open(path);
  await page.locator(".line-of").getByText("line 100000 of many").waitFor();
}

test("a long log is shown from its end, and more lines are loaded on request", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await openLongLog({ page, open });
  assert.ok(await page.locator(".lines .line-of").count() < 6000);
  const shown = await page.locator(".lines .line-of").count();
  const first = await page.locator(".lines .line-of").first().innerText();
  const before = `line ${Number(first.match(/line (\d+)/)[1]) - 1} of many`;
  assert.equal(await page.locator(".line-of").getByText(before, { exact: true }).count(), 0);
  await page.click("text=Earlier lines");
  await page.locator(".line-of").getByText(before, { exact: true }).waitFor();
  const counted = await page.locator(".lines .line-of span:last-child > span").allInnerTexts();
  assert.ok(counted.length > shown);
  const numbers = counted.map((text) => Number(text.match(/\d+/)[0]));
  assert.deepEqual(numbers, numbers.map((_, i) => numbers[0] + i), "no line is missing or repeated");
  await page.click("text=From the beginning");
  await page.locator(".line-of").getByText("line 1 of many", { exact: true }).waitFor();
  assert.ok(await page.locator(".lines .line-of").count() < 11000, "the rest is loaded when it is scrolled to");
});

test("a long log is searched, and its lines have numbers", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await openLongLog({ page, open });
  const numbers = (await page.locator(".lines .line-of > b").allInnerTexts()).map(Number);
  assert.deepEqual(numbers, numbers.map((_, i) => numbers[0] + i));
  assert.equal(numbers.at(-1), 100000);
  await page.keyboard.press("/");
  await page.keyboard.type("NEEDLE");
  await page.locator(".found", { hasText: "1 of 2" }).waitFor();
  const shown = page.locator(".line-of.shown");
  await shown.getByText("needle").waitFor();
  assert.equal(await shown.locator("> b").innerText(), "500");
  assert.deepEqual(await shown.locator("mark").allInnerTexts(), ["needle"]);
  assert.ok(await isInView(shown));
  assert.equal(await page.evaluate(() => document.activeElement.name), "find", "the search field keeps the focus");
  await page.locator("h1").click();
  await page.keyboard.press("n");
  await page.locator(".found", { hasText: "2 of 2" }).waitFor();
  await page.locator(".line-of.shown > b", { hasText: "77777" }).waitFor();
  assert.deepEqual(await shown.locator("mark").allInnerTexts(), ["Nee", "dle"]);
  assert.equal(await shown.locator("> span").innerText(), "x Needle <b>here</b>");
  assert.ok(await isInView(shown));
  await page.keyboard.press("n");
  await page.locator(".found", { hasText: "1 of 2" }).waitFor();
  await page.reload();
  await page.locator(".line-of.shown > b", { hasText: "500" }).waitFor();
  await page.locator(".line-of > b a", { hasText: /^490$/ }).click();
  await page.waitForURL(/\?attempt=1&at=\d+#L490$/);
  await page.locator(".line-of.shown > b", { hasText: "490" }).waitFor();
  assert.ok(await isInView(shown), "the address leads to the line");
  assert.equal(await page.locator(".line-of mark").count(), 0);
  await page.fill("#find-in-log", "no such text");
  await page.locator(".found", { hasText: "Not found" }).waitFor();
  await page.locator(".line-of").getByText("line 100000 of many").waitFor();

  const time = page.locator(".lines time").last();
  assert.ok(await time.isVisible());
  await page.getByLabel("Timestamps").uncheck({ force: true });
  assert.ok(!await time.isVisible());
});

/** isInView reports whether a line is in the visible part of the log. */
async function isInView(line) {
  return line.evaluate((el) => {
    const { top, bottom } = el.getBoundingClientRect(), log = el.closest(".lines").getBoundingClientRect();
    return top >= log.top && bottom <= log.bottom && top >= 0 && bottom <= innerHeight;
  });
}

test("a job shows its steps in the log, and links lead to a line", async () => {
  const { page, open, problems } = await visitor(browser, app, "ada");
  const steps = [
    { name: "Build", run: "echo compiling\nseq -f 'line %.0f' 200" }, { name: "Quiet", run: "true" }, { name: "Test", run: "printf unfinished; echo; sleep 3; echo tested" },
  ];
  await open("/w/acme/farm/jobs/" + await submitJob(product, { name: "in steps", steps })); // an earlier one of this name
  await page.locator("h1 .pill", { hasText: "Succeeded" }).waitFor({ timeout: 20000 });
  const id = await submitJob(product, { name: "in steps", steps });
  await open("/w/acme/farm/jobs/" + id);
  await page.locator(".line-of").getByText("unfinished").waitFor();
  await page.waitForFunction(() => /^[1-9][.0-9]* K/.test(document.querySelector("#log-size").textContent)); // while it runs
  await page.locator("h1 .pill", { hasText: "Succeeded" }).waitFor({ timeout: 20000 });
  await open("/w/acme/farm/jobs/" + id);
  await page.locator(".line-of").getByText("tested").waitFor();
  assert.deepEqual(await page.locator(".log-step h3").allInnerTexts(), ["Build", "Quiet", "Test"]);
  assert.equal(await page.locator(".log-step").nth(1).locator("code").innerText(), "true");
  assert.match(await page.locator(".log-step summary").first().innerText(), /^echo compiling and 1 more line$/);
  assert.match(await page.locator(".steps li").first().innerText(), /Build[^]*echo compiling/);
  await page.locator(".past-jobs li", { hasText: "Succeeded" }).first().waitFor(); // how long the earlier one took
  await page.locator(".steps").getByRole("link", { name: "Test" }).click();
  await page.waitForURL(/at=\d+#L202$/);
  await page.locator(".line-of.shown", { hasText: "unfinished" }).waitFor();
  assert.equal(await page.locator("#L202").innerText().then((text) => text.includes("unfinished")), true);
  await page.locator("#L120 > b a").click();
  await page.waitForURL(/#L120$/);
  const shown = page.locator(".line-of.shown", { hasText: "line 119" });
  await shown.waitFor();
  assert.ok(await isInView(shown));
  assert.deepEqual(problems, []);
});

test("an ended job is tried again as a new one, which names it and who asked", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  const id = await submitJob(product, { name: "again", steps: [{ name: "Fail", run: "exit 3" }] });
  await open("/w/acme/farm/jobs/" + id);
  await page.locator("h1 .pill", { hasText: "Failed" }).waitFor({ timeout: 20000 });
  await page.getByRole("button", { name: "Retry" }).click();
  await page.waitForURL((url) => /farm\/jobs\/[0-9a-f-]{36}$/.test(url.pathname) && !url.pathname.endsWith(id));
  await page.getByText("submitted by Ada Lind").waitFor();
  await page.getByRole("link", { name: "Retry of an earlier job" }).click();
  await page.waitForURL((url) => url.pathname.endsWith(id));
  const vera = await visitor(browser, app, "vera");
  await vera.open("/w/acme/farm/jobs/" + id);
  assert.ok(await vera.page.getByRole("button", { name: "Retry" }).isDisabled());
});

test("on a phone the files of a job can be downloaded by their names, and nothing is scrolled sideways", async () => {
  const { page, open } = await visitor(browser, app, "ada", { viewport: phone });
  const id = await submitJob(product, {
    name: "files", steps: [{ name: "Make", run: "mkdir -p a-folder; echo x > a-folder/a-report-with-a-long-name.txt" }], artifacts: [{ name: "all", paths: ["a-folder/**"] }],
  });
  await open("/w/acme/farm/jobs/" + id);
  const link = page.getByRole("link", { name: "a-folder/a-report-with-a-long-name.txt" });
  await link.waitFor({ timeout: 20000 });
  const { x, width } = await link.boundingBox();
  assert.ok(x >= 0 && x + width <= phone.width, `${x} ${width}`);
  for (const card of await page.locator("#job .columns .card").all()) assert.equal((await card.boundingBox()).width, phone.width - 32);
  assert.equal(await page.locator("#job .scroll").evaluateAll((list) => list.filter((el) => el.scrollWidth > el.clientWidth).length), 0);
  const [file] = await Promise.all([page.waitForEvent("download"), link.click()]);
  assert.equal(await readFile(await file.path(), "utf8"), "x\n");
});

test("a waiting job shows the reason, and can be cancelled", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  const id = await submitJob(product, { name: "train", steps: [{ name: "Train", run: "true" }], requires: { labels: ["gpu=a100"] } });
  await open("/w/acme/farm/jobs/" + id);
  await page.getByText(/The closest lacks .*gpu=a100/).waitFor();
  await page.keyboard.press("x");
  await page.getByRole("button", { name: "Cancel the job" }).click();
  await page.locator("h1 .pill", { hasText: "Cancelled" }).waitFor({ timeout: 20000 });
});

test("a log with carriage returns and invalid bytes is followed line by line", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  const id = await submitJob(product, {
    name: "returns", steps: [{ name: "Print", run: "for i in 1 2 3 4; do printf '\\377\\376 step %s\\r\\n' $i; sleep 1; done; printf 'no end'" }],
  });
  await open("/w/acme/farm/jobs/" + id);
  await page.locator(".line-of").getByText("no end").waitFor({ timeout: 30000 });
  const texts = await page.locator(".lines .line-of > span").allInnerTexts();
  assert.deepEqual(texts.map((text) => text.replace(/^\W+/, "")), ["step 1", "step 2", "step 3", "step 4", "no end"]);
});

test("a log is followed although requests for its lines fail", async () => {
  const { page } = await visitor(browser, app, "ada"), log = page.locator(".line-of");
  const id = await submitJob(product, { name: "lossy", steps: [{ name: "Count", run: "for i in $(seq 30); do echo line $i; sleep 0.5; done; echo the end" }] });
  const failOnce = (fail) => new Promise((done) => page.route("**/lines?*", async (route) => { await fail(route); done(); }, { times: 1 }));
  const first = failOnce((route) => route.fulfill({ status: 503, body: "Busy." }));
  await page.goto(app + "/w/acme/farm/jobs/" + id);
  await first;
  await log.getByText("line 1", { exact: true }).waitFor();
  await failOnce((route) => route.abort());
  await log.getByText("the end").waitFor({ timeout: 40000 });
});

test("a running job is cancelled with a grace period", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  const id = await submitJob(product, {
    name: "stubborn", steps: [{ name: "Wait", run: "trap '' TERM; echo begun; while :; do sleep 1; done" }],
    timeouts: { cancelGraceSeconds: 15 }, artifacts: [{ name: "dist", paths: ["dist/**"], when: "always" }],
  });
  await open("/w/acme/farm/jobs/" + id);
  await page.locator(".line-of").getByText("begun").waitFor({ timeout: 30000 });
  await page.locator("tr", { hasText: "dist/**" }).getByText("awaited").waitFor();
  const leo = await visitor(browser, app, "leo");
  await leo.open("/w/acme/farm/jobs/" + id);
  assert.ok(await leo.page.getByRole("button", { name: "Cancel" }).isDisabled());
  await leo.page.getByText("Only an Owner or Maintainer can cancel a job.").waitFor({ state: "attached" });
  await page.keyboard.press("x");
  await page.getByText("What still runs after the time to end is killed.").waitFor();
  await page.getByRole("button", { name: "Cancel the job" }).click();
  await page.getByText("then running steps are killed").waitFor();
  await leo.page.getByText("then running steps are killed").waitFor();
  assert.equal(await leo.page.getByRole("button", { name: "Kill now" }).count(), 0);
  await page.locator("h1 .pill", { hasText: "Cancelled" }).waitFor({ timeout: 60000 });
});

for (const scripts of [true, false]) {
  test(`a job can be killed during its grace period, ${scripts ? "with" : "without"} scripts`, async () => {
    const { page } = await visitor(browser, app, "ada", { javaScriptEnabled: scripts });
    const id = await submitJob(product, {
      name: "stubborn", steps: [{ name: "Wait", run: "trap '' TERM; echo begun > begun; while :; do sleep 1; done" }],
      timeouts: { cancelGraceSeconds: 600 }, artifacts: [{ name: "begun", paths: ["begun"], when: "always" }],
    });
    const shows = async (what) => { // without scripts a page does not update itself
      for (const until = Date.now() + 30000; !scripts && !await what.count() && Date.now() < until;) await page.reload();
      await what.waitFor();
    };
    await page.goto(app + "/w/acme/farm/jobs/" + id);
    await shows(page.locator("h1 .pill", { hasText: "Running" }));
    assert.equal(await page.locator("select[name=grace]").inputValue(), "600");
    await page.selectOption("select[name=grace]", "120");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Cancel the job" }).click();
    await page.getByText(/Cancelling: (2 min|1 min 5\d s) left, then running steps/).waitFor();
    await page.getByRole("button", { name: "Kill now" }).click();
    await shows(page.locator("h1 .pill", { hasText: "Cancelled" }));
    await shows(page.locator("tr", { hasText: "begun" }).getByRole("link", { name: "begun" })); // stored after the job has ended
  });
}

test("jobs are filtered by state and by name", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await submitJob(product, { name: "waits for a machine", steps: [{ name: "One", run: "true" }], requires: { labels: ["gpu=a100"] } });
  await open("/w/acme/farm/jobs");
  await page.locator("#jobs li", { hasText: "waits for a machine" }).getByText("No online runner has the required").waitFor();
  await page.selectOption("#state", "running");
  await page.locator("#jobs li", { hasText: "waits for a machine" }).waitFor({ state: "detached" });
  assert.match(page.url(), /state=running/);
  await page.selectOption("#state", "queued");
  await page.keyboard.press("Escape");
  await page.fill("#find", "for a mach");
  await page.waitForURL(/q=for\+a\+mach|q=for%20a%20mach/);
  assert.equal(await page.locator("#jobs li").count(), 1);
  await page.fill("#find", "nobody");
  await page.getByText("No matching jobs").waitFor();
  await open("/w/acme/farm");
  await page.getByRole("link", { name: "All jobs" }).click();
  await page.waitForURL(/\/farm\/jobs$/);
});

test("a search shows what matches its last text, although an answer to an earlier one is late", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  const id = await submitJob(product, { name: "looked for", steps: [{ name: "Say", run: "printf 'first\\nlast\\n'" }] });
  await open("/w/acme/farm/jobs/" + id);
  await page.locator("h1 .pill", { hasText: "Succeeded" }).waitFor({ timeout: 60000 });
  await page.route(/[?&](q|find)=l($|&)/, () => {}); // without an answer
  for (const [path, field, name, found] of [
    ["/w/acme/farm/jobs?status=finished", "#find", "q", page.locator("#jobs li", { hasText: "looked for" })],
    ["/w/acme/farm/jobs/" + id, "#find-in-log", "find", page.locator(".line-of.shown", { hasText: "last" })],
  ]) {
    await open(path);
    await Promise.all([page.waitForRequest(new RegExp(`[?&]${name}=l($|&)`)), page.fill(field, "l")]);
    const text = name === "q" ? "looked" : "last";
    await Promise.all([page.waitForRequest(new RegExp(`[?&]${name}=${text}`)), page.fill(field, text)]);
    await page.waitForURL(new RegExp(`[?&]${name}=${text}`));
    await found.waitFor();
  }
});

test("while the key of the next match is held, each match is requested once", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  const id = await submitJob(product, { name: "held key", steps: [{ name: "Say", run: "printf 'needle\\nneedle\\nneedle\\n'" }] });
  await open("/w/acme/farm/jobs/" + id);
  await page.locator("h1 .pill", { hasText: "Succeeded" }).waitFor({ timeout: 60000 });
  await open(`/w/acme/farm/jobs/${id}?find=needle`);
  const requested = [];
  const first = new Promise((resolve) => {
    page.route(/[?&]match=/, (route) => {
      requested.push(new URL(route.request().url()).searchParams.get("match"));
      if (requested.length > 1) return route.continue();
      resolve(route);
    });
  });
  const shown = (text) => page.locator(".found", { hasText: text }).waitFor({ timeout: 10000 });
  await shown("1 of 3");
  await page.keyboard.down("n");
  const route = await first;
  for (let i = 0; i < 10; i++) await page.keyboard.down("n");
  await route.continue();
  await shown("2 of 3");
  while (requested.length < 2) await page.keyboard.down("n");
  await page.keyboard.up("n");
  assert.deepEqual(requested.slice(0, 2), ["2", "3"]);
});

test("a job passes axe", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/farm/jobs?status=finished");
  await checkAccessibility(browser, app, "ada", await page.locator("#jobs li a").first().getAttribute("href"));
});

test("a job with a search in its log passes axe", async () => {
  const { open, page } = await visitor(browser, app, "ada");
  const id = await submitJob(product, { name: "found", steps: [{ name: "Say", run: "printf 'one\\ntwo\\nanother one\\n'" }] });
  await open("/w/acme/farm/jobs/" + id);
  await page.locator("h1 .pill", { hasText: "Succeeded" }).waitFor({ timeout: 60000 });
  await checkAccessibility(browser, app, "ada", `/w/acme/farm/jobs/${id}?find=one`, (page) => page.locator(".line-of.shown").waitFor());
});
