// Starts the product, lints the description that it serves, makes clients of it
// in TypeScript and Go, and lets them talk to it. Says nothing but what is wrong.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { start } from "../product.js";

const here = fileURLToPath(new URL(".", import.meta.url));

function run(command, args, folder = here) {
  const ran = spawnSync(command, args, { cwd: folder, encoding: "utf8" });
  assert.equal(ran.status, 0, `${command} ${args.join(" ")}\n${ran.stdout}${ran.stderr}`);
  return ran.stdout + ran.stderr;
}

const { restUrl, dev, stop } = await start();
try {
  const answer = await fetch(restUrl + "/api/openapi.json"); // test/api sees that .yaml says the same
  writeFileSync(here + "openapi.json", await answer.text());
  const linted = run("npx", ["redocly", "lint", "openapi.json"]);
  assert.doesNotMatch(linted, /You have \d+ (warning|error)/);
  run("npx", ["spectral", "lint", "--fail-severity=hint", "openapi.json"]);
  run("npx", ["openapi-typescript", "openapi.json", "-o", "schema.d.ts"]);
  run("npx", ["tsc"]);
  run("node", ["build/smoke.js", dev]);
  run("go", ["generate", "."], here + "go");
  run("go", ["run", ".", dev], here + "go");
} finally {
  await stop();
}
