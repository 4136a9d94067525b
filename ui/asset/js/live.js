// A shared worker: all tabs of one workspace share one connection. It keeps what came
// lately, so that a page that was made before misses nothing.
const feeds = new Map(); // of the address: {source, ports, seq, recent, state}
const kept = 500;

function open(address, seq) {
  const feed = { ports: new Set(), seq, recent: [], state: "connecting" };
  feed.source = connect(feed, address);
  feeds.set(address, feed);
  return feed;
}

function connect(feed, address) {
  const source = new EventSource(`${address}?after=${feed.seq}`);
  source.addEventListener("ready", () => tell(feed, "live"));
  source.addEventListener("happened", (e) => {
    const event = JSON.parse(e.data);
    feed.seq = Math.max(feed.seq, event.seq);
    feed.recent.push(event);
    if (feed.recent.length > kept) feed.recent.shift();
    for (const port of feed.ports) port.postMessage({ event });
  });
  source.addEventListener("over", () => { source.close(); tell(feed, "over"); });
  source.onerror = () => {
    tell(feed, "stale");
    if (source.readyState === EventSource.CLOSED) { // the answer was no stream
      feed.again = setTimeout(() => { feed.source = connect(feed, address); }, 3000);
    }
  };
  return source;
}

function tell(feed, state) {
  feed.state = state;
  for (const port of feed.ports) port.postMessage({ state });
}

function join(port, { address, seq }) {
  let feed = feeds.get(address);
  if (!feed || feed.state === "over") feed = open(address, seq);
  feed.ports.add(port);
  port.postMessage({ state: feed.state });
  if (seq < feed.seq && (!feed.recent.length || feed.recent[0].seq > seq + 1)) port.postMessage({ all: true });
  for (const event of feed.recent) if (event.seq > seq) port.postMessage({ event });
}

function leave(port) {
  for (const [address, feed] of feeds) {
    if (feed.ports.delete(port) && !feed.ports.size) {
      clearTimeout(feed.again);
      feed.source.close();
      feeds.delete(address);
    }
  }
}

function retry() {
  for (const [address, feed] of feeds) {
    if (feed.state !== "stale") continue;
    clearTimeout(feed.again);
    feed.source.close();
    feed.source = connect(feed, address);
  }
}

function serve(port) {
  port.onmessage = ({ data }) => {
    if (data.join) join(port, data.join);
    else if (data.leave) leave(port);
    else if (data.retry) retry();
  };
}

if ("SharedWorkerGlobalScope" in self) self.onconnect = (e) => serve(e.ports[0]);
else serve(self); // a worker of one tab, where there are no shared ones
