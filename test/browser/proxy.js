// A TCP proxy whose connections tests cut.
import { once } from "node:events";
import { connect, createServer } from "node:net";

/** cuttableProxy starts a TCP proxy to a URL's host, whose connections can be cut and restored. */
export async function cuttableProxy(to) {
  const { hostname, port } = new URL(to);
  const sockets = new Set();
  let up = true;
  const server = createServer((client) => {
    if (!up) return client.destroy();
    const target = connect(port, hostname);
    for (const [from, to] of [[client, target], [target, client]]) {
      sockets.add(from);
      from.on("error", () => to.destroy()).on("close", () => { sockets.delete(from); to.destroy(); }).pipe(to);
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = () => { up = false; sockets.forEach((socket) => socket.destroy()); };
  return { url: `http://127.0.0.1:${server.address().port}`, cut, restore: () => { up = true; }, close: () => { cut(); server.close(); } };
}
