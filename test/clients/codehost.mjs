// Has a conversation with the development code host, and checks each answer against GitHub's own
// description. Says nothing but what is wrong.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import Ajv from "ajv";
import formats from "ajv-formats";

const described = JSON.parse(
  readFileSync(createRequire(import.meta.url).resolve("@octokit/openapi").replace(/index\.js$/, "generated/api.github.com.json"), "utf8"),
);
// OpenAPI 3.0 writes null in its own way, which Ajv knows beside a type only.
function nullable(at) {
  if (!at || typeof at !== "object") return;
  Object.values(at).forEach(nullable);
  if (at.nullable !== true) return;
  if (at.enum && !at.enum.includes(null)) at.enum.push(null);
  if (at.type) return;
  const { nullable: _, ...rest } = at;
  for (const key of Object.keys(at)) delete at[key];
  at.anyOf = [{ type: "null" }, rest];
}
nullable(described.components.schemas);
nullable(described.paths);

const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: true });
formats(ajv);
ajv.addFormat("repo.nwo", true);
ajv.addFormat("timestamp", true);
ajv.addSchema(described, "github");

const escaped = (key) => key.replaceAll("~", "~0").replaceAll("/", "~1").replaceAll("{", "%7B").replaceAll("}", "%7D");

/** schemaOf returns the check of an answer, null if it has no body, undefined if the status is not described. */
function schemaOf(template, method, status) {
  const operation = described.paths[template]?.[method];
  assert.ok(operation, `${method} ${template} is not described`);
  let answer = operation.responses[status];
  let path = `#/paths/${escaped(template)}/${method}/responses/${status}`;
  if (answer?.$ref) {
    path = answer.$ref;
    answer = path.slice(2).split("/").reduce((at, key) => at[key], described);
  }
  if (!answer) return undefined;
  if (!answer.content?.["application/json"]) return null;
  return ajv.compile({ $ref: `github${path}/content/application~1json/schema` });
}

const token = "a token of the test that may push";
const reader = "a token of the test that may read";

/** start starts a code host, and returns its address and what stops it. */
async function start(folder) {
  const host = spawn(fileURLToPath(new URL("../../bin/svc-codehost", import.meta.url)), {
    env: {
      PATH: process.env.PATH, SVC_CODEHOST_ADDR: "127.0.0.1:0", SVC_CODEHOST_CLIENT_ID: "svc", SVC_CODEHOST_CLIENT_SECRET: "a secret of the test",
      SVC_CODEHOST_CALLBACK: "http://127.0.0.1:4000/", SVC_CODEHOST_DIR: folder, SVC_CODEHOST_TOKEN: token, SVC_CODEHOST_READ_TOKEN: reader,
      SVC_CODEHOST_FAULTS: "true",
    },
  });
  const ended = new Promise((resolve) => host.on("exit", resolve));
  for await (const line of createInterface(host.stdout)) {
    const { msg, address } = JSON.parse(line);
    if (msg !== "listening") continue;
    host.stdout.resume();
    return {
      url: "http://" + address,
      stop: () => {
        host.kill("SIGTERM");
        return ended;
      },
    };
  }
  throw new Error("svc-codehost has ended");
}

const folder = mkdtempSync(tmpdir() + "/svc-codehost-test-");
const { url, stop } = await start(folder + "/host");
const wrong = [];

/** call sends a request, checks the status and the answer, and returns the answer. */
async function call(method, template, values, want, body, headers = {}) {
  const unused = { ...values };
  let path = template.replace(/\{(\w+)\}/g, (_, name) => {
    delete unused[name];
    return String(values[name]);
  });
  if (Object.keys(unused).length) path += "?" + new URLSearchParams(unused);
  const res = await fetch(url + "/api/v3" + path, {
    method,
    redirect: "manual",
    headers: { authorization: "Bearer " + token, ...headers },
    body: body && JSON.stringify(body),
  });
  const text = await res.text();
  assert.equal(res.status, want, `${method} ${path}: ${text}`);
  const answer = text && JSON.parse(text);
  const check = schemaOf(template, method.toLowerCase(), want);
  if (check === null && want < 400) assert.equal(text, "", `${method} ${path} has a body`);
  else if (!check) assert.ok(answer.message, `${method} ${path}: ${want} is not described`);
  else if (!check(answer)) {
    const seen = new Set(check.errors.filter((e) => e.keyword !== "anyOf" && e.keyword !== "oneOf").map((e) => `${e.instancePath} ${e.message}`));
    wrong.push(`${method} ${template} ${want}: ${[...seen].slice(0, 8).join("; ")}`);
  }
  return answer;
}

function git(...args) {
  return execFileSync("git", ["-C", folder + "/work", "-c", "user.name=Ada Lind", "-c", "user.email=ada@acme.example", ...args], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  }).trim();
}

/** push commits a change of a file to a new branch and pushes it. */
function push(branch, file, text) {
  git("checkout", "-q", "-b", branch, "origin/main");
  writeFileSync(folder + "/work/" + file, text);
  git("add", "-A");
  git("commit", "-q", "-m", "Change " + file);
  git("push", "-q", "origin", branch);
  return git("rev-parse", "HEAD");
}

try {
  const remote = url.replace("http://", "http://x-access-token:" + encodeURIComponent(token) + "@") + "/acme/web.git";
  execFileSync("git", ["clone", "-q", remote, folder + "/work"]);
  const web = { owner: "acme", repo: "web" };
  const repo = "/repos/{owner}/{repo}";

  await call("GET", "/user", {}, 200);
  await call("GET", "/user", {}, 401, undefined, { authorization: "Bearer wrong" });
  await call("GET", repo, web, 200);
  await call("GET", repo, { owner: "acme", repo: "none" }, 404);
  await call("GET", repo + "/rules/branches/{branch}", { ...web, branch: "main" }, 200);
  const main = git("rev-parse", "origin/main");

  await call("GET", repo + "/issues", { ...web, state: "all" }, 200);
  const issue = (await call("POST", repo + "/issues", web, 201, { title: "A title", body: "A body", labels: ["bug"] })).number;
  await call("POST", repo + "/issues", web, 422, { title: "" });
  await call("POST", repo + "/issues", web, 403, { title: "A title" }, { authorization: "Bearer " + reader });
  await call("GET", repo + "/issues/{issue_number}", { ...web, issue_number: issue }, 200);
  await call("GET", repo + "/issues/{issue_number}", { ...web, issue_number: 1 }, 404);
  await call("PATCH", repo + "/issues/{issue_number}", { ...web, issue_number: issue }, 200, { state: "closed", state_reason: "not_planned" });
  await call("PATCH", repo + "/issues/{issue_number}", { ...web, issue_number: issue }, 422, { state: "other" });
  const comment = (await call("POST", repo + "/issues/{issue_number}/comments", { ...web, issue_number: issue }, 201, { body: "A text" })).id;
  await call("POST", repo + "/issues/{issue_number}/comments", { ...web, issue_number: issue }, 422, { body: "" });
  await call("GET", repo + "/issues/{issue_number}/comments", { ...web, issue_number: issue }, 200);
  await call("GET", repo + "/issues/comments/{comment_id}", { ...web, comment_id: comment }, 200);
  await call("PATCH", repo + "/issues/comments/{comment_id}", { ...web, comment_id: comment }, 200, { body: "Another" });

  const head = push("run/1", "README.md", "# web\n\nChanged.\n");
  const pull = (await call("POST", repo + "/pulls", web, 201, { title: "Change", head: "run/1", base: "main", body: "Closes #2001" })).number;
  const one = { ...web, pull_number: pull };
  await call("POST", repo + "/pulls", web, 422, { title: "Again", head: "run/1", base: "main" });
  await call("POST", repo + "/pulls", web, 422, { title: "None", head: "none", base: "main" });
  await call("GET", repo + "/pulls", { ...web, state: "all", head: "acme:run/1" }, 200);
  await call("GET", repo + "/pulls/{pull_number}", one, 200);
  await call("GET", repo + "/pulls/{pull_number}", { ...web, pull_number: 1 }, 404);
  await call("PATCH", repo + "/pulls/{pull_number}", one, 200, { title: "Another title" });
  await call("GET", repo + "/issues", web, 200); // with a pull request
  await call("POST", repo + "/statuses/{sha}", { ...web, sha: head }, 201, { state: "success", context: "svc", target_url: url });
  await call("GET", repo + "/commits/{ref}/statuses", { ...web, ref: head }, 200);
  await call("PUT", repo + "/pulls/{pull_number}/merge", one, 409, { sha: main });
  await call("PUT", repo + "/pulls/{pull_number}/merge", one, 403, { sha: head }, { authorization: "Bearer " + reader });
  await call("PUT", repo + "/pulls/{pull_number}/merge", one, 200, { sha: head, merge_method: "squash" });
  await call("PUT", repo + "/pulls/{pull_number}/merge", one, 405, { sha: head });
  await call("GET", repo + "/pulls/{pull_number}", one, 200);

  await call("POST", "/orgs/{org}/repos", { org: "acme" }, 201, { name: "fresh", private: true });
  assert.deepEqual(wrong, []);
} finally {
  await stop();
  rmSync(folder, { recursive: true, force: true });
}
