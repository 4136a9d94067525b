// How many requests to the REST service each page needs, which determines its speed and cost.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { submitJob, visitor } from "./app.js";
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

const maxRequests = 3;

/** requestCounts waits until no more requests are answered, and returns their number by method, route and status. */
async function requestCounts() {
  for (let last = ""; ;) {
    const text = await (await fetch(product.metricsUrl)).text();
    const lines = text.split("\n").filter((line) => /^svc_http_request_duration_seconds_count\{.*route="\/api\/(v1|auth)\//.test(line)).join("\n");
    if (lines === last) return new Map(lines.split("\n").map((line) => [line.match(/method="(\w+)"/)[1] + " " + line.match(/route="([^"]+)"/)[1] + " " + line.match(/status="(\w+)"/)[1], Number(line.split(" ").at(-1))]));
    last = lines;
  }
}

test("a page makes at most three requests to the service", async () => {
  const { context, page } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  const linkOn = async (list, selector) => {
    await page.goto(app + list);
    return page.locator(selector).first().getAttribute("href");
  };
  const job = await submitJob(product, { name: "waits", steps: [{ run: "true" }], requires: { labels: ["gpu=a100"] } });
  const runner = (await linkOn("/w/acme/farm?status=online", ".runner-row .name a")).split("/").at(-1);
  const pages = {
    "/w": 3, "/account": 3, "/w/acme/dashboard": 3, "/w/acme/needs": 3, "/w/acme/needs/badge": 2,
    "/w/acme/runs": 3, "/w/acme/runs?status=finished": 3, "/w/acme/insights": 3, "/w/acme/members": 3, "/w/acme/service-accounts": 2,
    "/w/acme/audit": 3, "/w/acme/audit?action=member.*": 3, "/w/acme/audit/replay": 3,
    "/w/acme/farm": 3, "/w/acme/farm/jobs": 2, "/w/acme/farm/enrollments": 2, "/w/acme/farm/secrets": 3, [`/w/acme/farm/runners/${runner}`]: 3, "/w/acme/settings": 1, "/new-workspace": 1, [`/w/acme/farm/jobs/${job}`]: 3,
    [await linkOn("/w/acme/runs", ".run > a")]: 3,
  };
  const counted = {}, requests = [];
  for (const address of Object.keys(pages)) {
    const before = await requestCounts();
    const answer = await context.request.get(app + address, { maxRedirects: 0 });
    assert.equal(answer.status(), 200, address);
    const routes = [];
    for (const [route, n] of await requestCounts()) for (let i = before.get(route) ?? 0; i < n; i++) routes.push(route);
    counted[address] = routes.length;
    requests.push(address + ": " + routes.join(", "));
  }
  assert.deepEqual(counted, pages, requests.join("\n"));
  for (const [address, n] of Object.entries(counted)) assert.ok(n <= maxRequests, address);
});
