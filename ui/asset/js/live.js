// A shared worker through which all tabs of a workspace share one connection. It keeps recent events, and sends those
// after its own position to a page that joins, so that the page misses nothing since it was rendered.
// feeds are by address: {source, ports, seq, recent, state, retryTimer}.
const feeds = new Map();
const maxRecent = 500;

function openFeed(address, seq) {
  const feed = { ports: new Set(), seq, recent: [], state: "connecting" };
  feed.source = connect(feed, address);
  feeds.set(address, feed);
  return feed;
}

function connect(feed, address) {
  const source = new EventSource(`${address}?after=${feed.seq}`);
  source.addEventListener("ready", () => setState(feed, "live"));
  source.addEventListener("happened", (e) => {
    const event = JSON.parse(e.data);
    feed.seq = Math.max(feed.seq, event.seq);
    feed.recent.push(event);
    if (feed.recent.length > maxRecent) feed.recent.shift();
    for (const port of feed.ports) port.postMessage({ event });
  });
  // A backup was restored: the numbers of events that are gone are used again.
  source.addEventListener("reset", (e) => {
    feed.seq = Number(e.lastEventId);
    feed.recent = [];
    for (const port of feed.ports) port.postMessage({ reset: true });
  });
  source.addEventListener("over", () => { source.close(); setState(feed, "over"); });
  source.onerror = () => {
    setState(feed, "stale");
    // The browser does not reconnect if the response was not an event stream.
    if (source.readyState === EventSource.CLOSED) {
      feed.retryTimer = setTimeout(() => { feed.source = connect(feed, address); }, 3000);
    }
  };
  return source;
}

function setState(feed, state) {
  feed.state = state;
  for (const port of feed.ports) port.postMessage({ state });
}

// join sends the page the events after seq, or tells it to refresh everything if some of them are no longer kept.
function join(port, { address, seq }) {
  let feed = feeds.get(address);
  if (!feed || feed.state === "over") feed = openFeed(address, seq);
  feed.ports.add(port);
  port.postMessage({ state: feed.state });
  if (seq < feed.seq && (!feed.recent.length || feed.recent[0].seq > seq + 1)) port.postMessage({ all: true });
  for (const event of feed.recent) if (event.seq > seq) port.postMessage({ event });
}

function leave(port) {
  for (const [address, feed] of feeds) {
    if (feed.ports.delete(port) && !feed.ports.size) {
      clearTimeout(feed.retryTimer);
      feed.source.close();
      feeds.delete(address);
    }
  }
}

function retry() {
  for (const [address, feed] of feeds) {
    if (feed.state !== "stale") continue;
    clearTimeout(feed.retryTimer);
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

// Browsers without shared workers run this as a worker of one tab.
if ("SharedWorkerGlobalScope" in self) self.onconnect = (e) => serve(e.ports[0]);
else serve(self);
