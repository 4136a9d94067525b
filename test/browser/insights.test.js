// The insights page, compared with the service's numbers for the demonstration data.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
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

/** insights returns what the service answers to the page. */
async function insights(page, query) {
  const answer = await page.request.get(product.restUrl + "/api/v1/insights" + query, { headers: { "X-Svc-Tenant": "acme", Cookie: await cookie(page) } });
  assert.equal(answer.status(), 200);
  return answer.json();
}

async function cookie(page) {
  return (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
}

test("insights show numbers, a table, methods and a CSV", async () => {
  const { page, open, problems } = await visitor(browser, app, "ada");
  await open("/w/acme/insights");
  assert.equal(await page.locator(".kpi").count(), 5);
  await page.click("text=90d");
  await page.waitForURL(/range=90d/);
  await page.click("text=View as table");
  assert.equal(await page.locator("tbody tr").count(), 90);
  await page.click("text=How this is calculated");
  await page.getByText("On which day").waitFor();
  await page.locator(".kpi", { hasText: "Cost per merged PR" }).click();
  await page.getByRole("heading", { name: "Cost per merged PR, by day" }).waitFor();
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("text=Download as CSV")]);
  assert.equal(file.suggestedFilename(), "insights.csv");
  assert.deepEqual(problems, []);
});

test("each number shows its change as a word and an icon", async () => {
  const { page, open, problems } = await visitor(browser, app, "ada");
  await open("/w/acme/insights");
  const { kpis } = await insights(page, "?range=30d");
  assert.equal(await page.locator(".kpi").count(), kpis.length);
  for (const [i, kpi] of kpis.entries()) {
    const tile = page.locator(".kpi").nth(i);
    if (kpi.value === null || kpi.prior === null) continue;
    const word = kpi.value === kpi.prior ? "unchanged" : kpi.value > kpi.prior ? "more than before" : "less than before";
    assert.match(await tile.locator(".change").textContent(), new RegExp(word), kpi.key);
    assert.equal(await tile.locator(".change .icon").count(), 1);
  }
  assert.deepEqual(problems, []);
});

test("range, chart and repository are kept in the address", async () => {
  const { page, open } = await visitor(browser, app, "leo");
  await open("/w/acme/insights");
  for (const [range, days] of [["7d", 7], ["90d", 90], ["30d", 30]]) {
    await page.getByRole("link", { name: range, exact: true }).click();
    await page.waitForURL(new RegExp("range=" + range));
    assert.equal(await page.locator(".chart .cross").count(), days);
  }
  await page.locator(".kpi", { hasText: "Cost per merged PR" }).click();
  await page.waitForURL(/chart=cost_per_merged_pr/);
  await page.getByRole("heading", { name: "Cost per merged PR, by day" }).waitFor();
  const all = await page.locator(".kpi").allInnerTexts();
  await page.selectOption("#repo", { index: 1 });
  await page.waitForURL(/repo=/);
  await page.reload();
  assert.equal(await page.locator("#repo").inputValue(), new URL(page.url()).searchParams.get("repo"));
  assert.notDeepEqual(await page.locator(".kpi").allInnerTexts(), all);
});

test("the chart's values are shown on hover, in a table and as CSV", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/insights?chart=human_interventions&range=7d");
  const { kpis } = await insights(page, "?range=7d");
  const { series } = kpis.find((kpi) => kpi.key === "human_interventions");
  assert.match(await page.locator(".chart .cross text").last().textContent(), new RegExp(`: ${series.at(-1).value}, prior ${series.at(-1).prior}`));
  await page.locator(".chart .cross input").last().hover();
  assert.equal(await page.locator(".chart .cross").last().locator("line").evaluate((line) => getComputedStyle(line).opacity), "1");
  assert.equal(await page.locator(".chart path.prior-bars").count(), 1);
  await page.getByText("View as table").click();
  const rows = await page.locator(".under table tbody tr").evaluateAll((list) => list.map((tr) => [...tr.querySelectorAll("td")].map((td) => td.textContent)));
  assert.deepEqual(rows, series.map((day) => [String(day.value), String(day.prior)]));
  await page.getByText("How this is calculated").click();
  await page.getByText(kpis.find((kpi) => kpi.key === "human_interventions").methodology.summary).waitFor();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download as CSV" }).click()]);
  const text = (await readFile(await file.path(), "utf8")).trim().split("\n");
  assert.equal(text.length, 8);
  const column = text[0].split(",").findIndex((name) => name.startsWith("human_interventions"));
  assert.deepEqual(text.slice(1).map((line) => line.split(",")[column]), series.map((day) => String(day.value)));
});

test("arrow keys move the crosshair", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/insights?chart=human_interventions&range=7d");
  const shown = () => page.locator(".cross").evaluateAll((list) => list.flatMap((g, i) => getComputedStyle(g.querySelector("text")).opacity === "1" ? [i] : []));
  await page.locator(".cross input").first().focus();
  await page.keyboard.press("ArrowRight");
  assert.deepEqual(await shown(), [1]);
  await page.keyboard.press("ArrowRight");
  assert.deepEqual(await shown(), [2]);
  await page.keyboard.press("ArrowLeft");
  assert.deepEqual(await shown(), [1]);
});

test("the chart is legible on a phone, and begins on the first screen", async () => {
  const { page, open } = await visitor(browser, app, "ada", { viewport: phone });
  await open("/w/acme/insights");
  const texts = await page.locator(".chart .scale:visible").evaluateAll((list) => list.map((text) => {
    const { left, right, height } = text.getBoundingClientRect();
    return { text: text.textContent, left, right, height };
  }));
  assert.ok(texts.length >= 8);
  for (const { text, left, right, height } of texts) assert.ok(height >= 11 && left >= 0 && right <= phone.width, `${text}: ${height} high, ${left} to ${right}`);
  const days = texts.filter(({ text }) => /^\d+ [A-Z]/.test(text));
  for (const [i, day] of days.slice(1).entries()) assert.ok(days[i].right < day.left, `${days[i].text} and ${day.text} overlap`);
  assert.ok(await page.locator(".chart").evaluate((chart) => chart.getBoundingClientRect().top) < phone.height);
});

test("without data a link to the backlog replaces the chart", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/ada/insights");
  await page.getByText("No data yet").waitFor();
  assert.equal(await page.locator(".chart").count(), 0);
  await page.getByRole("link", { name: "Open the backlog" }).click();
  await page.waitForURL(/\/w\/ada\/backlog/);
});

test("an open table stays open when the page is updated", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/insights");
  await page.getByText("View as table").click();
  const answer = page.waitForResponse((r) => r.url().includes("/insights"));
  await page.evaluate(() => document.body.dispatchEvent(new Event("live-all")));
  await answer;
  await page.waitForFunction(() => !document.querySelector(".htmx-request"));
  assert.ok(await page.locator(".under table").first().isVisible());
});

test("/w/acme/insights passes axe", () => checkAccessibility(browser, app, "ada", "/w/acme/insights?range=7d"));
