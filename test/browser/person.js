// Starts the browser, and opens pages that contain only Better Auth's client.
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { executablePath } from "../chromium.js";

const here = fileURLToPath(new URL(".", import.meta.url));

/** launch starts the browser. */
export function launch() {
  return chromium.launch({
    executablePath,
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
      "--host-resolver-rules=MAP svc.test 127.0.0.1", // an address that browsers do not trust without https
      "--font-render-hinting=none", // renders fonts as the full browser does, so that screenshots of both are equal
    ],
  });
}

/**
 * openClient opens a browser context with a page on the app's origin that contains only the client, as
 * window.client. problems collects uncaught errors and console errors, except for responses with status 4xx.
 */
export async function openClient(browser, appUrl) {
  const { outputFiles } = await build({ entryPoints: [here + "client.js"], bundle: true, write: false, format: "iife" });
  const context = await browser.newContext();
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !/status of 4\d\d/.test(message.text())) problems.push(message.text());
  });
  await page.route(appUrl + "/client", (route) => route.fulfill({
    contentType: "text/html", body: `<!doctype html><title>client</title><script>${outputFiles[0].text.replaceAll("</script", "<\\/script")}</script>`,
  }));
  await page.goto(appUrl + "/client");
  /** tryCall calls client.<path>(input), such as tryCall("organization.list"), and returns {data, error}. */
  const tryCall = (path, input) => page.evaluate(async ([path, input]) => {
    const { data, error } = await path.split(".").reduce((object, name) => object[name], window.client)(input);
    return { data, error };
  }, [path, input]);
  /** call is tryCall that requires success and returns data. */
  const call = async (path, input) => {
    const { data, error } = await tryCall(path, input);
    assert.equal(error, null, `${path}: ${JSON.stringify(error)}`);
    return data;
  };
  /** refused is tryCall that requires an error with this status and code. */
  const refused = async (path, input, status, code) => {
    const { error } = await tryCall(path, input);
    assert.ok(error, `${path} is not refused`);
    assert.deepEqual([error.status, error.code], [status, code], path);
  };
  /** signInWithCodeHost signs in through the code host, where choose selects a person: chooseLogin or createLogin. */
  const signInWithCodeHost = async (choose) => {
    page.evaluate(() => window.client.signIn.social({ provider: "github", callbackURL: "/client" })).catch(() => {}); // rejected because the page navigates away
    await page.waitForURL(/login\/oauth\/authorize/);
    await choose(page);
    await page.waitForURL(appUrl + "/client");
    await page.goto(appUrl + "/client"); // route does not intercept redirects
  };
  return { page, call, refused, signInWithCodeHost, problems };
}

/** chooseLogin selects a person of the demonstration data at the code host. */
export const chooseLogin = (login) => (page) => page.click(`button[name=login][value=${login}]`);

/** createLogin creates a new person with a verified address at the code host. */
export const createLogin = (name, email) => async (page) => {
  await page.click("summary");
  await page.fill("#name", name);
  await page.fill("#email", email);
  await page.click("button[name=new]");
};
