// Starts the product, lints the description that it serves, makes clients of it
// in TypeScript and Go, and lets them talk to it. Says nothing but what is wrong.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const data = here + "data";
const dev = data + "/dev.json";

function run(command, args, folder = here) {
  const ran = spawnSync(command, args, { cwd: folder, encoding: "utf8" });
  assert.equal(ran.status, 0, `${command} ${args.join(" ")}\n${ran.stdout}${ran.stderr}`);
  return ran.stdout + ran.stderr;
}

async function start() {
  rmSync(data, { recursive: true, force: true });
  const anywhere = "127.0.0.1:0";
  const svc = spawn(here + "../../bin/svc", {
    stdio: "ignore",
    env: { ...process.env, SVC_DATA_DIR: data, SVC_REST_ADDR: anywhere, SVC_ENGINE_ADDR: anywhere, SVC_CODEHOST_ADDR: anywhere },
  });
  for (let i = 0; !existsSync(dev); i++) {
    assert.equal(svc.exitCode, null, "svc has ended");
    assert.ok(i < 1200, "svc does not start");
    await wait(100);
  }
  return svc;
}

const svc = await start();
try {
  const { restUrl } = JSON.parse(readFileSync(dev, "utf8"));
  for (const form of ["json", "yaml"]) {
    const answer = await fetch(`${restUrl}/api/openapi.${form}`);
    writeFileSync(`${here}openapi.${form}`, await answer.text());
    const linted = run("npx", ["redocly", "lint", "openapi." + form]);
    assert.doesNotMatch(linted, /You have \d+ (warning|error)/);
    run("npx", ["spectral", "lint", "--fail-severity=hint", "openapi." + form]);
  }
  run("npx", ["openapi-typescript", "openapi.json", "-o", "schema.d.ts"]);
  run("npx", ["tsc"]);
  run("node", ["build/smoke.js", dev]);
  run("go", ["generate", "."], here + "go");
  run("go", ["run", ".", dev], here + "go");
} finally {
  svc.kill("SIGTERM");
  if (svc.exitCode === null) await new Promise((ended) => svc.on("exit", ended));
  rmSync(data, { recursive: true, force: true });
}
