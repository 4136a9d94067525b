// The product as make run starts it, in a folder of its own.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const svc = fileURLToPath(new URL("../bin/svc", import.meta.url));

/**
 * start returns the file with the addresses of a running product, what is in it, and what stops
 * it and removes its folder. SVC_SEEDED names one that seed has filled: a copy of it starts in a
 * quarter of the time, and enrolls its runner anew, as its gateway has another address.
 */
export async function start({ seeded = process.env.SVC_SEEDED } = {}) {
  const data = mkdtempSync(tmpdir() + "/svc-");
  if (seeded) execFileSync("cp", ["-a", seeded + "/.", data]);
  const product = await run(data).catch((late) => {
    rmSync(data, { recursive: true, force: true });
    throw late;
  });
  const stop = async () => {
    await product.stop();
    rmSync(data, { recursive: true, force: true });
  };
  return { ...product, stop };
}

/** seed starts a product in a folder until its demonstration is there, and stops it. */
export async function seed(data) {
  const product = await run(data);
  await product.stop();
  rmSync(product.dev);
}

async function run(data) {
  const dev = data + "/dev.json";
  const anywhere = "127.0.0.1:0";
  const running = spawn(svc, {
    stdio: "ignore",
    env: { ...process.env, SVC_DATA_DIR: data, SVC_REST_ADDR: anywhere, SVC_ENGINE_ADDR: anywhere, SVC_CODEHOST_ADDR: anywhere, SVC_METRICS_ADDR: anywhere, SVC_GATEWAY_ADDR: anywhere, SVC_UI_ADDR: anywhere },
  });
  const stop = async () => {
    running.kill("SIGTERM");
    if (running.exitCode === null) await new Promise((ended) => running.on("exit", ended));
  };
  try {
    for (let i = 0; !existsSync(dev); i++) {
      assert.equal(running.exitCode, null, "svc has ended");
      assert.ok(i < 1200, "svc does not start");
      await wait(100);
    }
  } catch (late) {
    await stop();
    throw late;
  }
  const product = { dev, pid: running.pid, ...JSON.parse(readFileSync(dev, "utf8")), stop };
  await jobsDone(product);
  return product;
}

/** jobsDone waits until the jobs of the demonstration have ended. */
async function jobsDone({ restUrl, serviceAccounts }) {
  const { token } = serviceAccounts.find((account) => account.name === "reader");
  for (let i = 0; i < 600; i++) {
    const answer = await fetch(restUrl + "/api/v1/farm/jobs?status=active", { headers: { Authorization: "Bearer " + token } });
    assert.equal(answer.status, 200, await answer.clone().text());
    if ((await answer.json()).total === 0) return;
    await wait(100);
  }
  assert.fail("jobs of the demonstration do not end");
}
